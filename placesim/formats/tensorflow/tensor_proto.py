"""Conversion between TensorProto messages and constant tensors.

An array is a view of its message's raw content. A value that all elements share is stored once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.protobuf_wire import WireError
from placesim.core.tensor_fields import (
    PLAIN,
    Array,
    content_array,
    element_type,
    fill_tensor,
    has_one_value,
    is_plain_value,
    known_dims,
    stored_values,
    value_field,
    values_array,
)
from placesim.formats.tensorflow.messages import Buffer, Message, message_class
from placesim.ops.attributes import TensorValue

# --- reading --------------------------------------------------------------------------------------------------------


def read_tensor(message: Message, content: Buffer | None = None) -> TensorValue:
    """Return the tensor of a TensorProto. `content`, if given, is used as its `tensor_content`. Raises WireError."""
    dtype = element_type(message.dtype)
    shape = _shape(message.tensor_shape)
    if not shape and dtype in PLAIN and content is None:
        field = value_field(dtype)
        values = getattr(message, field.name)
        if len(values) == 1 and not message.tensor_content:
            return TensorValue(dtype, np.array(values[0], field.stored))
    data = content if content is not None else message.tensor_content
    if len(data):
        return TensorValue(dtype, content_array(data, dtype, shape))
    return TensorValue(dtype, fill_tensor(_values(message, dtype, math.prod(shape)), dtype, shape))


def _shape(message: Message) -> tuple[int, ...]:
    if not message.dim and not message.unknown_rank:
        return ()
    return known_dims([dim.size for dim in message.dim], message.unknown_rank)


def _values(message: Message, dtype: DataType, count: int) -> Array:
    """Return the values in the field of a type, at most those of `count` elements."""
    name, stored = value_field(dtype)[1:]
    field: Any = getattr(message, name)
    if isinstance(field, bytes):
        return values_array(np.frombuffer(field[:count], stored), dtype)
    given = len(field)
    if given == 1:
        return values_array(np.array([field[0]], stored), dtype)
    wanted = min(given, count * (2 if dtype.is_complex else 1))
    return values_array(np.fromiter(field if wanted == given else field[:wanted], stored, wanted), dtype)


# --- writing --------------------------------------------------------------------------------------------------------


def raw_content(tensor: TensorValue) -> memoryview | None:
    """Return the `tensor_content` of a tensor, if possible as a view of the array; None if it is written without one."""
    array = np.asarray(tensor.array)
    if tensor.dtype.size == 0 or array.size <= 1 or has_one_value(array):
        return None
    ordered = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(ordered).reshape(-1).view(np.uint8).data


def write_tensor(tensor: TensorValue, *, without_content: bool = False) -> Message:
    """Return a TensorProto as TensorFlow's Python makes it: several elements as raw content, one value in its type's field.

    With `without_content`, the caller adds the raw content. Raises WireError for a type that has no constants.
    """
    dtype, array = tensor.dtype, np.asarray(tensor.array)
    if dtype.size == 0 and dtype is not STRING:
        raise WireError(f"a constant of type {dtype.name} cannot be written")
    message = message_class("TensorProto")(dtype=dtype.number)
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if dtype is STRING:
        message.string_val.extend(_string_values(array, has_one_value(array)))
    elif is_plain_value(array):
        _write_value(message, dtype, array.reshape(-1)[:1])
    elif array.size and not without_content:
        message.tensor_content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return message


_BY_ELEMENT = frozenset(("bool", "float16", "bfloat16", "complex64", "complex128"))
"""Types whose elements TensorFlow's Python writes one by one, except in a node."""


def write_own_tensor(tensor: TensorValue) -> Message:
    """Return a TensorProto like `tf.make_tensor_proto`: as `write_tensor` does, but without raw content for some types."""
    message = write_tensor(tensor)
    if message.tensor_content and tensor.dtype.name in _BY_ELEMENT:
        message.ClearField("tensor_content")
        _write_value(message, tensor.dtype, np.asarray(tensor.array).reshape(-1))
    return message


def _string_values(array: Array, is_one_value: bool) -> list[bytes]:
    flat = array.reshape(-1)[:1] if is_one_value else array.reshape(-1)
    return [value.encode() if isinstance(value, str) else bytes(value) for value in flat.tolist()]


def _write_value(message: Message, dtype: DataType, value: Array) -> None:
    name = value_field(dtype).name
    if name == "float8_val":
        message.float8_val = value.tobytes()
    else:
        getattr(message, name).extend(stored_values(value, dtype).tolist())
