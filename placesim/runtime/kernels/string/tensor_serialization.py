"""Tensors as serialized `TensorProto` messages and back.

Source: TensorFlow's `tensor.proto`: field 1 the type, 2 the shape, 4 the content; other fields hold single values by type.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from placesim.dtypes import BY_NUMBER, STRING, DType
from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.dimensions import shape_text
from placesim.runtime.kernels.kernel import Kernel, Table, Tensor
from placesim.runtime.kernels.string_tensors import flat_strings, string_array
from placesim.runtime.shapes import scalar

MASK_64 = (1 << 64) - 1
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
"""Wire types."""
DTYPE, SHAPE, CONTENT, STRINGS = 1, 2, 4, 8
"""Fields of `TensorProto`."""
VALUE_FIELDS = {
    **dict.fromkeys(("half", "bfloat16"), 13),
    **dict.fromkeys(("float",), 5),
    **dict.fromkeys(("double",), 6),
    **dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8", "qint8", "quint8", "qint16", "quint16", "qint32"), 7),
    **dict.fromkeys(("complex64",), 9),
    **dict.fromkeys(("int64",), 10),
    **dict.fromkeys(("bool",), 11),
    **dict.fromkeys(("complex128",), 12),
    **dict.fromkeys(("uint32",), 16),
    **dict.fromkeys(("uint64",), 17),
}
"""The field that holds single values of a type."""
PACKED = {5: "<f4", 6: "<f8", 9: "<f4", 12: "<f8"}
"""The numbers that such a field holds side by side; the others hold varints."""


# --- the wire -------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A non-negative number, seven bits a byte."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def message_field(number: int, data: bytes) -> bytes:
    """A field of bytes, or of a message."""
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """A field of a number; zero, the default, is not written."""
    return varint(number << 3 | VARINT) + varint(value & MASK_64) if value else b""


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value & MASK_64, at


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by number, in order; ValueError where it is cut off or of no known form."""
    at = 0
    while at < len(data):
        try:
            tag, at = _read_varint(data, at)
            wire = tag & 7
            if wire == VARINT:
                value, at = _read_varint(data, at)
                yield tag >> 3, value
                continue
            size = {FIXED_64: 8, FIXED_32: 4}.get(wire, 0)
            if wire == BYTES:
                size, at = _read_varint(data, at)
        except IndexError:
            raise ValueError("cut off") from None
        if (not size and wire != BYTES) or at + size > len(data) or not tag >> 3:
            raise ValueError("not a message")
        yield tag >> 3, data[at : at + size]
        at += size


# --- tensors --------------------------------------------------------------------------------------------------------


def tensor_message(value: Tensor, dtype: DType) -> bytes:
    """A tensor as a serialized `TensorProto` with its content packed; strings each in a field."""
    dims = b"".join(message_field(2, number_field(1, dim)) for dim in value.shape)
    head = number_field(DTYPE, dtype.number) + message_field(SHAPE, dims)
    if dtype is STRING:
        return head + b"".join(message_field(STRINGS, text) for text in flat_strings(value))
    content = np.ascontiguousarray(value).tobytes()
    return head + (message_field(CONTENT, content) if content else b"")


def _read_shape(data: bytes) -> tuple[int, ...]:
    dims = []
    for number, value in read_fields(data):
        if number == 2 and isinstance(value, bytes):
            sizes = [size for field, size in read_fields(value) if field == 1 and isinstance(size, int)]
            dims.append(sizes[-1] if sizes else 0)
    return tuple(dims)


def field_numbers(field: int, value: int | bytes) -> list[Any]:
    """The numbers of one field of single values, packed or one for each time that it occurs; IndexError where cut off."""
    if field in PACKED:
        return np.frombuffer(value, PACKED[field]).tolist() if isinstance(value, bytes) else []
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        found.append(number)
    return found


def _array_of(numbers: Sequence[Any], dtype: DType) -> Tensor:
    """Field numbers as elements: 16-bit floats are held as their bits, complex numbers as two, the rest wraps."""
    if dtype.is_complex:
        pairs = np.array(numbers, np.float64).reshape(-1, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype.numpy)
    if VALUE_FIELDS[dtype.name] == 13:
        return np.array(numbers, np.uint64).astype(np.uint16).view(dtype.numpy)
    if dtype.is_floating:
        return np.array(numbers, np.float64).astype(dtype.numpy)
    return np.array(numbers, np.uint64).astype(dtype.numpy)


def _filled(values: Sequence[Any], count: int, default: Any) -> list[Any]:
    """Exactly `count` values: the last one given stands for all that follow."""
    given = list(values[:count])
    return given + [given[-1] if given else default] * (count - len(given))


def read_tensor(data: bytes) -> tuple[DType, Tensor]:
    """The type and the array of a serialized `TensorProto`; ValueError where it is none."""
    fields = list(read_fields(data))
    numbers = {number: value for number, value in fields if isinstance(value, int)}
    messages = {number: value for number, value in fields if isinstance(value, bytes)}
    dtype = BY_NUMBER.get(numbers.get(DTYPE, 0))
    if dtype is None or (dtype is not STRING and dtype.name not in VALUE_FIELDS):
        raise ValueError("no such type")
    shape = _read_shape(messages.get(SHAPE, b""))
    count = int(np.prod(shape, dtype=np.int64))
    if dtype is STRING:
        texts = [value for number, value in fields if number == STRINGS and isinstance(value, bytes)]
        return dtype, string_array(_filled(texts, count, b""), shape)
    if CONTENT in messages:
        if len(messages[CONTENT]) != count * dtype.numpy.itemsize:
            raise ValueError("content of another size")
        return dtype, np.frombuffer(messages[CONTENT], dtype.numpy).reshape(shape).copy()
    field = VALUE_FIELDS[dtype.name]
    values = [element for number, value in fields if number == field for element in field_numbers(field, value)]
    elements = _array_of(values, dtype).tolist()
    return dtype, np.array(_filled(elements, count, 0), dtype.numpy).reshape(shape)


def serialize_tensor(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """The tensor as a scalar string."""
    return (string_array([tensor_message(np.asarray(inputs[0]), attrs["T"])], ()),)


def parse_tensor(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """The tensor that a scalar string serializes."""
    if np.ndim(inputs[0]):
        raise InvalidArgumentError(f"Expected `serialized` to be a scalar, got shape: {shape_text(inputs[0])}")
    (serialized,) = flat_strings(inputs[0])
    try:
        dtype, array = read_tensor(serialized)
    except (ValueError, IndexError):
        shown = b64encode(serialized).decode()
        raise InvalidArgumentError(f"Could not parse `serialized` as TensorProto, base64: {shown}") from None
    if dtype is not attrs["out_type"]:
        raise InvalidArgumentError(f"Type mismatch between parsed tensor ({dtype}) and dtype ({attrs['out_type']})")
    return (array,)


TABLE: Table = {
    "SerializeTensor": Kernel(serialize_tensor, scalar),
    "ParseTensor": Kernel(parse_tensor, lambda context: (None,)),
}
