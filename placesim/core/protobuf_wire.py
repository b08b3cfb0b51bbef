"""Wire format of protocol buffers: varints, and the fields of a message as spans of bytes.

This parser does not copy large values. Checkpoints and summaries can be read without an import of protobuf. Source:
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of fields."""
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_ALL_ONES = (1 << 64) - 1


class WireError(Exception):
    """An error in a binary or text message. For text formats it has a line and column."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


# --- reading --------------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """A field of a message, in the bytes [start, end); its value, without tag and length, is in the bytes [value_start, end).

    `number_value` is the value of a varint field as an unsigned 64-bit number, and 0 for any other field.
    """

    number: int
    wire_type: int
    start: int
    value_start: int
    end: int
    number_value: int


def read_varint(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the unsigned 64-bit number at a position, and the position after it.  Raises WireError."""
    if position < end and data[position] < 128:
        return data[position], position + 1
    value = shift = 0
    for index in range(position, min(end, position + _MAX_VARINT_BYTES)):
        byte = data[index]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _ALL_ONES, index + 1
        shift += 7
    is_cut = end - position < _MAX_VARINT_BYTES
    raise WireError(f"truncated at byte {end}" if is_cut else f"unterminated number at byte {position}")


def read_varints(data: bytes | memoryview, count: int) -> tuple[list[int], int]:
    """Return `count` unsigned 64-bit numbers from the start, and the position after them.  Raises WireError."""
    position, found = 0, []
    for _ in range(count):
        value, position = read_varint(data, position, len(data))
        found.append(value)
    return found, position


def to_signed(value: int) -> int:
    """Convert an unsigned 64-bit number to the signed number with the same bits."""
    return value - (1 << 64) if value >> 63 else value


def field_at(data: bytes | memoryview, start: int, end: int) -> Field:
    """Parse the field at `start` of a message that ends at `end`.  Raises WireError."""
    tag, position = read_varint(data, start, end)
    wire_type, value = tag & 7, 0
    if tag < 8:
        raise WireError(f"invalid field number 0 at byte {start}")
    value_start = position
    if wire_type == BYTES:
        size, value_start = read_varint(data, position, end)
        position = value_start + size
    elif wire_type == VARINT:
        value, position = read_varint(data, position, end)
    elif wire_type in _FIXED_BYTES:
        position += _FIXED_BYTES[wire_type]
    else:
        raise WireError(f"invalid wire type {wire_type} at byte {start}")
    if position > end:
        raise WireError(f"truncated: field {tag >> 3} at byte {start} ends at byte {position}, past the end at {end}")
    return Field(tag >> 3, wire_type, start, value_start, position, value)


def fields(data: bytes | memoryview, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield the fields of the message in [start, end), in the order of the bytes. Raises WireError."""
    end = len(data) if end is None else end
    while start < end:
        field = field_at(data, start, end)
        start = field.end
        yield field


def field_values(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field: an integer for a varint, else bytes. Raises WireError."""
    for field in fields(data):
        yield field.number, field.number_value if field.wire_type == VARINT else data[field.value_start : field.end]


def take_run(data: bytes | memoryview, number: int, position: int, end: int, spans: array[int]) -> int:
    """Append to `spans` the start and end of each value in a sequence of fields `number` that starts at `position`.

    The fields hold bytes. Returns the position after the last one. This loop is separate for speed, as a graph may have
    millions of nodes. Raises WireError.
    """
    tag = number << 3 | BYTES
    append = spans.append
    while position + 1 < end and data[position] == tag:
        size = data[position + 1]
        start = position + 2
        if size > 127:
            if start < end and data[start] < 128:
                size += (data[start] << 7) - 128
                start += 1
            else:
                size, start = read_varint(data, position + 1, end)
        if start + size > end:
            where = f"field {number} at byte {position} ends at byte {start + size}, past the end at {end}"
            raise WireError(f"truncated: {where}")
        position = start + size
        append(start)
        append(position)
    return position


def last_message(data: bytes | memoryview, number: int, start: int = 0, end: int | None = None) -> Field | None:
    """Return the content of the last field with this number that holds bytes, or None. Raises WireError."""
    found = None
    for field in fields(data, start, end):
        if field.number == number and field.wire_type == BYTES:
            found = field
    return found


# --- writing --------------------------------------------------------------------------------------------------------


def write_varint(value: int) -> bytes:
    """Encode a number of at least 0 as a varint: seven bits per byte, lowest first."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def field_head(number: int, size: int) -> bytes:
    """Encode the tag and length that precede a field of `size` bytes."""
    return write_varint(number << 3 | BYTES) + write_varint(size)


def message_field(number: int, data: bytes) -> bytes:
    """Encode a field of bytes or of a message."""
    return field_head(number, len(data)) + data


def number_field(number: int, value: int, is_written: bool = False) -> bytes:
    """Encode a field with a signed number; the default 0 is written only if `is_written`."""
    return write_varint(number << 3 | VARINT) + write_varint(value & _ALL_ONES) if value or is_written else b""


def fixed_field(number: int, data: bytes) -> bytes:
    """Encode a field of 4 or 8 raw bytes."""
    return write_varint(number << 3 | (FIXED32 if len(data) == 4 else FIXED64)) + data
