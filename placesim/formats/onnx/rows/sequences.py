"""Sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, INT32, INT64
from placesim.formats.onnx.bodies import IterationResult, brought_in, repeat, scalar
from placesim.formats.onnx.element_types import ONNX_NUMBER
from placesim.formats.onnx.lists import (
    as_tensor,
    common_type,
    element_dtype,
    element_type,
    empty_list,
    items_type,
    kind_of,
    list_item,
    list_length,
    optional_content,
    optional_type,
    pushed,
    sequence_type,
    shape_operand,
    stacked,
    tensor_value,
)
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.values import Dims, Value, tensor_type
from placesim.graph.graph import TensorRef


def _sequence(node: OnnxNode) -> Value:
    found = node.value(0)
    if kind_of(found) != "sequence_type":
        raise UnsupportedNodeError("not a sequence: got a tensor or an optional as input 0, expected a sequence")
    return found


def _known_place(node: OnnxNode, index: int, count: int, beyond: int) -> int | None:
    """Return the index, of 0 or more, that an input gives in a sequence of `count` members; None if it is not known.

    An omitted input gives the last member, or with `beyond` = 1 the end.
    """
    tensor = node.input(index)
    if tensor is None:
        return count - 1 + beyond
    content = node.content(tensor)
    if content is None:
        return None
    place = int(content.reshape(()))
    if not -count <= place < count + beyond:
        raise UnsupportedNodeError(f"position outside a sequence of {count}: got {place}")
    return place + count if place < 0 else place


def _place(node: OnnxNode, index: int, handle: TensorRef) -> TensorRef:
    """Return the index, of 0 or more, that an input gives in a TensorList, as an int32 scalar."""
    place = node.narrow(scalar(node, node.value(index)), "position")
    content = node.content(place) if node.content(place) is not None else node.content(node.input(index))
    if content is not None and int(content.reshape(())) >= 0:
        return place
    from_end = node.emit("AddV2", place, list_length(node, handle))
    return node.emit("SelectV2", node.emit("Less", place, np.int32(0)), from_end, place)


def _empty(node: OnnxNode) -> Outputs:
    """No op."""
    return Value(None, sequence_type(tensor_type(node.attr("dtype", 1), None)), None, ())


def _construct(node: OnnxNode) -> Outputs:
    """No op, because the length is known."""
    items = tuple(node.value(index) for index in range(len(node.values)))
    return _sequence_of(items, sequence_type(items[0].type))


def _sequence_of(items: tuple[Value, ...], kind: object) -> Value:
    return Value(None, items_type(items, kind), None, items)


def _insert(node: OnnxNode) -> Outputs:
    """No op if length and index are known; else TensorListPushBack, or TensorListResize and TensorListSetItem."""
    value, item = _sequence(node), node.value(1)
    if value.items is not None:
        place = _known_place(node, 2, len(value.items), 1)
        if place is not None:
            return _sequence_of((*value.items[:place], item, *value.items[place:]), value.type)
    handle = tensor_of(as_tensor(node, value))
    kind = sequence_type(common_type(element_type(value), item.type))
    if node.input(2) is None:
        return Value(pushed(node, handle, node[1]), kind)
    count = list_length(node, handle)
    place_in = _place(node, 2, handle)
    longer = node.emit("TensorListResize", handle, node.emit("AddV2", count, np.int32(1)))
    moved = _moved(node, Value(longer, value.type), node.emit("Sub", count, place_in), count, -1)
    return Value(node.emit("TensorListSetItem", moved, place_in, node[1], element_dtype=element_dtype(value)), kind)


def _erase(node: OnnxNode) -> Outputs:
    """No op if length and index are known; else TensorListPopBack, after a loop that moves the later members."""
    value = _sequence(node)
    if value.items is not None:
        place = _known_place(node, 1, len(value.items), 0)
        if place is not None:
            if not value.items:
                raise UnsupportedNodeError("nothing to erase: got an empty sequence")
            return _sequence_of((*value.items[:place], *value.items[place + 1 :]), value.type)
    handle = tensor_of(as_tensor(node, value))
    if node.input(1) is not None:
        place_in = _place(node, 1, handle)
        count = node.emit("Sub", node.emit("Sub", list_length(node, handle), place_in), np.int32(1))
        handle = _moved(node, Value(handle, value.type), count, place_in, 1)
    kept = node.emit("TensorListPopBack", handle, np.int32(-1), element_dtype=element_dtype(value))
    return Value(kept, value.type)


def _moved(node: OnnxNode, value: Value, count: TensorRef, start: TensorRef, step: int) -> TensorRef:
    """Return a list in which `count` members from index `start` on, in steps of `step`, are replaced by their successors.

    With a step of 1, later members move to lower indices; with -1, earlier members move to higher ones.
    """

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = tensor_of(carried[0])
        from_start = brought_in(body, Value(start)).ref
        gone = body.cast(tensor_of(number), INT32)
        place = body.emit("AddV2" if step > 0 else "Sub", from_start, gone)
        item = list_item(body, carried[0], body.emit("AddV2", place, np.int32(step)))
        made = body.emit("TensorListSetItem", own, place, item.ref, element_dtype=element_dtype(value))
        return IterationResult(None, [Value(made, carried[0].type)], [])

    open_value = Value(value.ref, sequence_type(tensor_type(element_type(value).tensor_type.elem_type, None)))
    return tensor_of(repeat(node, node.cast(count, INT64), None, [open_value], turn).carried[0])


def _at(node: OnnxNode) -> Outputs:
    """No op if length and index are known, else TensorListGetItem."""
    value = _sequence(node)
    if value.items is not None:
        place = _known_place(node, 1, len(value.items), 0)
        if place is not None:
            return value.items[place]
    listed = as_tensor(node, value)
    return list_item(node, listed, _place(node, 1, tensor_of(listed)))


def _length(node: OnnxNode) -> Outputs:
    """Const if the length is known, else TensorListLength."""
    value = _sequence(node)
    if value.items is not None:
        return node.constant(np.int64(len(value.items)), INT64)
    return tensor_value(node, node.cast(list_length(node, tensor_of(value)), INT64), ())


def _concat(node: OnnxNode) -> Outputs:
    """ConcatV2 or Pack if the length is known; else TensorListStack, TensorListConcatV2 or a loop of ConcatV2."""
    value, axis, is_new = _sequence(node), node.attr("axis"), node.attr("new_axis", 0)
    if axis is None:
        raise UnsupportedNodeError("no 'axis': expected one")
    if value.items is not None:
        items = [tensor_of(item) for item in value.items]
        if not items:
            raise UnsupportedNodeError("nothing to join: got an empty sequence")
        if is_new:
            return node.emit("Pack", items, axis=axis)
        return items[0] if len(items) == 1 else node.emit("ConcatV2", items, node.constant(np.int32(axis)))
    return _joined(node, value, axis, bool(is_new))


def _joined(node: OnnxNode, value: Value, axis: int, is_new: bool) -> Value:
    """Return the members of a list, joined along one of their axes or along a new axis."""
    handle, kind, dtype = tensor_of(value), element_type(value), element_dtype(value)
    dims = Value(None, kind).shape
    if is_new and axis == 0:
        return stacked(node, handle, dtype, dims)
    if is_new:
        if dims is None:
            raise UnsupportedNodeError("unknown rank of members: expected a known rank, or 0 as the new axis")
        place = axis % (len(dims) + 1)
        order = [*range(1, place + 1), 0, *range(place + 1, len(dims) + 1)]
        made = node.emit("Transpose", stacked(node, handle, dtype, dims).ref, np.array(order, np.int32))
        return tensor_value(node, made, (*dims[:place], None, *dims[place:]))
    if axis == 0:
        rest = None if dims is None else (None, *dims[1:])
        shape = np.int32(-1) if rest is None else np.array([-1 if size is None else size for size in rest], np.int32)
        lengths = np.zeros(0, np.int64)
        made = node.emit("TensorListConcatV2", handle, shape, lengths, element_dtype=dtype)
        return tensor_value(node, made, rest)
    return _joined_one_by_one(node, value, axis, dims)


def _joined_one_by_one(node: OnnxNode, value: Value, axis: int, dims: Dims | None) -> Value:
    """Return the members of a list, joined along an axis other than the first by a loop, as TensorFlow has no op for it."""
    count = node.cast(list_length(node, tensor_of(value)), INT64)
    first = list_item(node, value, node.constant(np.int32(0)))
    made_dims = None if dims is None else tuple(None if i == axis % len(dims) else size for i, size in enumerate(dims))

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = brought_in(body, value)
        place = body.emit("AddV2", body.cast(tensor_of(number), INT32), np.int32(1))
        item = list_item(body, own, place)
        made = body.emit("ConcatV2", [carried[0].ref, item.ref], body.constant(np.int32(axis)))
        return IterationResult(None, [tensor_value(body, made, made_dims)], [])

    return repeat(node, node.emit("Sub", count, np.int64(1)), None, [first], turn).carried[0]


def _split(node: OnnxNode) -> Outputs:
    """Unpack or SplitV if the number of parts is known; else TensorListFromTensor or TensorListSplit."""
    keeps = node.input(1) is not None or bool(node.attr("keepdims", 1))
    data, given = node[0], node.input(1)
    shape = node.shape(data)
    if shape is None:
        raise UnsupportedNodeError("unknown rank: expected a tensor whose rank can be inferred before the model runs")
    axis = node.axis(node.attr("axis", 0), data)
    size, lengths = shape[axis], node.content(given)
    counts = None if given is None or lengths is not None else node.shape(given)
    if counts and len(counts) == 1 and counts[0]:
        made = node.emit_all("SplitV", data, given, np.int32(axis), num_split=counts[0])
        return _members(node, made, [(*shape[:axis], None, *shape[axis + 1 :])] * counts[0])
    if size is None or (given is not None and lengths is None):
        return _split_as_list(node, data, shape, axis, keeps)
    if not keeps:
        made = node.emit_all("Unpack", data, num=size, axis=axis) if size else ()
        return _members(node, made, [(*shape[:axis], *shape[axis + 1 :])] * size)
    parts = [1] * size if lengths is None else _parts(lengths, size)
    made = node.emit_all("SplitV", data, np.array(parts, np.int64), np.int32(axis), num_split=len(parts)) if parts else ()
    return _members(node, made, [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts])


def _parts(lengths: Any, size: int) -> list[int]:
    """Return the lengths of members, from a list of lengths, or from the one length that all members but the last have."""
    if lengths.ndim:
        parts = [int(part) for part in lengths]
    else:
        width = int(lengths)
        if width <= 0:
            raise UnsupportedNodeError(f"wrong length of members: got {width}, expected 1 or more")
        parts = [min(width, size - start) for start in range(0, size, width)]
    if sum(parts) != size:
        raise UnsupportedNodeError(f"wrong lengths of members: got a sum of {sum(parts)}, expected {size}")
    return parts


def _split_as_list(node: OnnxNode, data: TensorRef, shape: Dims, axis: int, keeps: bool) -> Value:
    """Return a TensorList of parts whose number is not known."""
    order = [axis, *range(axis), *range(axis + 1, len(shape))]
    rows = data if axis == 0 else node.emit("Transpose", data, np.array(order, np.int32))
    dims = tuple(shape[i] for i in order)
    if not keeps:
        made = node.emit("TensorListFromTensor", rows, shape_operand(dims[1:]), element_dtype=node.dtype(data))
        return Value(made, _kind(node, data, dims[1:]))
    lengths = _lengths(node, rows)
    made = node.emit("TensorListSplit", rows, shape_operand((None, *dims[1:])), lengths, element_dtype=node.dtype(data))
    value = Value(made, _kind(node, data, (None, *dims[1:])))
    if axis == 0:
        return value
    back = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
    return _each_transposed(node, value, np.array(back, np.int32), tuple((None, *dims[1:])[i] for i in back))


def _kind(node: OnnxNode, data: TensorRef, dims: Dims) -> Any:
    return sequence_type(tensor_type(ONNX_NUMBER[node.dtype(data)], dims))


def _lengths(node: OnnxNode, rows: TensorRef) -> TensorRef:
    """Return the lengths of the members of a tensor that is split along its first axis, as an int64 vector."""
    zero, one = node.constant(np.int64(0)), node.constant(np.int64(1))
    size = node.emit("GatherV2", node.emit("Shape", rows, out_type=INT64), zero, np.int32(0))
    given = node.input(1)
    if given is None:
        return node.emit("Fill", node.emit("ExpandDims", size, np.int32(0)), one)
    lengths = node.cast(given, INT64)
    rank = node.rank(given)
    if rank is None:
        raise UnsupportedNodeError("unknown rank of lengths: expected one that can be inferred before the model runs")
    if rank:
        return lengths
    starts = node.emit("Range", zero, size, lengths)
    ends = node.emit("Minimum", node.emit("AddV2", starts, lengths), size)
    return node.emit("Sub", ends, starts)


def _each_transposed(node: OnnxNode, value: Value, order: Any, dims: Dims) -> Value:
    """Return a list of the transposed members of a list."""
    kind = sequence_type(tensor_type(element_type(value).tensor_type.elem_type, dims))
    made = Value(empty_list(node, element_dtype(value)), kind)

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = brought_in(body, value)
        item = list_item(body, own, body.cast(tensor_of(number), INT32))
        turned = body.emit("Transpose", item.ref, order)
        return IterationResult(None, [Value(pushed(body, tensor_of(carried[0]), turned), made.type)], [])

    count = node.cast(list_length(node, tensor_of(value)), INT64)
    return repeat(node, count, None, [made], turn).carried[0]


def _members(node: OnnxNode, made: tuple[TensorRef, ...], shapes: list[Dims]) -> Value:
    items = tuple(tensor_value(node, ref, dims) for ref, dims in zip(made, shapes, strict=True))
    node.reading.by_ref |= {tensor_of(item): item for item in items}
    return _sequence_of(items, node.output_type() or sequence_type(node.reading.by_ref[node[0]].type))


# --- optionals ------------------------------------------------------------------------------------------------------


def _optional(node: OnnxNode) -> Outputs:
    """No op."""
    value = node.values[0] if node.values else None
    if value is not None:
        return Value(None, optional_type(value.type), None, (value,))
    kind = node.attr("type")
    if kind is None:
        raise UnsupportedNodeError("empty optional: got no input and no 'type', expected one of them")
    return Value(None, optional_type(kind), None, ())


def _has_element(node: OnnxNode) -> Outputs:
    """Const if it is known, else OptionalHasValue."""
    value = node.values[0] if node.values else None
    if value is not None and value.items is None and kind_of(value) == "optional_type":
        return tensor_value(node, node.emit("OptionalHasValue", value.ref), ())
    has = value is not None and (kind_of(value) != "optional_type" or bool(value.items))
    return node.constant(np.bool_(has), BOOL)


def _get_element(node: OnnxNode) -> Outputs:
    """No op if it is known that there is an element, else OptionalGetValue."""
    value = node.value(0)
    if kind_of(value) != "optional_type":
        return value
    if value.items is None:
        return optional_content(node, value)
    if not value.items:
        raise UnsupportedNodeError("empty optional: expected an element")
    return value.items[0]


ROWS: Rows = {
    ("SequenceEmpty", 11): _empty,
    ("SequenceConstruct", 11): _construct,
    ("SequenceInsert", 11): _insert,
    ("SequenceErase", 11): _erase,
    ("SequenceAt", 11): _at,
    ("SequenceLength", 11): _length,
    ("ConcatFromSequence", 11): _concat,
    ("SplitToSequence", 11, 24): _split,
    ("Optional", 15): _optional,
    ("OptionalHasElement", 15, 18, 28): _has_element,
    ("OptionalGetElement", 15, 18, 28): _get_element,
}
