"""Conversion between the parsed fields of a `TensorProto` and numpy arrays.

Source: TensorFlow's `tensor.proto` and `Tensor::FromProto`. Raw content has all elements. Without it, a field has single
values. If there are too few values, the last value is repeated; without values, all elements are zero; surplus values are
ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import (
    BFLOAT16,
    BOOL,
    BY_NUMBER,
    COMPLEX64,
    COMPLEX128,
    DOUBLE,
    FLOAT,
    HALF,
    INT64,
    STRING,
    UINT32,
    UINT64,
    DataType,
)
from placesim.core.protobuf_wire import (
    WireError,
    field_values,
    message_field,
    number_field,
    read_varint,
    read_varints,
    to_signed,
    write_varint,
)

MAX_BYTES = 2 << 30
"""Maximum size in bytes of a tensor that a file declares without writing out its elements."""
OBJECT_BYTES = 8
"""Size in bytes of a string, resource or variant in memory: a reference."""
MAX_DIMENSIONS = 64
VIEW_ELEMENTS = 64
"""A value that is repeated more often than this is stored once, and the array is a view of it."""
Array = np.ndarray[Any, Any]
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4


class ValueField(NamedTuple):
    """The field of `TensorProto` that holds single values of a type. `stored` is the numpy type of the field's elements."""

    number: int
    name: str
    stored: Any


_VALUE_FIELDS = {
    FLOAT: ValueField(5, "float_val", np.float32),
    DOUBLE: ValueField(6, "double_val", np.float64),
    STRING: ValueField(8, "string_val", np.object_),
    COMPLEX64: ValueField(9, "scomplex_val", np.float32),
    INT64: ValueField(10, "int64_val", np.int64),
    BOOL: ValueField(11, "bool_val", np.bool_),
    COMPLEX128: ValueField(12, "dcomplex_val", np.float64),
    HALF: ValueField(13, "half_val", np.int32),
    BFLOAT16: ValueField(13, "half_val", np.int32),
    UINT32: ValueField(16, "uint32_val", np.uint32),
    UINT64: ValueField(17, "uint64_val", np.uint64),
}
_INTS, _BYTES = ValueField(7, "int_val", np.int32), ValueField(18, "float8_val", np.uint8)
BITS_IN_INTS = (HALF, BFLOAT16)
"""Types whose field holds their bits as integers."""
PLAIN = frozenset((FLOAT, DOUBLE, INT64, BOOL, UINT32, UINT64))
"""Types whose field holds their values unchanged."""


def value_field(dtype: DataType) -> ValueField:
    """Return the field for the single values of a type."""
    return _BYTES if dtype.name.startswith(("float8", "float4")) else _VALUE_FIELDS.get(dtype, _INTS)


def has_one_value(array: Array) -> bool:
    """Whether an array is a view of one value, repeated for more than VIEW_ELEMENTS elements."""
    return array.size > VIEW_ELEMENTS and not any(array.strides)


def is_plain_value(array: Array) -> bool:
    """Whether TensorFlow's Python writes the array as one value instead of raw content.

    A NaN is written as raw content, because only that keeps its bits.
    """
    return has_one_value(array) or (array.size == 1 and array.dtype.isnative and (value := array.item()) == value)


def stored_values(values: Array, dtype: DataType) -> Array:
    """Convert a vector to the form in which the type's field stores values. Types whose field holds bytes are not allowed."""
    field = value_field(dtype)
    if dtype in BITS_IN_INTS:
        return values.view(np.uint16)
    if dtype.is_complex:
        return values.view(field.stored)
    return values.astype(np.int32) if field is _INTS else values


def element_type(number: int) -> DataType:
    """Return the type with that number. Raises WireError for types that have no constants."""
    dtype = BY_NUMBER.get(number)
    if dtype is None or (dtype.size == 0 and dtype is not STRING):
        name = "an unknown type" if dtype is None else dtype.name
        raise WireError(f"Cannot parse tensor from tensor_proto: unsupported constant of type {name} ({number})")
    return dtype


def known_dims(sizes: Sequence[int], has_unknown_rank: bool = False) -> tuple[int, ...]:
    """Convert the sizes in a message to a tensor's shape. Raises WireError for an impossible shape."""
    if has_unknown_rank:
        raise WireError("Cannot parse tensor from tensor_proto: its rank is unknown")
    if len(sizes) > MAX_DIMENSIONS:
        what = f"{len(sizes)} dimensions, expected at most {MAX_DIMENSIONS}"
        raise WireError(f"Cannot parse tensor from tensor_proto: {what}")
    if sizes and min(sizes) < 0:
        raise WireError(f"Cannot parse tensor from tensor_proto: shape {list(sizes)} has a negative dimension")
    return tuple(sizes)


