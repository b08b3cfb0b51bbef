"""A recorded graph against TensorFlow's: the first difference, in words."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType, parse_dtype
from placesim.formats.tensorflow.function_def import REST
from placesim.formats.tensorflow.node_def import read_rest
from placesim.graph.graph import LibraryFunction, NodeDef
from placesim.ops.attributes import FunctionName, Placeholder, Shape, TensorValue
from placesim.ops.registry import load_registry
from tests.tf1.corpus import Record

_TRACEBACK = re.compile(r"\s*\n(?:  File .*\n(?:    .*\n)*)+")
"""What the recordings replaced in messages."""
_HEAD = re.compile(r"^Graph execution error:\n\n(?:Detected at node .*\n(?:    .*\n)*Node: .*\n)*")
"""What the recordings left out of messages: places in the script."""
_NUMBERED = re.compile(r"_\d+$")


class Difference(Exception):
    """Where two recordings part."""


def first_difference(expected: Record, got: Record) -> str | None:
    """What differs first; None where everything agrees."""
    if "died" in got:
        return str(got["died"])
    try:
        _compare_exceptions(expected, got)
        _compare_graphs(expected, got)
        _same("stdout", expected["stdout"], got["stdout"])
        _compare_exits(expected, got)
        if "session" in expected and got["session"]:
            _same("sessions made", expected["session"], got["session"])
    except Difference as error:
        return str(error)
    return None


def graph_difference(expected: Record, got: Record) -> str | None:
    """As `first_difference`, of the graphs alone."""
    try:
        _compare_graphs(expected, got)
    except Difference as error:
        return str(error)
    return None


def nodes_that_agree(expected: Record, got: Record) -> tuple[int, int]:
    """How many of TensorFlow's nodes are there as they are, by name in the graph of the same number, and of how many."""
    agreed = total = 0
    ours: list[Any] = got.get("graph", [])
    for index, wanted in enumerate(expected["graph"]):
        found = ours[index] if index < len(ours) else {"node": [], "function": []}
        functions = _renaming(wanted, found)
        by_name = {node[0]: node for node in found["node"]}
        for node in wanted["node"]:
            total += 1
            with contextlib.suppress(Difference, KeyError):
                _compare_node("", node, by_name[node["name"]], functions)
                agreed += 1
    return agreed, total


def _same(what: str, expected: Any, got: Any) -> None:
    if expected != got:
        if isinstance(expected, str) and isinstance(got, str):
            pairs = zip([*expected.splitlines(), "<end>"], [*got.splitlines(), "<end>"], strict=False)
            line = next(((a, b) for a, b in pairs if a != b), (expected[-200:], got[-200:]))
            expected, got = line
        raise Difference(f"{what}:\n    expected {expected!r}\n    got      {got!r}")


def _compare_exceptions(expected: Record, got: Record) -> None:
    wanted, found = expected.get("exception"), got.get("exception")
    if found is None and wanted is None:
        return
    if found is None or wanted is None:
        raise Difference(f"exception:\n    expected {wanted}\n    got      {found and found['trace']}")
    for key in ("type", "line"):
        if wanted[key] != found[key]:
            raise Difference(f"exception's {key}:\n    expected {wanted}\n    got      {found['trace']}")
    _same("exception's message", *(_TRACEBACK.sub(" <traceback>", _HEAD.sub("", each["message"])) for each in (wanted, found)))


def _compare_exits(expected: Record, got: Record) -> None:
    if expected["mode"] != "stop":
        _same("exit", expected.get("exit"), got.get("exit"))


def _compare_graphs(expected: Record, got: Record) -> None:
    for index, (wanted, found) in enumerate(zip(expected["graph"], got["graph"], strict=False)):
        place = f"graph {index}: " if len(expected["graph"]) > 1 else ""
        _compare_graph(place, wanted, found)
    _same("number of graphs", len(expected["graph"]), len(got["graph"]))


