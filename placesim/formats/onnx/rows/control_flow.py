"""Conditionals and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT64
from placesim.formats.onnx.bodies import (
    IterationResult,
    brought_in,
    conditional,
    ends_by_count,
    inline_body,
    read_body,
    reader_of,
    repeat,
    scalar,
)
from placesim.formats.onnx.lists import tensor_value
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.values import Value
from placesim.graph.graph import TensorRef


def _if(node: OnnxNode) -> Outputs:
    """A `tf.cond`; only the ops of one branch if the condition is known."""
    known = node.content(node[0])
    then, otherwise = _graph(node, "then_branch"), _graph(node, "else_branch")
    if known is not None:
        return inline_body(node, then if bool(known.reshape(())) else otherwise)
    return conditional(node, scalar(node, node.value(0)), then, otherwise)


def _graph(node: OnnxNode, name: str) -> Any:
    found = node.attr(name)
    if found is None:
        raise UnsupportedNodeError(f"no '{name}': expected a graph")
    return found


_MOST_UNROLLED = 64
"""Maximum number of iterations of a loop that is read iteration by iteration, chosen for placesim."""
_MOST_NODES = 10_000
"""Maximum number of nodes of a graph in which a loop is read like that: loops within loops would multiply the nodes."""


def _loop(node: OnnxNode) -> Outputs:
    """A `tf.while_loop`; the ops of each iteration for a known number of iterations over known sequences."""
    graph = _graph(node, "body")
    if len(node.values) < 2:
        expected = "a trip count and a condition, even if empty"
        raise UnsupportedNodeError(f"too few inputs of a loop: got {len(node.values)}, expected {expected}")
    first = [node.value(index) for index in range(2, len(node.values))]
    count, goes_on = (None if node.input(index) is None else scalar(node, node.value(index)) for index in (0, 1))

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        found = read_body(reader_of(body), graph, [number, flag, *carried])
        return IterationResult(found[0], found[1 : len(first) + 1], found[len(first) + 1 :])

    known = _known_count(node, first)
    if known and ends_by_count(node, first, turn):
        return _unrolled(node, graph, first, known)
    made = repeat(node, count, goes_on, first, turn)
    return [*made.carried, *made.gathered]


def _known_count(node: OnnxNode, first: Sequence[Value]) -> int:
    """Return the number of iterations of a loop if it is known and small, and if the loop carries a known sequence; else 0."""
    if reader_of(node).trials or len(node.reading.builder.graph) > _MOST_NODES:
        return 0
    limit, condition = (node.content(node.input(index)) for index in (0, 1))
    count = 0 if limit is None else int(limit.reshape(()))
    runs = node.input(1) is None or (condition is not None and bool(condition.all()))
    return count if runs and count <= _MOST_UNROLLED and any(value.items is not None for value in first) else 0


def _unrolled(node: OnnxNode, graph: Any, first: Sequence[Value], count: int) -> list[Value]:
    """Add the ops of one iteration after another, so that members of sequences stay known, and return the loop's results."""
    carried: list[Value] = list(first)
    gathered: list[list[Value]] = []
    for index in range(count):
        number, flag = (node.reading.by_ref[node.constant(known)] for known in (np.int64(index), np.bool_(True)))
        found = inline_body(node, graph, [number, flag, *carried])
        carried = found[1 : len(first) + 1]
        gathered.append(found[len(first) + 1 :])
    stacks = [[tensor_of(value) for value in each] for each in zip(*gathered, strict=True)]
    return [*carried, *(Value(node.emit("Pack", each, axis=0)) for each in stacks)]


def _scan(node: OnnxNode) -> Outputs:
    """A `tf.while_loop` over the slices of the scanned inputs."""
    graph = _graph(node, "body")
    states, scanned = _scan_inputs(node, 0)
    count, gathered = len(scanned), len(graph.output) - len(states)
    ways = (node.attr("scan_input_axes", (0,) * count), node.attr("scan_input_directions", (0,) * count))
    made_ways = (node.attr("scan_output_axes", (0,) * gathered), node.attr("scan_output_directions", (0,) * gathered))
    return _scanned(node, graph, states, scanned, ways, made_ways)


