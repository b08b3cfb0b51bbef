"""Strings in data files: their lengths as varints, a checksum of the lengths, then the strings without gaps.

The checksum covers each length as a 32-bit number, or as a 64-bit number if the length needs it. Source: TensorFlow's
`WriteStringTensor`, `ReadStringTensor`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.checkpoints.crc32c import crc32c, extend, mask
from placesim.core.checkpoints.index_messages import wire_errors
from placesim.core.errors import DataLossError
from placesim.core.protobuf_wire import read_varints, write_varint


def encode_strings(strings: Sequence[bytes]) -> tuple[bytes, int]:
    """Serialise strings; return the bytes and the checksum for their entry."""
    lengths = [len(text) for text in strings]
    checksum = crc32c(_fixed(lengths, "<"))
    rest = struct.pack("<I", mask(checksum)) + b"".join(strings)
    return b"".join(map(write_varint, lengths)) + rest, extend(checksum, rest)


def decode_strings(
    name: str, data: bytes | memoryview, count: int, is_big_endian: bool = False
) -> tuple[np.ndarray[Any, Any], int]:
    """Parse `count` strings; return the strings and the checksum that the index entry should have. Raises DataLossError."""
    if count > len(data):
        raise DataLossError(f"Invalid size in bundle entry: key {name}; stored size {len(data)}; expected at least {count}")
    if not count and not len(data):
        return np.empty(0, object), crc32c(b"")
    order = ">" if is_big_endian else "<"
    with wire_errors():
        lengths, position = read_varints(data, count)
    start = position + 4
    if start + sum(lengths) != len(data):
        raise DataLossError(f"String lengths longer than expected offset {len(data)}: key {name}")
    checksum = crc32c(_fixed(lengths, order))
    if bytes(data[position:start]) != struct.pack(order + "I", mask(checksum)):
        raise DataLossError(f"The length checksum does not match: key {name}")
    checksum = extend(checksum, data[position:])
    found = np.empty(count, object)
    for index, length in enumerate(lengths):
        found[index] = bytes(data[start : start + length])
        start += length
    return found, checksum


def _fixed(lengths: Sequence[int], order: str) -> bytes:
    return b"".join(struct.pack(order + ("I" if length < 1 << 32 else "Q"), length) for length in lengths)