def _compare_graph(place: str, wanted: Record, found: Record) -> None:
    functions = _renaming(wanted, found)
    for index, (node, ours) in enumerate(zip(wanted["node"], found["node"], strict=False)):
        _compare_node(f"{place}node {index} {node['name']}", node, ours, functions)
    more, fewer = wanted["node"][len(found["node"]) :], found["node"][len(wanted["node"]) :]
    if more:
        raise Difference(f"{place}{len(more)} nodes are missing, the first {more[0]['name']} ({more[0]['op']})")
    if fewer:
        raise Difference(f"{place}{len(fewer)} nodes too many, the first {fewer[0][0]} ({fewer[0][1]})")
    _compare_library(place, wanted.get("function") or [], found["function"], functions)
    for name, outputs in wanted["outputs"].items():
        shapes = [(dtype, dims and tuple(-1 if dim is None else dim for dim in dims)) for dtype, dims in outputs]
        shapes = [(dtype, () if dims == [] else dims) for dtype, dims in shapes]
        _same(f"{place}outputs of {name}", shapes, [tuple(item) for item in found["outputs"].get(name, [])])
    _same(f"{place}collections", sorted(wanted["collection"]), sorted(found["collection"]))
    for name, items in wanted["collection"].items():
        _same(f"{place}collection {name}", items, found["collection"][name])
    for key in ("default", "seed"):
        _same(place + key, wanted[key], found[key])


def _compare_node(place: str, wanted: Record, found: Sequence[Any], functions: dict[str, str]) -> None:
    name, op, inputs, device, attrs = found
    _same(f"{place}: name (op)", (wanted["name"], functions.get(wanted["op"], wanted["op"])), (name, op))
    _same(f"{place}: inputs", wanted.get("input", []), list(inputs))
    _same(f"{place}: device", wanted.get("device", ""), device)
    _compare_attrs(place, wanted.get("attr", {}), attrs, functions)


def _compare_attrs(place: str, wanted: Record, found: Any, functions: dict[str, str]) -> None:
    _same(f"{place}: attrs", sorted(wanted), sorted(found))
    for name, value in wanted.items():
        if not _is_value(value, found[name], functions):
            raise Difference(f"{place}: attr {name}:\n    expected {str(value)[:300]}\n    got      {str(found[name])[:300]}")


def _is_value(wanted: Record, found: Any, functions: dict[str, str]) -> bool:
    ((kind, value),) = wanted.items()
    if kind == "list":
        items = [{key: item} for key, values in value.items() for item in values]
        return (
            isinstance(found, tuple)
            and len(items) == len(found)
            and all(_is_value(item, ours, functions) for item, ours in zip(items, found, strict=True))
        )
    if kind == "type":
        return isinstance(found, DataType) and found.enum_name == value
    if kind == "shape":
        return isinstance(found, Shape) and found.dims == (None if value is None else tuple(value))
    if kind == "s":
        return isinstance(found, str) and found == value
    if kind == "b64":
        data = found.encode() if isinstance(found, str) else found
        return isinstance(data, bytes) and data == base64.b64decode(value)
    if kind == "i":
        return isinstance(found, int) and not isinstance(found, bool) and found == value
    if kind == "f":
        return isinstance(found, float) and _single(found) == _single(float(value))
    if kind == "b":
        return found is value
    if kind == "tensor":
        return isinstance(found, TensorValue) and _is_tensor(value, found)
    if kind == "func":
        return (
            isinstance(found, FunctionName)
            and functions.get(value["name"], value["name"]) == found.name
            and value["attr"].keys() == dict(found.attrs).keys()
        )
    if kind == "placeholder":
        return isinstance(found, Placeholder) and found.name == value
    raise AssertionError(kind)


def _single(value: float) -> bytes:
    return struct.pack("f", np.float32(value))


