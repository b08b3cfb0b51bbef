"""How long an ONNX model takes to load, beside `onnx.load` of the same file; and how that grows with its nodes.

    python -m tests.benchmarks.onnx_bench

Models are files of 100 MB of weights, and of chains of sums and products.  Each is the best of some rounds, both sides in turn;
`!` marks a ratio over its limit.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from placesim.formats.sources.loading import load
from tests.formats.onnx.models import info, model, node, tensor

WEIGHTS, WIDTH = 25, 1000
"""Matrices of `[WIDTH, WIDTH]` in float32: 4 MB each."""
SIZES = (12_500, 25_000, 50_000)
MAX_RATIO = 2.0
ROUNDS = 3


def weights() -> Any:
    """A model that multiplies by one matrix after the other."""
    random = np.random.default_rng(0)
    matrices = [tensor(f"w{i}", random.random((WIDTH, WIDTH), np.float32)) for i in range(WEIGHTS)]
    nodes = [node("MatMul", f"x{i} w{i}", f"x{i + 1}") for i in range(WEIGHTS)]
    return model(nodes, [info("x0", [1, WIDTH])], [info(f"x{WEIGHTS}", [1, WIDTH])], *matrices)


def chain(count: int) -> Any:
    """A model of so many elementwise nodes."""
    nodes = [node(("Add", "Mul")[i % 2], f"x{i} c", f"x{i + 1}") for i in range(count)]
    return model(nodes, [info("x0", [4])], [info(f"x{count}", [4])], tensor("c", np.ones(4, np.float32)))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(name: str, proto: Any, limit: float | None = None) -> None:
    """Print a model's times."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.onnx")
        path.write_bytes(proto.SerializeToString())
        turns = [(seconds(lambda: onnx.load(path)), seconds(lambda: load(str(path)))) for _ in range(ROUNDS)]
    theirs, ours = (min(side) for side in zip(*turns, strict=True))
    mark = " !" if limit is not None and ours > limit * theirs else ""
    print(f"{name:24} onnx.load {theirs * 1e3:9.1f} ms   placesim {ours * 1e3:9.1f} ms   x {ours / theirs:.2f}{mark}")


def main() -> None:
    compare("100 MB of weights", weights(), MAX_RATIO)
    for count in SIZES:
        compare(f"{count:,} nodes", chain(count))


if __name__ == "__main__":
    main()
