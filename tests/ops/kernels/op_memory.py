"""The recorded memory of single kernels: run a case's rule, and say how it differs from what TensorFlow did.

`python -m tests.ops.kernels.op_memory FILE [--op OP ...] [--id TEXT] [--show N]` prints agreed / total and the first
differences, and exits 1 where a case differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.dtypes import RESOURCE, parse_dtype
from placesim.core.errors import PlacesimError
from placesim.machine.memory.buffers import Buffer, foreign_buffer
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.memory_rules import KernelMemory, TensorMemory, VariableMemory, aliases
from tests.ops.kernels.op_cases import FAMILIES, REWRITTEN, Case, load_cases

COLUMNS = ("sole", "shared", "fed")
"""Each input in a buffer of its own, also fetched, or fed by the client."""


class RecordingSource:
    """A source without a limit that writes down what it is asked, as the recordings do."""

    def __init__(self) -> None:
        self.made: list[Buffer] = []
        self.freed: list[Buffer] = []

    def allocate(self, size: int, owner: str) -> Buffer:
        buffer = Buffer(self, size, -(-size // 256) * 256, owner)
        self.made.append(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        self.freed.append(buffer)


@cache
def _recorded_ops() -> dict[str, Mapping[str, Any]]:
    return {recorded["id"]: recorded for family in FAMILIES for recorded in load_cases(family)}


def load_memory_cases(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a recording of memory-ops' form."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as lines:
        yield from map(json.loads, lines)


class MemoryCase:
    """One recorded kernel: its op case with the values of its inputs, and what its memory was in each column."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self.recorded = recorded
        op_case = _recorded_ops().get(recorded["id"]) or _with_values(recorded)
        if recorded["op"] == "ParallelConcat":
            # a graph pass has replaced it; under its name stands an Identity of what the pass put there
            op_case = {**op_case, "op": "Identity", "inputs": op_case["outputs"], "attrs": {"T": op_case["attrs"]["T"]}}
        self.case = Case(op_case)
        # a rewritten node's name goes to the last of those that do its work, which hands the sum on
        self.rule = aliases(0) if self.case.op in REWRITTEN else self.case.kernel.memory
        values = self._run()
        self.outputs = [_output(value) for value in values]
        self.text_bytes = [_text_bytes(value) for value in values]

    def _run(self) -> Sequence[Any]:
        return self.case.run()[0]

    def differences(self) -> Iterator[str]:
        """Every way in which the case's columns differ from the recording."""
        for column in COLUMNS:
            expected = self.recorded.get(column)
            if expected is not None and "error" not in expected:
                yield from (f"{column}: {difference}" for difference in self._column_differences(column, expected))

    def _column_differences(self, column: str, expected: Mapping[str, Any]) -> Iterator[str]:
        pool = RecordingSource()
        inputs, variables = self._inputs(column, pool)
        before = [tensor.buffer for tensor in inputs]
        known = len(pool.made)
        dtypes = [dtype for arg in self.case.definition.outputs for dtype in arg.dtypes(self.case.attrs)]
        is_ref = [arg.is_ref for arg in self.case.definition.outputs for _ in arg.dtypes(self.case.attrs)]
        outputs = [TensorMemory(dims, dtype, is_ref=ref) for dims, dtype, ref in zip(self.outputs, dtypes, is_ref, strict=True)]
        memory = KernelMemory("op", inputs, outputs, self.case.attrs, pool, variables=variables)
        memory.run(self.rule)
        made, old = pool.made[known:], [buffer for buffer in pool.freed if buffer in pool.made[:known]]
        results = [
            next((v.buffer for v in variables.values()), None) if ref else tensor.buffer
            for tensor, ref in zip(outputs, is_ref, strict=True)
        ]
        found = [_origin(buffer, before, made) for buffer in results]
        wanted = [
            _expected_origin(facts, expected["allocs"], tensor, inputs)
            for facts, tensor in zip(expected["outputs"], outputs, strict=True)
        ]
        if found != wanted:
            yield f"outputs {found}, expected {wanted}"
        sizes = [tensor.size + text for tensor, text in zip(outputs, self.text_bytes, strict=True)]
        if sizes != [facts["bytes"] for facts in expected["outputs"]]:
            yield f"bytes {sizes}, expected {[facts['bytes'] for facts in expected['outputs']]}"
        found_allocations = [
            (buffer.size, "output" if buffer in results else "temp" if buffer in pool.freed else "kept") for buffer in made
        ]
        wanted_allocations = [(a["bytes"], a["for"]) for a in expected["allocs"] if "bytes" in a]
        if found_allocations != wanted_allocations:
            yield f"allocations {found_allocations}, expected {wanted_allocations}"
        frees = sum("frees_other" in a for a in expected["allocs"])
        if len(old) != frees:
            yield f"frees {len(old)} old buffers, expected {frees}"

    def _inputs(self, column: str, pool: RecordingSource) -> tuple[list[TensorMemory], dict[int, VariableMemory]]:
        """The inputs' memory in a column, and that of the variables that they name."""
        tensors: list[TensorMemory] = []
        variables: dict[int, VariableMemory] = {}
        args = [(arg, dtype) for arg in self.case.definition.inputs for dtype in arg.dtypes(self.case.attrs)]
        for index, ((dtype, array), (arg, wants)) in enumerate(zip(self.case.tensors, args, strict=True)):
            is_variable = bool(self.case.recorded["inputs"][index].get("var"))
            dims = () if array is None else array.shape
            tensor = TensorMemory(dims, dtype, value=array, is_ref=arg.is_ref)
            if is_variable:
                held = variables[index] = VariableMemory()
                if array is not None and tensor.size:
                    held.buffer = pool.allocate(tensor.size, "variable")
                if wants is RESOURCE:
                    tensor = TensorMemory((), RESOURCE, foreign_buffer(200))
                elif held.buffer is not None:
                    tensor.buffer = held.buffer if arg.is_ref else held.buffer.hold()
            elif tensor.size:
                tensor.buffer = foreign_buffer(tensor.size) if column == "fed" else pool.allocate(tensor.size, "input")
                if column != "sole":
                    tensor.buffer.hold()
            tensors.append(tensor)
        return tensors, variables


