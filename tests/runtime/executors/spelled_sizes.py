"""Recorded op cases with a huge number where an integer stands: every op that makes as much as a value or an attr says."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from placesim.ops.registry import load_registry
from tests.fuzz.surfaces.one_node import graph_of
from tests.ops.kernels.op_cases import FAMILIES, load_cases, load_image_cases, load_recorded_cases, load_varied_cases

HUGE = {"int32": (2**31 - 1, 2**28), "int64": (2**62, 2**31 - 1)}
"""By type: what a number of elements may be put to."""
MAX_ELEMENTS = 16
"""Of an input whose numbers are changed one by one: what spells a size is short."""
_NO_SIZE = ("seed", "seed2", "random_seed", "timeout_ms", "capacity", "memory_limit", "parallel_iterations")


@cache
def cases_by_op() -> dict[str, dict[str, Any]]:
    """For each op with a recorded case that succeeds and a number in it the first such case."""
    found: dict[str, dict[str, Any]] = {}
    recorded = (load_recorded_cases(), load_varied_cases(), load_image_cases())
    for source in (*map(load_cases, FAMILIES), *recorded):
        for case in source:
            if case["op"] not in found and not case.get("error") and any(True for _ in _changes(case)):
                found[case["op"]] = case
    return found


def graphs(op: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The case of an op with one number changed at a time: what was changed, and the graph."""
    case = cases_by_op()[op]
    for what, inputs, attrs in _changes(case):
        yield what, _graph(op, inputs, attrs, len(case.get("outputs") or ()))


def _graph(op: str, inputs: list[Any], attrs: dict[str, Any], outputs: int) -> dict[str, Any]:
    definition = load_registry().op(op)
    assert definition is not None
    is_resource = any(arg.dtype is not None and arg.dtype.name == "resource" for arg in definition.inputs)
    tensors = [{**tensor, "var": "resource" if is_resource else "ref"} if tensor.get("var") else tensor for tensor in inputs]
    spelled = {
        name: {"tensor": value} if isinstance(value, dict) and "dtype" in value else value for name, value in attrs.items()
    }
    return graph_of(op, tensors, spelled, outputs or len(definition.outputs))


def _changes(case: dict[str, Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    for index, tensor in enumerate(case["inputs"]):
        for huge in HUGE.get(tensor.get("dtype"), ()):
            for path in _numbers(tensor.get("value")):
                inputs = copy.deepcopy(case["inputs"])
                inputs[index]["value"] = _with(inputs[index]["value"], path, huge)
                yield f"input {index}{list(path)} {huge}", inputs, case["attrs"]
    definition = load_registry().op(case["op"])
    for name, attr in definition.attrs.items() if definition is not None else ():
        if attr.type in ("int", "list(int)") and name in case["attrs"] and name not in _NO_SIZE:
            for path in _numbers(case["attrs"][name]):
                attrs = {**case["attrs"], name: _with(copy.deepcopy(case["attrs"][name]), path, 2**31 - 1)}
                yield f"attr {name}{list(path)}", case["inputs"], attrs


def _numbers(value: Any) -> list[tuple[int, ...]]:
    """Where numbers stand in nested lists, as far as they are few."""
    if not isinstance(value, list):
        return [()] if isinstance(value, int) and not isinstance(value, bool) else []
    found = [(index, *path) for index, part in enumerate(value) for path in _numbers(part)]
    return found if len(found) <= MAX_ELEMENTS else []


def _with(value: Any, path: tuple[int, ...], huge: int) -> Any:
    if not path:
        return huge
    value[path[0]] = _with(value[path[0]], path[1:], huge)
    return value
