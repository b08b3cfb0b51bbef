"""Conversion of ONNX's sequences and optionals to TensorFlow's lists and optionals, which are tensors of type variant.

If the length of a sequence is known when it is read, its Value has the members as `items`, and the graph has no list. A
sequence that leaves a body, or that a loop carries, is a TensorList. In the same way, an optional has its content, if any, as
`items`, or is an Optional.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import VARIANT, DataType
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER, ONNX_NUMBER
from placesim.formats.onnx.onnx_node import OnnxNode, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.values import Dims, Value, dims_of, tensor_type
from placesim.graph.graph import TensorRef
from placesim.ops.attributes import UNKNOWN_RANK, Shape


def tensor_value(node: OnnxNode, tensor: TensorRef, dims: Dims | None) -> Value:
    """Return the Value of a tensor with its shape."""
    return Value(tensor, tensor_type(ONNX_NUMBER.get(node.dtype(tensor), 0), dims))


def open_sizes(dims: Dims) -> tuple[int, ...]:
    """Return a shape in TensorFlow's form, with -1 for an unknown size."""
    return tuple(-1 if size is None else size for size in dims)


def type_of(node: OnnxNode, value: Value) -> Any:
    """Return a value's TypeProto."""
    if value.items is not None:
        return items_type(value.items, value.type)
    if value.type is not None and (kind_of(value) != "tensor_type" or value.known is None):
        return value.type
    return tensor_value(node, tensor_of(value), value.shape).type


def items_type(items: Sequence[Value], kind: Any) -> Any:
    """Return the type of a sequence or optional of these items. `kind` is its declared type."""
    if not items:
        return kind
    found = items[0].type
    for item in items[1:]:
        found = common_type(found, item.type)
    return optional_type(found) if kind.WhichOneof("value") == "optional_type" else sequence_type(found)


def kind_of(value: Value) -> str:
    """Return the kind of a value: `tensor_type`, `sequence_type` or `optional_type`."""
    return "tensor_type" if value.type is None else value.type.WhichOneof("value") or "tensor_type"


def sequence_type(element: Any) -> Any:
    """Return the TypeProto of a sequence."""
    from onnx import helper

    return helper.make_sequence_type_proto(element)


def optional_type(element: Any) -> Any:
    """Return the TypeProto of an optional."""
    from onnx import helper

    return helper.make_optional_type_proto(element)


def element_type(value: Value) -> Any:
    """Return the TypeProto of a sequence's members, or of an optional's content. Raises UnsupportedNodeError for a tensor."""
    kind = kind_of(value)
    if kind == "tensor_type":
        raise UnsupportedNodeError("not a sequence: got a tensor, expected a sequence")
    return getattr(value.type, kind).elem_type


def element_dtype(value: Value) -> DataType:
    """Return the element type of a sequence's members. Raises UnsupportedNodeError if they are not tensors."""
    found = element_type(value)
    dtype = BY_ONNX_NUMBER.get(found.tensor_type.elem_type) if found.WhichOneof("value") == "tensor_type" else None
    if dtype is None:
        raise UnsupportedNodeError("not a sequence of tensors: expected members of a TensorFlow type")
    return dtype


def common_dims(one: Dims | None, other: Dims | None) -> Dims | None:
    """Return a shape that fits tensors of both shapes."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def common_type(one: Any, other: Any) -> Any:
    """Return a type that fits values of both types. Raises UnsupportedNodeError if there is none."""
    if one is None or other is None:
        return one if other is None else other
    kind = one.WhichOneof("value")
    if kind != other.WhichOneof("value"):
        raise UnsupportedNodeError(f"conflicting types: got {kind} and {other.WhichOneof('value')}")
    if kind == "sequence_type":
        return sequence_type(common_type(one.sequence_type.elem_type, other.sequence_type.elem_type))
    if kind == "optional_type":
        return optional_type(common_type(one.optional_type.elem_type, other.optional_type.elem_type))
    if one.tensor_type.elem_type != other.tensor_type.elem_type:
        got = ", ".join(BY_ONNX_NUMBER[each.tensor_type.elem_type].name for each in (one, other))
        raise UnsupportedNodeError(f"conflicting element types: got {got}")
    return tensor_type(one.tensor_type.elem_type, common_dims(dims_of(one), dims_of(other)))


# --- lists ----------------------------------------------------------------------------------------------------------


def as_tensor(node: OnnxNode, value: Value) -> Value:
    """Return a sequence as a TensorList, an optional as an Optional, and a tensor unchanged."""
    if value.ref is not None:
        return value
    assert value.items is not None
    if kind_of(value) == "optional_type":
        return Value(_optional(node, value), value.type)
    made = empty_list(node, element_dtype(value))
    for item in value.items:
        made = pushed(node, made, tensor_of(item))
    return Value(made, value.type)


def empty_list(node: OnnxNode, dtype: DataType) -> TensorRef:
    """Add an empty TensorList, whose members may have any shape."""
    return node.emit("EmptyTensorList", np.int32(-1), np.int32(-1), element_dtype=dtype)


def pushed(node: OnnxNode, handle: TensorRef, item: TensorRef) -> TensorRef:
    """Add a TensorList with one more member than `handle`."""
    return node.emit("TensorListPushBack", handle, item)


def shape_operand(dims: Dims | None) -> Any:
    """Return the input `element_shape` of TensorFlow's list ops."""
    return np.int32(-1) if dims is None else np.array(open_sizes(dims), np.int32)


def list_length(node: OnnxNode, handle: TensorRef) -> TensorRef:
    """Return the number of members of a TensorList, as an int32 scalar."""
    return node.emit("TensorListLength", handle)


def list_item(node: OnnxNode, value: Value, index: TensorRef) -> Value:
    """Return a member of a TensorList by its index, an int32 scalar of 0 or more."""
    kind = element_type(value)
    dims = dims_of(kind)
    made = node.emit("TensorListGetItem", value.ref, index, shape_operand(dims), element_dtype=element_dtype(value))
    return Value(made, kind)


def stacked(node: OnnxNode, handle: TensorRef, dtype: DataType, dims: Dims | None, length: int | None = None) -> Value:
    """Return all members of a TensorList, which must have one shape, stacked along a new first axis."""
    counted = -1 if length is None else length
    made = node.emit("TensorListStack", handle, shape_operand(dims), element_dtype=dtype, num_elements=counted)
    return tensor_value(node, made, None if dims is None else (length, *dims))


# --- optionals ------------------------------------------------------------------------------------------------------


def _optional(node: OnnxNode, value: Value) -> TensorRef:
    assert value.items is not None
    if not value.items:
        return node.emit("OptionalNone")
    return node.emit("OptionalFromValue", [tensor_of(as_tensor(node, value.items[0]))])


def optional_content(node: OnnxNode, value: Value) -> Value:
    """Return the content of an Optional."""
    kind = element_type(value)
    is_tensor = kind.WhichOneof("value") == "tensor_type"
    dtype = BY_ONNX_NUMBER[kind.tensor_type.elem_type] if is_tensor else VARIANT
    dims = dims_of(kind) if is_tensor else ()
    shape = UNKNOWN_RANK if dims is None else Shape(open_sizes(dims))
    made = node.emit("OptionalGetValue", value.ref, output_types=(dtype,), output_shapes=(shape,))
    return Value(made, kind)