def content_array(data: bytes | memoryview, dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Return an array made from raw content. An array of numbers is a view of the content.

    Raises WireError if the content has another size.
    """
    count = math.prod(shape)
    if dtype is STRING:
        return fill_tensor(_strings(data, count), dtype, shape)
    if len(data) != count * dtype.size:
        expected = f"{count * dtype.size} for {dtype.name} of shape {list(shape)}"
        raise WireError(f"Cannot parse tensor from tensor_proto: {len(data)} bytes of tensor_content, expected {expected}")
    array: Array = np.frombuffer(data, dtype.numpy).reshape(shape)
    return array


def _strings(data: bytes | memoryview, count: int) -> Array:
    """Parse the strings in raw content: all lengths as varints, then the bytes of all strings."""
    if count > len(data):
        raise WireError(f"Cannot parse tensor from tensor_proto: {len(data)} bytes of tensor_content for {count} strings")
    lengths, position = read_varints(data, count)
    if position + sum(lengths) != len(data):
        raise WireError(f"Cannot parse tensor from tensor_proto: the strings' lengths do not add up to {len(data)} bytes")
    found = np.empty(count, object)
    for index, length in enumerate(lengths):
        found[index] = bytes(data[position : position + length])
        position += length
    return found


def values_array(stored: Array, dtype: DataType) -> Array:
    """Convert the stored values of a type's field to an array of elements.

    Complex numbers are stored as pairs, and some floats as their bits.
    """
    if dtype in BITS_IN_INTS:
        return stored.astype(np.uint16).view(dtype.numpy)
    if dtype.is_complex:
        return stored[: len(stored) // 2 * 2].view(dtype.numpy)
    field = value_field(dtype)
    if field is _BYTES:
        return stored.view(dtype.numpy)
    return stored.astype(dtype.numpy) if field is _INTS else stored


def size_problem(shape: Sequence[int], dtype: DataType) -> str:
    """Return why a file may not declare a tensor of this shape; empty if the tensor has at most MAX_BYTES."""
    size = math.prod(shape) * (dtype.size or OBJECT_BYTES)
    if size <= MAX_BYTES:
        return ""
    return f"tensor too large: got {size} bytes for shape {list(shape)}, expected at most {MAX_BYTES} (2 GiB)"


def fill_tensor(values: Array, dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Return a tensor made of `values`; the last value is repeated for the remaining elements.

    If one value fills many elements, the array is a view of it. Raises WireError beyond MAX_BYTES.
    """
    count = math.prod(shape)
    if len(values) == count:
        return values.reshape(shape)
    problem = size_problem(shape, dtype)
    if problem:
        raise WireError(problem)
    if not len(values):
        values = np.array([b""], object) if dtype is STRING else np.zeros(1, dtype.numpy)
    if len(values) > count:
        return values[:count].reshape(shape)
    if len(values) == 1 and count > VIEW_ELEMENTS:
        return np.broadcast_to(values.reshape(()), shape)
    return np.concatenate([values, np.repeat(values[-1:], count - len(values))]).reshape(shape)


# --- whole messages -------------------------------------------------------------------------------------------------


def read_serialised(data: bytes) -> tuple[DataType, Array]:
    """Return the type and array of a serialised `TensorProto`, without protobuf. Raises WireError for other bytes."""
    listed = list(field_values(data))
    numbers = {number: value for number, value in listed if isinstance(value, int)}
    messages = {number: value for number, value in listed if isinstance(value, bytes)}
    dtype = element_type(numbers.get(_DTYPE, 0))
    shape = _parse_shape(messages.get(_SHAPE, b""))
    content = messages.get(_CONTENT, b"")
    if content:
        return dtype, content_array(content, dtype, shape).copy()
    given = (value for number, value in listed if number == value_field(dtype).number)
    return dtype, np.array(fill_tensor(values_array(_stored(given, dtype), dtype), dtype, shape))


def _parse_shape(data: bytes) -> tuple[int, ...]:
    dims, has_unknown_rank = [], False
    for number, value in field_values(data):
        if number == 2 and isinstance(value, bytes):
            sizes = [size for field, size in field_values(value) if field == 1 and isinstance(size, int)]
            dims.append(to_signed(sizes[-1]) if sizes else 0)
        elif number == 3:
            has_unknown_rank = bool(value)
    return known_dims(dims, has_unknown_rank)


def _stored(values: Iterable[int | bytes], dtype: DataType) -> Array:
    """Read the values of a type's field, which may be packed or have one entry per value."""
    field = value_field(dtype)
    if dtype is STRING:
        texts = [value for value in values if isinstance(value, bytes)]
        return np.fromiter(texts, object, len(texts))
    if field is _BYTES or np.issubdtype(field.stored, np.floating):
        content = b"".join(value for value in values if isinstance(value, bytes))
        if len(content) % np.dtype(field.stored).itemsize:
            raise WireError(f"Cannot parse tensor from tensor_proto: {len(content)} bytes of {field.name}")
        return np.frombuffer(content, field.stored)
    numbers = [number for value in values for number in ((value,) if isinstance(value, int) else packed_numbers(value))]
    return np.array(numbers, np.uint64).astype(field.stored)


def packed_numbers(data: bytes) -> list[int]:
    """Parse consecutive varints. Raises WireError if the last is truncated."""
    position, found = 0, []
    while position < len(data):
        number, position = read_varint(data, position, len(data))
        found.append(number)
    return found


def serialise_tensor(value: Array, dtype: DataType, has_raw_strings: bool = False) -> bytes:
    """Serialise a tensor as a `TensorProto` with raw content.

    Strings are in a field, or in the raw content if `has_raw_strings`.
    """
    dims = b"".join(message_field(2, number_field(1, dim)) for dim in value.shape)
    head = number_field(_DTYPE, dtype.number) + message_field(_SHAPE, dims)
    if dtype is not STRING:
        content = np.ascontiguousarray(value).tobytes()
    else:
        texts = value.reshape(-1).tolist()
        if not has_raw_strings:
            return head + b"".join(message_field(value_field(STRING).number, text) for text in texts)
        content = b"".join(write_varint(len(text)) for text in texts) + b"".join(texts)
    return head + (message_field(_CONTENT, content) if content else b"")
