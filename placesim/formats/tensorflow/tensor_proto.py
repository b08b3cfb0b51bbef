"""TensorProto <-> constant tensor.  A tensor's raw content is viewed where it stands; one value for many elements stays one.

Rules: TensorFlow's `Tensor::FromProto`.  Too few values: the last is repeated; none: zeros; too many: the rest is ignored.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from placesim.dtypes import (
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
    DType,
)
from placesim.formats.tensorflow.messages import Buffer, Message, message_class
from placesim.formats.tensorflow.wire import WireError, read_varint
from placesim.ops.attributes import TensorValue

MAX_BYTES = 2 << 30
"""A tensor that its file does not spell out, but only declares, is refused beyond this."""
MAX_DIMENSIONS = 64
_VIEW_ELEMENTS = 64
Array = np.ndarray[Any, Any]

_VALUE_FIELDS: dict[DType, tuple[str, Any]] = {
    # the field that holds a type's values, and the numpy type of what stands in it
    FLOAT: ("float_val", np.float32),
    DOUBLE: ("double_val", np.float64),
    INT64: ("int64_val", np.int64),
    BOOL: ("bool_val", np.bool_),
    UINT32: ("uint32_val", np.uint32),
    UINT64: ("uint64_val", np.uint64),
    HALF: ("half_val", np.int32),
    BFLOAT16: ("half_val", np.int32),
    COMPLEX64: ("scomplex_val", np.float32),
    COMPLEX128: ("dcomplex_val", np.float64),
    STRING: ("string_val", np.object_),
}
_BITS_IN_INTS = (HALF, BFLOAT16)
_PLAIN = frozenset((FLOAT, DOUBLE, INT64, BOOL, UINT32, UINT64))


# --- reading --------------------------------------------------------------------------------------------------------


def read_tensor(message: Message, content: Buffer | None = None) -> TensorValue:
    """The tensor of a TensorProto; `content` stands for a `tensor_content` that was left where it is.  Raises WireError."""
    dtype = BY_NUMBER.get(message.dtype)
    if dtype is None or (dtype.size == 0 and dtype is not STRING):
        name = "an unknown type" if dtype is None else dtype.name
        raise WireError(f"Cannot parse tensor from tensor_proto: a constant of type {name} ({message.dtype}) cannot be held")
    shape = _shape(message.tensor_shape)
    if not shape and dtype in _PLAIN and content is None:
        name, stored = _VALUE_FIELDS[dtype]
        values = getattr(message, name)
        if len(values) == 1 and not message.tensor_content:
            return TensorValue(dtype, np.array(values[0], stored))
    data = content if content is not None else message.tensor_content
    if len(data):
        return TensorValue(dtype, _content(data, dtype, shape))
    return TensorValue(dtype, _filled(_values(message, dtype, math.prod(shape)), dtype, shape))


def _shape(message: Message) -> tuple[int, ...]:
    if message.unknown_rank:
        raise WireError("Cannot parse tensor from tensor_proto: its rank is unknown")
    if not message.dim:
        return ()
    if len(message.dim) > MAX_DIMENSIONS:
        what = f"{len(message.dim)} dimensions, expected at most {MAX_DIMENSIONS}"
        raise WireError(f"Cannot parse tensor from tensor_proto: {what}")
    dims = tuple([dim.size for dim in message.dim])
    if min(dims) < 0:
        raise WireError(f"Cannot parse tensor from tensor_proto: shape {list(dims)} has a negative dimension")
    return dims


def _content(data: Buffer, dtype: DType, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    if dtype is STRING:
        return _filled(_strings(data, count), dtype, shape)
    if len(data) != count * dtype.size:
        expected = f"{count * dtype.size} for {dtype.name} of shape {list(shape)}"
        raise WireError(f"Cannot parse tensor from tensor_proto: {len(data)} bytes of tensor_content, expected {expected}")
    array: Array = np.frombuffer(data, dtype.numpy).reshape(shape)
    return array


def _strings(data: Buffer, count: int) -> Array:
    """Strings in `tensor_content`: their lengths as varints, then their bytes."""
    if count > len(data):
        raise WireError(f"Cannot parse tensor from tensor_proto: {len(data)} bytes of tensor_content for {count} strings")
    position, lengths = 0, []
    for _ in range(count):
        length, position = read_varint(data, position, len(data))
        lengths.append(length)
    if position + sum(lengths) != len(data):
        raise WireError(f"Cannot parse tensor from tensor_proto: the strings' lengths do not add up to {len(data)} bytes")
    found = np.empty(count, object)
    for index, length in enumerate(lengths):
        found[index] = bytes(data[position : position + length])
        position += length
    return found


def _values(message: Message, dtype: DType, count: int) -> Array:
    """The values that are spelled out, at most `count` of them."""
    if dtype.name.startswith(("float8", "float4")):
        return np.frombuffer(message.float8_val[:count], dtype.numpy)
    name, stored = _VALUE_FIELDS.get(dtype, ("int_val", np.int32))
    field = getattr(message, name)
    given = len(field)
    if given == 1:
        found = np.array([field[0]], stored)
    else:
        wanted = min(given, count * (2 if dtype.is_complex else 1))
        found = np.fromiter(field if wanted == given else field[:wanted], stored, wanted)
    if dtype in _BITS_IN_INTS:
        return found.astype(np.uint16).view(dtype.numpy)
    if dtype.is_complex:
        return found[: len(found) // 2 * 2].view(dtype.numpy)
    return found if name != "int_val" else found.astype(dtype.numpy)


def _filled(values: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    if len(values) == count:
        return values.reshape(shape)
    size = count * max(dtype.size, 1)
    if size > MAX_BYTES:
        raise WireError(f"tensor too large: got {size} bytes for shape {list(shape)}, expected at most {MAX_BYTES} (2 GiB)")
    if not len(values):
        values = np.array([b""], object) if dtype is STRING else np.zeros(1, dtype.numpy)
    if len(values) > count:
        return values[:count].reshape(shape)
    if len(values) == 1 and count > _VIEW_ELEMENTS:
        return np.broadcast_to(values.reshape(()), shape)
    return np.concatenate([values, np.repeat(values[-1:], count - len(values))]).reshape(shape)


# --- writing --------------------------------------------------------------------------------------------------------


def raw_content(tensor: TensorValue) -> memoryview | None:
    """The bytes of `tensor_content`, a view of the array where that has them in order; None where there is no content."""
    array = np.asarray(tensor.array)
    if tensor.dtype.size == 0 or array.size <= 1 or _is_one_value(array):
        return None
    ordered = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(ordered).reshape(-1).view(np.uint8).data


def _is_one_value(array: Array) -> bool:
    return array.size > _VIEW_ELEMENTS and not any(array.strides)


def write_tensor(tensor: TensorValue, *, without_content: bool = False) -> Message:
    """A TensorProto as TensorFlow's Python makes one: raw content for more than one element, else the type's own field.

    With `without_content` the caller puts the raw content there.  Raises WireError for a type that has no constants.
    """
    dtype, array = tensor.dtype, np.asarray(tensor.array)
    if dtype.size == 0 and dtype is not STRING:
        raise WireError(f"a constant of type {dtype.name} cannot be written")
    message = message_class("TensorProto")(dtype=dtype.number)
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    is_one_value = _is_one_value(array)
    if dtype is STRING:
        message.string_val.extend(_string_values(array, is_one_value))
    elif is_one_value or (array.size == 1 and array.dtype.isnative and not _is_nan(array)):
        _write_value(message, dtype, array.reshape(-1)[:1])
    elif array.size and not without_content:
        message.tensor_content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return message


def _string_values(array: Array, is_one_value: bool) -> list[bytes]:
    flat = array.reshape(-1)[:1] if is_one_value else array.reshape(-1)
    return [value.encode() if isinstance(value, str) else bytes(value) for value in flat.tolist()]


def _is_nan(array: Array) -> bool:
    """A NaN's bits are kept only as raw content."""
    return bool((array != array).any())


def _write_value(message: Message, dtype: DType, value: Array) -> None:
    if dtype.name.startswith(("float8", "float4")):
        message.float8_val = value.tobytes()
        return
    name, stored = _VALUE_FIELDS.get(dtype, ("int_val", np.int32))
    if dtype in _BITS_IN_INTS:
        value = value.view(np.uint16)
    elif dtype.is_complex:
        value = value.view(stored)
    elif name == "int_val":
        value = value.astype(np.int32)
    getattr(message, name).extend(value.tolist())
