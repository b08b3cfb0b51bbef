"""Minimal parser of the protocol-buffer messages in a checkpoint's index: field values by tag."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placesim.core.errors import DataLossError
from placesim.core.protobuf_wire import BYTES, FIXED32, VARINT, WireError, fields, to_signed

Fields = dict[int, list[Any]]
"""Values of a message by field tag, in the order in which they were written."""


@contextmanager
def wire_errors() -> Iterator[None]:
    """Turn a WireError inside the block into a DataLossError."""
    try:
        yield
    except WireError as error:
        raise DataLossError(f"corrupted: {error}") from None


def parse(data: bytes) -> Fields:
    """Parse a message into its fields. Raises DataLossError."""
    found: Fields = {}
    with wire_errors():
        for field in fields(data):
            value = field.number_value if field.wire_type == VARINT else data[field.value_start : field.end]
            found.setdefault(field.number << 3 | field.wire_type, []).append(value)
    return found


def number(fields: Fields, field: int) -> int:
    """Return the value of a signed integer field, 0 if it is missing."""
    return to_signed(fields.get(field << 3 | VARINT, (0,))[-1])


def has_number(fields: Fields, field: int) -> bool:
    """Whether an integer field is present."""
    return field << 3 | VARINT in fields


def fixed32(fields: Fields, field: int) -> int:
    """Return the value of a 32-bit field, 0 if it is missing."""
    return int.from_bytes(fields.get(field << 3 | FIXED32, (b"",))[-1], "little")


def messages(fields: Fields, field: int) -> list[bytes]:
    """Return the serialised messages of a repeated field."""
    return fields.get(field << 3 | BYTES, [])


def message(fields: Fields, field: int) -> Fields:
    """Parse the message in a field; all occurrences of the field are combined. Raises DataLossError."""
    return parse(b"".join(messages(fields, field)))
