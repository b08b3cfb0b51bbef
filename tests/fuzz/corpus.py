"""What the tests' data and the examples hold, as material for mutations; large cases are left out."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"
_PLACEMENTS = ("small", "medium", "hostile", "fetch", "cluster", "functions", "models", "subset")
_MAX_CHARACTERS = 20_000


@cache
def lines(name: str) -> tuple[str, ...]:
    """The lines of a file of the data that are not too long, as JSON."""
    path = DATA / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return tuple(line for line in text.decode().splitlines() if len(line) <= _MAX_CHARACTERS)


@cache
def examples() -> tuple[bytes, ...]:
    """The files of `graphs/`."""
    return tuple(path.read_bytes() for path in sorted((ROOT / "graphs").glob("*.yaml")))


def recorded_graph(rng: Random) -> dict[str, Any]:
    """A graph file that was recorded with TensorFlow."""
    name = rng.choice((*(f"placement-{name}.jsonl.gz" for name in _PLACEMENTS), "building.jsonl", "list-graphs.jsonl.gz"))
    case = json.loads(rng.choice(lines(name)))
    graph: dict[str, Any] = case["graph"]
    if name.startswith("list-"):
        graph["run"] = [{"fetch": case["fetch"]}]
    return graph


@cache
def op_files() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in DATA.glob("*ops*.jsonl.gz")))


def op_case(rng: Random) -> dict[str, Any]:
    """One op with its inputs and attrs."""
    case: dict[str, Any] = json.loads(rng.choice(lines(rng.choice(op_files()))))
    return case


@cache
def tensorflow_files() -> dict[str, bytes]:
    """The files that TensorFlow wrote, by their paths below the data."""
    return {
        path.relative_to(DATA / "tensorflow-files").as_posix(): path.read_bytes()
        for path in sorted((DATA / "tensorflow-files").rglob("*"))
        if path.is_file() and path.suffix != ".json"
    }


@cache
def onnx_files() -> tuple[bytes, ...]:
    """Models that PyTorch, ONNX Runtime and skl2onnx wrote, those that are small, and the cases of single nodes."""
    from tests.formats.onnx.row_cases import all_cases, proto_of

    paths = (path for folder in ("onnx", "onnx-sklearn") for path in sorted((DATA / folder).glob("*.onnx")))
    found = [path.read_bytes() for path in paths] + [proto_of(case).SerializeToString() for case in all_cases().values()]
    return tuple(content for content in found if len(content) <= 5 * _MAX_CHARACTERS)
