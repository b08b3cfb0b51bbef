"""Decompressor of Snappy's raw format, for the index of a checkpoint.  Source: snappy's `format_description.txt`."""

from __future__ import annotations

from placesim.core.checkpoints.index_messages import wire_errors
from placesim.core.errors import DataLossError
from placesim.core.protobuf_wire import read_varint

_MAX_RATIO = 64


def expand_snappy(data: bytes) -> bytes:
    """Decompress Snappy data. Raises DataLossError."""
    with wire_errors():
        size, position = read_varint(data, 0, len(data))
    if size > len(data) * _MAX_RATIO:
        raise DataLossError("corrupted compressed block contents")
    made = bytearray()
    while position < len(data):
        length, distance, position = _element(data, position)
        if distance is None:
            made += data[position : position + length]
            position += length
        elif 0 < distance <= len(made):
            while length > 0:  # a copy may overlap its own output
                start = len(made) - distance
                piece = made[start : start + length]
                made += piece
                length -= len(piece)
        else:
            raise DataLossError("corrupted compressed block contents")
        if len(made) > size:
            break
    if len(made) != size or position > len(data):
        raise DataLossError("corrupted compressed block contents")
    return bytes(made)


def _element(data: bytes, position: int) -> tuple[int, int | None, int]:
    """Parse the header of an element.

    Returns its length, the distance of its copy (None for a literal), and the position after the header.
    """
    tag = data[position]
    kind, upper = tag & 3, tag >> 2
    position += 1
    if kind == 0:
        extra = upper - 59 if upper >= 60 else 0
        length = int.from_bytes(data[position : position + extra], "little") if extra else upper
        return length + 1, None, position + extra
    if kind == 1:
        offset = (tag >> 5) << 8 | int.from_bytes(data[position : position + 1], "little")
        return (upper & 7) + 4, offset, position + 1
    width = 2 if kind == 2 else 4
    return upper + 1, int.from_bytes(data[position : position + width], "little"), position + width