def _output(value: Any) -> tuple[int, ...]:
    return () if isinstance(value, ResourceHandle) or value is None else np.shape(value)


def _text_bytes(value: Any) -> int:
    """What a string tensor's texts add to the bytes that TensorFlow says it has."""
    return sum(map(len, value.flat)) if isinstance(value, np.ndarray) and value.dtype == object else 0


def _with_values(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A case that carries its own inputs; what it calls random becomes numbers."""
    inputs = []
    for facts in recorded["inputs"]:
        facts = dict(facts)
        limit = facts.pop("random", None)
        if limit is not None:
            # the recorder's own numbers, on which the sizes of some outputs depend
            random, shape = np.random.default_rng(0), tuple(facts["shape"])
            values = random.random(shape) * 2 if limit is True else random.integers(0, limit, shape)
            facts["value"] = values.tolist()
            if parse_dtype(facts["dtype"]).is_complex:
                facts["value"] = np.stack([values, values], -1).tolist()
        inputs.append(facts)
    return {**recorded, "inputs": inputs, "error": None}


def _origin(buffer: Buffer | None, inputs: Sequence[Buffer | None], made: Sequence[Buffer]) -> str:
    if buffer is None:
        return "empty"
    if buffer in made:
        return f"new {made.index(buffer)}"
    for index, given in enumerate(inputs):
        if given is buffer:
            return f"input {index}"
        if given is not None and buffer.root is given.root:
            return f"inside input {index}"
    return "other"


def _expected_origin(
    facts: Mapping[str, Any], allocations: Sequence[Mapping[str, Any]], output: TensorMemory, inputs: Sequence[TensorMemory]
) -> str:
    origin = str(facts["from"])
    if origin == "new":
        made = [index for index, allocation in enumerate(allocations) if "bytes" in allocation]
        return f"new {made.index(facts['alloc'])}"
    # the first part of an input starts where the input does
    is_part = origin.startswith("input ") and output.size < inputs[int(origin.split()[1])].size
    return f"inside {origin}" if is_part else origin


def differences(recorded: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which a case's columns differ from the recording."""
    try:
        yield from MemoryCase(recorded).differences()
    except PlacesimError as error:
        yield f"fails: {error.message}"


def compare(path: Path, ops: Sequence[str] = (), wanted: str = "", show: int = 20) -> tuple[int, int]:
    """Agreed and total cases of a file; prints the first differences."""
    agreed = total = shown = 0
    by_op: Counter[str] = Counter()
    for recorded in load_memory_cases(path):
        if (ops and recorded["op"] not in ops) or wanted not in recorded["id"]:
            continue
        total += 1
        try:
            found = list(MemoryCase(recorded).differences())
        except PlacesimError as error:
            found = [f"fails: {error.message}"]
        agreed += not found
        if found:
            by_op[recorded["op"]] += 1
        if found and shown < show:
            shown += 1
            print(f"{recorded['id']}: inputs {[f['shape'] for f in MemoryCase(recorded).case.recorded['inputs']]}")
            print("".join(f"    {line}\n" for line in found), end="")
    print(f"{path.name}: {agreed} / {total} agreed; differing: {dict(by_op.most_common())}")
    return agreed, total


def main() -> int:
    """Print the figures; 1 where a case differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--op", action="append", default=[])
    parser.add_argument("--id", default="")
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    results = [compare(path, options.op, options.id, options.show) for path in options.files]
    return 0 if all(agreed == total for agreed, total in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
