"""The fields of a protocol buffer as spans of the bytes they stand in, so that what is large is looked at and never copied."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from placesim.checkpoints.wire import write_varint

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


class WireError(Exception):
    """Bytes or text that are no message of the class; the text says why, and of a text the line and column say where."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Field(NamedTuple):
    """One field: it stands at [start, end), its value (without tag and length) at [value_start, end)."""

    number: int
    wire_type: int
    start: int
    value_start: int
    end: int


def read_varint(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """The number at a position, and the position after it.  Raises WireError."""
    value = shift = 0
    for index in range(position, min(end, position + _MAX_VARINT_BYTES)):
        byte = data[index]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, index + 1
        shift += 7
    is_cut = end - position < _MAX_VARINT_BYTES
    raise WireError(f"truncated at byte {end}" if is_cut else f"a number without end at byte {position}")


def field_head(number: int, size: int) -> bytes:
    """What stands before the `size` bytes of a field."""
    return write_varint(number << 3 | BYTES) + write_varint(size)


def field_at(data: bytes | memoryview, start: int, end: int) -> Field:
    """The field that stands at a position of a message that ends at `end`.  Raises WireError."""
    tag, position = read_varint(data, start, end)
    wire_type = tag & 7
    if tag < 8:
        raise WireError(f"no field has number 0: at byte {start}")
    value_start = position
    if wire_type == BYTES:
        size, value_start = read_varint(data, position, end)
        position = value_start + size
    elif wire_type == VARINT:
        _, position = read_varint(data, position, end)
    elif wire_type == FIXED32:
        position += 4
    elif wire_type == FIXED64:
        position += 8
    else:
        raise WireError(f"no field has wire type {wire_type}: at byte {start}")
    if position > end:
        raise WireError(f"truncated: field {tag >> 3} at byte {start} reaches to byte {position}, beyond the end at {end}")
    return Field(tag >> 3, wire_type, start, value_start, position)


def fields(data: bytes | memoryview, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of the message that stands at [start, end), in the order in which they were written.  Raises WireError."""
    end = len(data) if end is None else end
    while start < end:
        field = field_at(data, start, end)
        start = field.end
        yield field


def take_run(data: bytes | memoryview, number: int, position: int, end: int, spans: array[int]) -> int:
    """Append the starts and ends of the values of all fields of that number that follow each other at a position.

    The fields hold bytes.  Returns the position after them.  A loop of its own because a graph's nodes come by the million.
    """
    tag = number << 3 | BYTES
    append = spans.append
    while position + 1 < end and data[position] == tag:
        size = data[position + 1]
        start = position + 2
        if size > 127:
            size, start = read_varint(data, position + 1, end)
        if start + size > end:
            where = f"field {number} at byte {position} reaches to byte {start + size}, beyond the end at {end}"
            raise WireError(f"truncated: {where}")
        position = start + size
        append(start)
        append(position)
    return position


def last_message(data: bytes | memoryview, number: int, start: int = 0, end: int | None = None) -> Field | None:
    """The last field of that number that holds bytes; None where there is none.  Raises WireError."""
    found = None
    for field in fields(data, start, end):
        if field.number == number and field.wire_type == BYTES:
            found = field
    return found
