"""Sequences and optionals."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from placesim.core.dtypes import DTYPES
from placesim.formats.onnx.bodies import IterationResult, repeat, scalar
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER, ONNX_NUMBER
from placesim.formats.onnx.lists import (
    INT64,
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
    tensor_type,
    tensor_value,
)
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, UnsupportedNodeError
from placesim.formats.onnx.values import Dims, Value
from placesim.graph.graph import TensorRef

INT32 = DTYPES["int32"]


def _given(node: OnnxNode, index: int) -> Value:
    """Value of an input."""
    found = node.values[index] if index < len(node.values) else None
    if found is None:
        raise UnsupportedNodeError(f"no input {index}: expected one")
    return found


def _sequence(node: OnnxNode) -> Value:
    found = _given(node, 0)
    if kind_of(found) != "sequence_type":
        raise UnsupportedNodeError("not a sequence: got a tensor or an optional as input 0, expected a sequence")
    return found


def _known_place(node: OnnxNode, index: int, count: int, beyond: int) -> int | None:
    """Position in a sequence with known members, from 0 on; None if known only at run time."""
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
    """A place in a list, from 0 on: an int32 scalar."""
    place = node.narrow(scalar(node, _given(node, index)), "position")
    content = node.content(place) if node.content(place) is not None else node.content(node.input(index))
    if content is not None and int(content.reshape(())) >= 0:
        return place
    from_end = node.emit("AddV2", place, list_length(node, handle))
    return node.emit("SelectV2", node.emit("Less", place, np.int32(0)), from_end, place)


def _empty(node: OnnxNode) -> Outputs:
    """A list of no members, which nothing stands for."""
    return Value(None, sequence_type(tensor_type(node.attr("dtype", 1), None)), None, ())


def _construct(node: OnnxNode) -> Outputs:
    """A list of the inputs, which nothing stands for as its length is known."""
    items = tuple(_given(node, index) for index in range(len(node.values)))
    return _sequence_of(items, sequence_type(items[0].type))


def _sequence_of(items: tuple[Value, ...], kind: object) -> Value:
    return Value(None, items_type(items, kind), None, items)


def _insert(node: OnnxNode) -> Outputs:
    """The list with a member more; TensorListResize and TensorListSetItem where its length or the place is unknown before."""
    value, item = _sequence(node), _given(node, 1)
    if value.items is not None:
        place = _known_place(node, 2, len(value.items), 1)
        if place is not None:
            return _sequence_of((*value.items[:place], item, *value.items[place:]), value.type)
    handle = cast("TensorRef", as_tensor(node, value).ref)
    kind = sequence_type(common_type(element_type(value), item.type))
    if node.input(2) is None:
        return Value(pushed(node, handle, node[1]), kind)
    count = list_length(node, handle)
    place_in = _place(node, 2, handle)
    longer = node.emit("TensorListResize", handle, node.emit("AddV2", count, np.int32(1)))
    moved = _moved(node, Value(longer, value.type), node.emit("Sub", count, place_in), count, -1)
    return Value(node.emit("TensorListSetItem", moved, place_in, node[1], element_dtype=element_dtype(value)), kind)


def _erase(node: OnnxNode) -> Outputs:
    """The list with a member less; TensorListPopBack of what was moved where its length is known only when it runs."""
    value = _sequence(node)
    if value.items is not None:
        place = _known_place(node, 1, len(value.items), 0)
        if place is not None:
            if not value.items:
                raise UnsupportedNodeError("nothing to erase: got an empty sequence")
            return _sequence_of((*value.items[:place], *value.items[place + 1 :]), value.type)
    handle = cast("TensorRef", as_tensor(node, value).ref)
    if node.input(1) is not None:
        place_in = _place(node, 1, handle)
        count = node.emit("Sub", node.emit("Sub", list_length(node, handle), place_in), np.int32(1))
        handle = _moved(node, Value(handle, value.type), count, place_in, 1)
    kept = node.emit("TensorListPopBack", handle, np.int32(-1), element_dtype=element_dtype(value))
    return Value(kept, value.type)


def _moved(node: OnnxNode, value: Value, count: TensorRef, start: TensorRef, step: int) -> TensorRef:
    """A list in which `count` members from `start` on, going by `step`, are the next ones in that direction."""

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = cast("TensorRef", carried[0].ref)
        from_start = body.reading.brought_in(Value(start)).ref  # type: ignore[attr-defined]
        gone = body.cast(cast("TensorRef", number.ref), INT32)
        place = body.emit("AddV2" if step > 0 else "Sub", from_start, gone)
        item = list_item(body, carried[0], body.emit("AddV2", place, np.int32(step)))
        made = body.emit("TensorListSetItem", own, place, item.ref, element_dtype=element_dtype(value))
        return IterationResult(None, [Value(made, carried[0].type)], [])

    open_value = Value(value.ref, sequence_type(tensor_type(element_type(value).tensor_type.elem_type, None)))
    return cast("TensorRef", repeat(node, node.cast(count, INT64), None, [open_value], turn).carried[0].ref)


def _at(node: OnnxNode) -> Outputs:
    """The member itself; TensorListGetItem where the place or the length is known only when it runs."""
    value = _sequence(node)
    if value.items is not None:
        place = _known_place(node, 1, len(value.items), 0)
        if place is not None:
            return value.items[place]
    listed = as_tensor(node, value)
    return list_item(node, listed, _place(node, 1, cast("TensorRef", listed.ref)))


def _length(node: OnnxNode) -> Outputs:
    """A Const; TensorListLength where the length is known only when it runs."""
    value = _sequence(node)
    if value.items is not None:
        return node.constant(np.int64(len(value.items)), INT64)
    return tensor_value(node, node.cast(list_length(node, cast("TensorRef", value.ref)), INT64), ())


def _concat(node: OnnxNode) -> Outputs:
    """ConcatV2 or Pack of the members; TensorListStack and what joins its rows where their number is unknown."""
    value, axis, is_new = _sequence(node), node.attr("axis"), node.attr("new_axis", 0)
    if axis is None:
        raise UnsupportedNodeError("no 'axis': expected one")
    if value.items is not None:
        items = [cast("TensorRef", item.ref) for item in value.items]
        if not items:
            raise UnsupportedNodeError("nothing to join: got an empty sequence")
        if is_new:
            return node.emit("Pack", items, axis=axis)
        return items[0] if len(items) == 1 else node.emit("ConcatV2", items, node.constant(np.int32(axis)))
    return _joined(node, value, axis, bool(is_new))


def _joined(node: OnnxNode, value: Value, axis: int, is_new: bool) -> Value:
    """The members of a list along an axis of theirs, or a new one."""
    handle, kind, dtype = cast("TensorRef", value.ref), element_type(value), element_dtype(value)
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
    """The members of a list joined along an axis that is not their first, as TensorFlow's op for lists can't."""
    count = node.cast(list_length(node, cast("TensorRef", value.ref)), INT64)
    first = list_item(node, value, node.constant(np.int32(0)))
    made_dims = None if dims is None else tuple(None if i == axis % len(dims) else size for i, size in enumerate(dims))

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = body.reading.brought_in(value)  # type: ignore[attr-defined]
        place = body.emit("AddV2", body.cast(cast("TensorRef", number.ref), INT32), np.int32(1))
        item = list_item(body, own, place)
        made = body.emit("ConcatV2", [carried[0].ref, item.ref], body.constant(np.int32(axis)))
        return IterationResult(None, [tensor_value(body, made, made_dims)], [])

    return repeat(node, node.emit("Sub", count, np.int64(1)), None, [first], turn).carried[0]


def _split(node: OnnxNode) -> Outputs:
    """Split, SplitV or Unpack; a TensorList where the number of parts is known only when it runs."""
    keeps = node.input(1) is not None or bool(node.attr("keepdims", 1))
    data, given = node[0], node.input(1)
    shape = node.shape(data)
    if shape is None:
        raise UnsupportedNodeError("unknown rank: expected a tensor whose rank can be inferred before the model runs")
    axis = node.axis(node.attr("axis", 0), data)
    size, lengths = shape[axis], node.content(given)
    if size is None or (given is not None and lengths is None):
        return _split_as_list(node, data, shape, axis, keeps)
    if not keeps:
        made = node.emit_all("Unpack", data, num=size, axis=axis) if size else ()
        return _members(node, made, [(*shape[:axis], *shape[axis + 1 :])] * size)
    parts = [1] * size if lengths is None else _parts(lengths, size)
    made = node.emit_all("SplitV", data, np.array(parts, np.int64), np.int32(axis), num_split=len(parts)) if parts else ()
    return _members(node, made, [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts])


def _parts(lengths: Any, size: int) -> list[int]:
    """The lengths of members, of a list of them or of the one length that all but the last one have."""
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
    """Members of a number that is known only when it runs."""
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
    """The lengths of members of a tensor that is split along its first axis: an int64 vector."""
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
    """A list of the members of a list, transposed."""
    made = Value(empty_list(node, element_dtype(value)), _kind_of_members(value, dims))

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        own = body.reading.brought_in(value)  # type: ignore[attr-defined]
        item = list_item(body, own, body.cast(cast("TensorRef", number.ref), INT32))
        turned = body.emit("Transpose", item.ref, order)
        return IterationResult(None, [Value(pushed(body, cast("TensorRef", carried[0].ref), turned), made.type)], [])

    count = node.cast(list_length(node, cast("TensorRef", value.ref)), INT64)
    return repeat(node, count, None, [made], turn).carried[0]


def _kind_of_members(value: Value, dims: Dims) -> Any:
    return sequence_type(tensor_type(element_type(value).tensor_type.elem_type, dims))


def _members(node: OnnxNode, made: tuple[TensorRef, ...], shapes: list[Dims]) -> Value:
    items = tuple(tensor_value(node, ref, dims) for ref, dims in zip(made, shapes, strict=True))
    node.reading.by_ref |= {cast("TensorRef", item.ref): item for item in items}
    return _sequence_of(items, node.output_type() or sequence_type(node.reading.by_ref[node[0]].type))


# --- optionals ------------------------------------------------------------------------------------------------------


def _optional(node: OnnxNode) -> Outputs:
    """The value itself, or none."""
    value = node.values[0] if node.values else None
    if value is not None:
        return Value(None, optional_type(value.type), None, (value,))
    kind = node.attr("type")
    if kind is None:
        raise UnsupportedNodeError("empty optional: got no input and no 'type', expected one of them")
    return Value(None, optional_type(kind), None, ())


def _has_element(node: OnnxNode) -> Outputs:
    """A Const; OptionalHasValue if known only when it runs."""
    value = node.values[0] if node.values else None
    if value is not None and value.items is None and kind_of(value) == "optional_type":
        return tensor_value(node, node.emit("OptionalHasValue", value.ref), ())
    has = value is not None and (kind_of(value) != "optional_type" or bool(value.items))
    return node.constant(np.bool_(has), BY_ONNX_NUMBER[9])


def _get_element(node: OnnxNode) -> Outputs:
    """The value itself; OptionalGetValue where whether there is one is known only when it runs."""
    value = _given(node, 0)
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