def _scan_inputs(node: OnnxNode, first: int) -> tuple[list[Value], list[Value]]:
    """Return the first states, and the scanned values, of the inputs from `first` on."""
    count = node.attr("num_scan_inputs", 0)
    values = [node.value(index) for index in range(first, len(node.values))]
    if not 0 < count <= len(values):
        raise UnsupportedNodeError(f"wrong num_scan_inputs: got {count}, expected from 1 to {len(values)}")
    return values[:-count], values[-count:]


_Ways = tuple[Sequence[int], Sequence[int]]
"""Scanned axis of each tensor, and 1 if it is scanned backwards, else 0."""


def _scanned(
    node: OnnxNode, graph: Any, states: Sequence[Value], scanned: Sequence[Value], ways: _Ways, made_ways: _Ways
) -> list[Value]:
    """Add a loop over the slices of the scanned values. Returns the last states and the collected results.

    `ways` are those of `scanned`, and `made_ways` those of the collected results.
    """
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
    """Return an axis as a number of 0 or more."""
    if axis >= 0:
        return axis
    shape = value.shape
    if shape is None:
        raise UnsupportedNodeError(f"axis {axis} of a tensor of unknown rank: expected an axis of 0 or more")
    return axis + len(shape)


def _size(node: OnnxNode, value: Value, axis: int) -> TensorRef:
    """Return the size of an axis as an int64 scalar, a Const if it is known."""
    shape = value.shape
    size = None if shape is None or axis >= len(shape) else shape[axis]
    if size is not None:
        return node.constant(np.int64(size), INT64, "length")
    sizes = node.emit("Shape", value.ref, out_type=INT64)
    return node.emit("GatherV2", sizes, node.constant(np.int64(axis)), node.constant(np.int32(0)))


def _slice(outer: OnnxNode, body: OnnxNode, value: Value, axis: int, number: Value, length: TensorRef | None) -> Value:
    """Return the slice of a value in iteration `number`; given the axis's `length`, count from the end."""
    own = brought_in(body, value)
    place = number.ref
    if length is not None:
        bound = brought_in(body, outer.reading.by_ref.get(length) or Value(length))
        place = body.emit("Sub", body.emit("Sub", bound.ref, number.ref), body.constant(np.int64(1)))
    made = body.emit("GatherV2", own.ref, place, body.constant(np.int32(axis)))
    shape = value.shape
    found = tensor_value(body, made, None if shape is None else (*shape[:axis], *shape[axis + 1 :]))
    body.reading.by_ref[made] = found
    return found


def _turned(node: OnnxNode, value: Value, axis: int, is_reverse: int) -> Value:
    """Return values that a loop collected along the first axis, reversed if asked, and moved to another axis."""
    shape, made = value.shape, tensor_of(value)
    if is_reverse:
        made = node.emit("ReverseV2", made, np.array([0], np.int32))
    if axis:
        if shape is None:
            expected = "one whose rank can be inferred before the model runs"
            raise UnsupportedNodeError(f"unknown rank of a gathered tensor: expected {expected}")
        axis = axis % len(shape)
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
        made, shape = node.emit("Transpose", made, np.array(order, np.int32)), tuple(shape[i] for i in order)
    return tensor_value(node, made, shape)


def _batched_scan(node: OnnxNode) -> Outputs:
    """A `tf.while_loop` over a batch of sequences, and in it another one over the slices of a sequence."""
    graph = _graph(node, "body")
    if node.input(0) is not None:
        raise UnsupportedNodeError("sequence lengths are not supported: got sequence_lens, expected none")
    states, scanned = _scan_inputs(node, 1)
    ways = ((0,) * len(scanned), node.attr("directions", (0,) * len(scanned)))
    made_ways = ((0,) * (len(graph.output) - len(states)),) * 2

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        first, slices = ([_slice(node, body, value, 0, number, None) for value in values] for values in (states, scanned))
        return IterationResult(None, [], _scanned(body, graph, first, slices, ways, made_ways))

    return repeat(node, _size(node, (states or scanned)[0], 0), None, [], turn).gathered


ROWS: Rows = {
    ("If", 1, 11, 13, 16, 19, 21, 23, 24, 25): _if,
    ("Loop", 1, 11, 13, 16, 19, 21, 23, 24, 25): _loop,
    ("Scan", 9, 11, 16, 19, 21, 23, 24, 25): _scan,
    ("Scan", 8): _batched_scan,
}
