"""Messages as their fields' values by tag, as much of that as a checkpoint's index needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placesim.core.errors import DataLossError
from placesim.core.protobuf_wire import BYTES, FIXED32, VARINT, WireError, fields, to_signed

Fields = dict[int, list[Any]]
"""The values of a message in the order in which they were written, by their fields' tags."""


@contextmanager
def wire_errors() -> Iterator[None]:
    """Turns WireError into a DataLossError."""
    try:
        yield
    except WireError as error:
        raise DataLossError(f"corrupted: {error}") from None


def parse(data: bytes) -> Fields:
    """The fields of a message.  Raises DataLossError."""
    found: Fields = {}
    with wire_errors():
        for field in fields(data):
            value = field.number_value if field.wire_type == VARINT else data[field.value_start : field.end]
            found.setdefault(field.number << 3 | field.wire_type, []).append(value)
    return found


def number(fields: Fields, field: int) -> int:
    """A signed number of a message, 0 where it was not written."""
    return to_signed(fields.get(field << 3 | VARINT, (0,))[-1])


def has_number(fields: Fields, field: int) -> bool:
    """Whether a number was written."""
    return field << 3 | VARINT in fields


def fixed32(fields: Fields, field: int) -> int:
    """A number of 32 bits, 0 where it was not written."""
    return int.from_bytes(fields.get(field << 3 | FIXED32, (b"",))[-1], "little")


def messages(fields: Fields, field: int) -> list[bytes]:
    """The messages of a repeated field."""
    return fields.get(field << 3 | BYTES, [])


def message(fields: Fields, field: int) -> Fields:
    """The message of a field; where it was written more than once, all its fields.  Raises DataLossError."""
    return parse(b"".join(messages(fields, field)))