def _is_tensor(wanted: Record, found: TensorValue) -> bool:
    array = np.asarray(found.array)
    if found.dtype.enum_name != wanted["dtype"] or list(array.shape) != wanted["shape"]:
        return False
    if "sha256" in wanted:
        return hashlib.sha256(_content(found.dtype, array)).hexdigest() == str(wanted["sha256"])
    values = [_element(value, found.dtype) for value in wanted["values"]]
    if found.dtype.numpy_name == "object_":
        ours = [item.encode() if isinstance(item, str) else bytes(item) for item in array.reshape(-1).tolist()]
        return values == ours
    expected = np.array(values, dtype=found.dtype.numpy)
    return expected.tobytes() == array.astype(found.dtype.numpy).reshape(-1).tobytes() or bool(
        np.array_equal(expected, array.reshape(-1), equal_nan=True)
    )


def _element(value: Any, dtype: DataType) -> Any:
    if dtype.name == "string":
        if isinstance(value, dict):
            return base64.b64decode(value["b64"])
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, list):
        return complex(*value)
    return float(value) if isinstance(value, str) else value


def _content(dtype: DataType, array: np.ndarray[Any, Any]) -> bytes:
    if dtype.name == "string":
        return b"".join(struct.pack("<q", len(item)) + item for item in array.reshape(-1).tolist())
    return np.ascontiguousarray(array).tobytes()


# --- the library ----------------------------------------------------------------------------------------------------


def _renaming(wanted: Record, found: Record) -> dict[str, str]:
    """TensorFlow's names of functions -> ours: those that differ in their numbers alone, in the order of these."""
    theirs, ours = (
        sorted(names, key=_number)
        for names in (
            [function["name"] for function in wanted.get("function") or []],
            [function.name for function in found["function"]],
        )
    )
    renamed: dict[str, str] = {}
    left = list(ours)
    for name in theirs:
        match = next((one for one in left if _NUMBERED.sub("", one) == _NUMBERED.sub("", name)), None)
        if match is not None:
            left.remove(match)
            renamed[name] = match
    return renamed


def _number(name: str) -> tuple[str, int]:
    digits = _NUMBERED.search(name)
    return _NUMBERED.sub("", name), int(digits.group()[1:]) if digits else -1


def _compare_library(place: str, wanted: list[Record], found: list[LibraryFunction], functions: dict[str, str]) -> None:
    _same(f"{place}functions", sorted(functions.get(f["name"], f["name"]) for f in wanted), sorted(f.name for f in found))
    by_name = {function.name: function for function in found}
    for function in wanted:
        ours = by_name[functions[function["name"]]]
        where = f"{place}function {function['name']}"
        for key, args in (("input_arg", ours.inputs), ("output_arg", ours.outputs)):
            theirs = [(arg["name"], arg.get("type")) for arg in function[key]]
            _same(f"{where}: {key}", theirs, [(arg.name, arg.dtype and arg.dtype.enum_name) for arg in args])
        for node, one in zip(function["node"], ours.nodes, strict=False):
            _compare_node(f"{where}: node {node['name']}", node, list(_body_node(one)), functions)
        _same(f"{where}: number of nodes", len(function["node"]), len(ours.nodes))
        _same(f"{where}: ret", function["ret"], {arg.name: arg.value for arg in ours.outputs})
        _same(f"{where}: control_ret", function["control_ret"], dict(ours.control_outputs))
        _compare_attrs(where, function["attr"], {k: v for k, v in ours.attrs.items() if k != REST}, functions)
        rest = read_rest("FunctionDef", ours.attrs.get(REST))
        _same(f"{where}: is_stateful", function["is_stateful"], rest is not None and rest.signature.is_stateful)


def _body_node(node: NodeDef) -> Iterator[Any]:
    definition = load_registry().op(node.op)
    defaults = {} if definition is None else {a.name: a.default for a in definition.attrs.values() if a.has_default}
    yield from (node.name, node.op, node.inputs, node.device, defaults | dict(node.attrs))


__all__ = ["Difference", "first_difference", "graph_difference", "parse_dtype"]
