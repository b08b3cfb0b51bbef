"""Random training programs in TensorFlow and here, and the first difference of each: `make fuzz-tensorflow SEEDS=0:100`.

TensorFlow runs in a Python of its own: $TENSORFLOW_PYTHON, or the one that `--python` names, with tf_keras; its oneDNN and its
graph optimizer are off, and each side has one thread.  Graphs agree node for node, with static shapes; so do placements on
three CPUs, and errors.  Losses and variables of each step agree within rounding, which grows from step to step.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from tests.processes import run_process

_HERE = Path(__file__).parent
_BATCH = 25
"""Programs in one process of a side."""
_TOLERANCES = {"float64": 1e-5, "float32": 2e-3, "float16": 5e-2}
"""Of the largest element of a tensor."""
_LEAST = 1e-3
"""A tensor whose elements are smaller than this is compared as if one was as large."""
_SETTINGS = {"TF_USE_LEGACY_KERAS": "1", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "0", "CUDA_VISIBLE_DEVICES": ""}
_RECORD_HERE = (
    "import sys; from placesim.tf1.importing import import_hook; import_hook.install(); sys.path.insert(0, sys.argv[1]); "
    "import placesim, random_trainings as found\n"
    "with placesim.machine(cpu=found.DEVICES): found.main(*sys.argv[2:])"
)
_KERNELS = re.compile(r"(with these attrs|Registered kernels).*", re.DOTALL)
"""The end of a message that names kernels: those of a whole wheel of TensorFlow, with attrs in the order of a hash table."""
Record = dict[str, Any]


def records_here(seeds: Iterable[int]) -> list[Record]:
    """What placesim makes of the programs of some seeds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.jsonl")
        run_process((sys.executable, "-c", _RECORD_HERE, str(_HERE), str(path), *map(str, seeds)), check=True)
        return list(_read(path))


def _records_there(python: str, seeds: Iterable[int]) -> list[Record]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | _SETTINGS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.jsonl")
        command = [python, str(_HERE / "random_trainings.py"), str(path), *map(str, seeds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{python} with TensorFlow and tf_keras ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
        return list(_read(path))


def _read(path: Path) -> Iterator[Record]:
    with path.open() as lines:
        yield from map(json.loads, lines)


def first_difference(expected: Record, got: Record) -> str | None:
    """What differs first of a program; None where everything agrees."""
    if (wanted := _error(expected)) != (found := _error(got)):
        return f"error:\n  expected {wanted}\n  got      {found}"
    for i, (node, ours) in enumerate(zip(expected["nodes"], got["nodes"], strict=False)):
        if not _is_node(node, ours):
            return f"node {i}:\n  expected {node}\n  got      {ours}"
    if len(expected["nodes"]) != len(got["nodes"]):
        return f"{len(got['nodes'])} nodes instead of {len(expected['nodes'])}"
    for placed, ours in zip_longest(expected.get("placed", ()), got.get("placed", ())):
        if placed != ours:
            return f"placement:\n  expected {placed}\n  got      {ours}"
    for i, (step, ours) in enumerate(zip(expected["steps"], got["steps"], strict=True)):
        values = {"loss": (step[0], ours[0])} if i else {}
        values |= {name: (value, ours[1][name]) for name, value in step[1].items()}
        for name, (value, our_value) in values.items():
            if not _is_close(value, our_value):
                return f"step {i}: {name}:\n  expected {value}\n  got      {our_value}"
    return None


def _error(record: Record) -> str | None:
    return _KERNELS.sub("", record["error"]) if "error" in record else None


def _is_node(node: Sequence[Any], ours: Sequence[Any]) -> bool:
    """Name, op, inputs, device, attrs and static shapes of a node; a constant's numbers may be rounded otherwise."""
    *before, attrs, shapes = node
    *our_before, our_attrs, our_shapes = ours
    if before != our_before or shapes != our_shapes or attrs.keys() != our_attrs.keys():
        return False
    return all(value == our_attrs[name] or _is_constant(value, our_attrs[name]) for name, value in attrs.items())


def _is_constant(value: Any, ours: Any) -> bool:
    if isinstance(value, str) or isinstance(ours, str) or value[:2] != ours[:2] or "float" not in value[0]:
        return False
    numbers, our_numbers = (
        np.array(json.loads(text.replace("nan", "NaN").replace("inf", "Infinity"))) for text in (value[2], ours[2])
    )
    return bool(np.allclose(numbers, our_numbers, rtol=1e-6, equal_nan=True))


def _is_close(value: Sequence[Any], ours: Sequence[Any]) -> bool:
    """Whether two tensors (type, shape, elements) agree within rounding."""
    if list(value[:2]) != list(ours[:2]):
        return False
    numbers, our_numbers = np.array(value[2], float), np.array(ours[2], float)
    tolerance = _TOLERANCES.get(value[0], 0.0)
    largest = max(float(np.max(np.abs(numbers[np.isfinite(numbers)]), initial=0)), _LEAST)
    return bool(np.allclose(numbers, our_numbers, rtol=tolerance, atol=tolerance * largest, equal_nan=True))


def main(arguments: Sequence[str]) -> int:
    """The command line; 1 where a program differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="from the first to before the last")
    parser.add_argument("--python", default=os.environ.get("TENSORFLOW_PYTHON", "python"))
    parser.add_argument("--write", type=Path, help="write TensorFlow's records to this file")
    options = parser.parse_args(arguments)
    first, last = map(int, options.seeds.split(":"))
    differing = nodes = 0
    for begin in range(first, last, _BATCH):
        seeds = range(begin, min(begin + _BATCH, last))
        recorded = _records_there(options.python, seeds)
        if options.write is not None:
            with options.write.open("a") as lines:
                lines.writelines(json.dumps(record) + "\n" for record in recorded)
        for record, ours in zip(recorded, records_here(seeds), strict=True):
            nodes += len(record["nodes"])
            if (difference := first_difference(record, ours)) is not None:
                differing += 1
                print(f"seed {record['seed']}: {difference}", flush=True)
    print(f"{last - first} programs, {nodes} nodes: {differing} programs differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
