"""Conditionals and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.formats.onnx.bodies import IterationResult, conditional, inline_body, read_body, reader_of, repeat, scalar
from placesim.formats.onnx.lists import INT64, tensor_value
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, UnsupportedNodeError
from placesim.formats.onnx.values import Value
from placesim.graph.graph import TensorRef


def _if(node: OnnxNode) -> Outputs:
    """A condition that is known when it is read has only the nodes of its branch."""
    known = node.content(node[0])
    then, otherwise = _graph(node, "then_branch"), _graph(node, "else_branch")
    if known is not None:
        return inline_body(node, then if bool(known.reshape(())) else otherwise)
    return conditional(node, scalar(node, _value(node, 0)), then, otherwise)


def _graph(node: OnnxNode, name: str) -> Any:
    found = node.attr(name)
    if found is None:
        raise UnsupportedNodeError(f"no '{name}': expected a graph")
    return found


def _value(node: OnnxNode, index: int) -> Value:
    found = node.values[index]
    if found is None:
        raise UnsupportedNodeError(f"no input {index}: expected one")
    return found


def _loop(node: OnnxNode) -> Outputs:
    """A while loop, whose condition and body are functions."""
    graph = _graph(node, "body")
    if len(node.values) < 2:
        raise UnsupportedNodeError(
            f"too few inputs of a loop: got {len(node.values)}, expected a trip count and a condition, even if empty"
        )
    first = [_value(node, index) for index in range(2, len(node.values))]
    count, goes_on = (None if node.input(index) is None else scalar(node, _value(node, index)) for index in (0, 1))

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        found = read_body(reader_of(body), graph, [number, flag, *carried])
        return IterationResult(found[0], found[1 : len(first) + 1], found[len(first) + 1 :])

    made = repeat(node, count, goes_on, first, turn)
    return [*made.carried, *made.gathered]


def _scan(node: OnnxNode) -> Outputs:
    """A while loop over the slices of what is scanned, whose body is a function."""
    count = node.attr("num_scan_inputs", 0)
    graph = _graph(node, "body")
    values = [_value(node, index) for index in range(len(node.values))]
    if not 0 < count <= len(values):
        raise UnsupportedNodeError(f"wrong num_scan_inputs: got {count}, expected from 1 to {len(values)}")
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    gathered = len(graph.output) - len(states)
    return _scanned(
        node,
        graph,
        states,
        scanned,
        (node.attr("scan_input_axes", (0,) * count), node.attr("scan_input_directions", (0,) * count)),
        (node.attr("scan_output_axes", (0,) * gathered), node.attr("scan_output_directions", (0,) * gathered)),
    )


_Ways = tuple[Sequence[int], Sequence[int]]
"""Scanned axis of each tensor, and whether it is scanned backwards."""


def _scanned(
    node: OnnxNode, graph: Any, states: Sequence[Value], scanned: Sequence[Value], ways: _Ways, made_ways: _Ways
) -> list[Value]:
    """A turn for each slice of the scanned tensors."""
    first_axis = _axis(node, scanned[0], ways[0][0])
    length = _size(node, scanned[0], first_axis)

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        slices = [
            _slice(node, body, value, _axis(node, value, axis), number, length if is_reverse else None)
            for value, axis, is_reverse in zip(scanned, *ways, strict=True)
        ]
        found = read_body(reader_of(body), graph, [*carried, *slices])
        return IterationResult(None, found[: len(states)], found[len(states) :])

    made = repeat(node, length, None, states, turn)
    gathered = [
        _turned(node, value, axis, is_reverse) for value, axis, is_reverse in zip(made.gathered, *made_ways, strict=True)
    ]
    return [*made.carried, *gathered]


def _axis(node: OnnxNode, value: Value, axis: int) -> int:
    """An axis from 0 on."""
    if axis >= 0:
        return axis
    shape = value.shape
    if shape is None:
        raise UnsupportedNodeError(f"axis {axis} of a tensor of unknown rank: expected an axis of 0 or more")
    return axis + len(shape)


def _size(node: OnnxNode, value: Value, axis: int) -> TensorRef:
    """Size of an axis as an int64 scalar, constant if the shape is known."""
    shape = value.shape
    size = None if shape is None or axis >= len(shape) else shape[axis]
    if size is not None:
        return node.constant(np.int64(size), INT64, "length")
    sizes = node.emit("Shape", value.ref, out_type=INT64)
    return node.emit("GatherV2", sizes, node.constant(np.int64(axis)), node.constant(np.int32(0)))


def _slice(outer: OnnxNode, body: OnnxNode, value: Value, axis: int, number: Value, length: TensorRef | None) -> Value:
    """The slice of a turn; from the end where the length is given."""
    own = body.reading.brought_in(value)  # type: ignore[attr-defined]
    place = number.ref
    if length is not None:
        bound = body.reading.brought_in(outer.reading.by_ref.get(length) or Value(length))  # type: ignore[attr-defined]
        place = body.emit("Sub", body.emit("Sub", bound.ref, number.ref), body.constant(np.int64(1)))
    made = body.emit("GatherV2", own.ref, place, body.constant(np.int32(axis)))
    shape = value.shape
    found = tensor_value(body, made, None if shape is None else (*shape[:axis], *shape[axis + 1 :]))
    body.reading.by_ref[made] = found
    return found


def _turned(node: OnnxNode, value: Value, axis: int, is_reverse: int) -> Value:
    """Values collected along the first axis, moved to another, or reversed."""
    assert value.ref is not None
    shape, made = value.shape, value.ref
    if is_reverse:
        made = node.emit("ReverseV2", made, np.array([0], np.int32))
    if axis:
        if shape is None:
            raise UnsupportedNodeError(
                "unknown rank of a gathered tensor: expected one whose rank can be inferred before the model runs"
            )
        axis = axis % len(shape)
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
        made, shape = node.emit("Transpose", made, np.array(order, np.int32)), tuple(shape[i] for i in order)
    return tensor_value(node, made, shape)


def _batched_scan(node: OnnxNode) -> Outputs:
    """Scan since 8: the first axis of all tensors is that of sequences, which are scanned one by one along the second axis."""
    count = node.attr("num_scan_inputs", 0)
    graph = _graph(node, "body")
    if node.input(0) is not None:
        raise UnsupportedNodeError("sequence lengths are not supported: got sequence_lens, expected none")
    values = [_value(node, index) for index in range(1, len(node.values))]
    if not 0 < count <= len(values):
        raise UnsupportedNodeError(f"wrong num_scan_inputs: got {count}, expected from 1 to {len(values)}")
    states = len(values) - count
    gathered = len(graph.output) - states
    ways = ((0,) * count, node.attr("directions", (0,) * count))

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = [_slice(node, body, value, 0, number, None) for value in values]
        return IterationResult(None, [], _scanned(body, graph, own[:states], own[states:], ways, ((0,) * gathered,) * 2))

    return repeat(node, _size(node, values[0], 0), None, [], turn).gathered


ROWS: Rows = {
    ("If", 1, 11, 13, 16, 19, 21, 23, 24, 25): _if,
    ("Loop", 1, 11, 13, 16, 19, 21, 23, 24, 25): _loop,
    ("Scan", 9, 11, 16, 19, 21, 23, 24, 25): _scan,
    ("Scan", 8): _batched_scan,
}
