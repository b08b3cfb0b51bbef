"""Entries of a checkpoint's index: the header, and for each tensor its type, shape and position.

Source: TensorFlow's `tensor_bundle.proto`, `tensor_shape.proto`, `tensor_slice.proto`, `versions.proto`.
"""

from __future__ import annotations

from dataclasses import dataclass

from placesim.core.checkpoints.index_messages import Fields, fixed32, has_number, message, messages, number, parse
from placesim.core.checkpoints.tensor_slices import FULL, Extent, Region
from placesim.core.dtypes import BY_NUMBER, DataType
from placesim.core.errors import DataLossError, InvalidArgumentError
from placesim.core.protobuf_wire import fixed_field, message_field, number_field

HEADER_KEY = b""
_MAX_SHARDS = 100_000
_MAX_DIMENSIONS = 64
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Header:
    """The first entry of an index: the number of data files, and the versions of the writer."""

    shards: int = 1
    is_big_endian: bool = False
    producer: int = 1
    least_consumer: int = 0


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """The position of a tensor, or of a part of one: `size_bytes` bytes from `offset` on in data file `shard`.

    If a tensor was saved in parts, its entry has only `regions`; each part has its own entry.
    """

    dtype: DataType
    shape: tuple[int, ...]
    shard: int = 0
    offset: int = 0
    size_bytes: int = 0
    checksum: int = 0
    regions: tuple[Region, ...] = ()


# --- writing --------------------------------------------------------------------------------------------------------


def encode_header(header: Header) -> bytes:
    """Serialise a header."""
    version = number_field(1, header.producer) + number_field(2, header.least_consumer)
    return number_field(1, header.shards) + number_field(2, int(header.is_big_endian)) + message_field(3, version)


def encode_entry(entry: TensorEntry) -> bytes:
    """Serialise an entry."""
    shape = b"".join(message_field(2, number_field(1, size)) for size in entry.shape)
    return (
        number_field(1, entry.dtype.number)
        + message_field(2, shape)
        + number_field(3, entry.shard)
        + number_field(4, entry.offset)
        + number_field(5, entry.size_bytes)
        + (fixed_field(6, entry.checksum.to_bytes(4, "little")) if entry.checksum else b"")
        + b"".join(message_field(7, _encode_region(region)) for region in entry.regions)
    )


def _encode_region(region: Region) -> bytes:
    return b"".join(
        message_field(1, b"" if extent == (0, FULL) else number_field(1, extent.start) + number_field(2, extent.length, True))
        for extent in region
    )


# --- reading --------------------------------------------------------------------------------------------------------


def decode_header(data: bytes) -> Header:
    """Parse a header. Raises DataLossError, or InvalidArgumentError if its format is newer than placesim."""
    fields = parse(data)
    version = message(fields, 3)
    header = Header(number(fields, 1), number(fields, 2) == 1, number(version, 1), number(version, 2))
    if not 0 < header.shards <= _MAX_SHARDS:
        raise DataLossError(f"{header.shards} shards, expected from 1 to {_MAX_SHARDS}")
    if header.least_consumer > _VERSION:
        raise InvalidArgumentError(f"Checkpoint min consumer version {header.least_consumer} above current version {_VERSION}")
    return header


def decode_entry(key: bytes, data: bytes, shards: int) -> TensorEntry:
    """Parse the entry of `key` in a checkpoint with `shards` data files.  Raises DataLossError."""
    name = key.decode(errors="backslashreplace")
    fields = parse(data)
    dtype = BY_NUMBER.get(number(fields, 1))
    if dtype is None:
        raise DataLossError(f"Invalid type of tensor: {name} has number {number(fields, 1)}")
    shape = _shape(name, message(fields, 2))
    regions = tuple(_region(name, parse(part), len(shape)) for part in messages(fields, 7))
    shard, offset, size_bytes = number(fields, 3), number(fields, 4), number(fields, 5)
    if not regions and (offset < 0 or size_bytes < 0 or not 0 <= shard < shards):
        raise DataLossError(f"Invalid place of tensor: {name} lies at {offset} of shard {shard}")
    return TensorEntry(dtype, shape, shard, offset, size_bytes, fixed32(fields, 6), regions)


def _shape(name: str, fields: Fields) -> tuple[int, ...]:
    shape = tuple(number(parse(dim), 1) for dim in messages(fields, 2))
    if number(fields, 3) or any(size < 0 for size in shape) or len(shape) > _MAX_DIMENSIONS:  # 3: unknown rank
        raise DataLossError(f"Invalid tensor shape: {name} {list(shape[:_MAX_DIMENSIONS])}")
    return shape


def _region(name: str, fields: Fields, rank: int) -> Region:
    parts = map(parse, messages(fields, 1))
    extents = tuple(Extent(number(part, 1), number(part, 2) if has_number(part, 2) else FULL) for part in parts)
    if len(extents) != rank or any(extent.start < 0 or extent.length < FULL for extent in extents):
        raise DataLossError(f"Invalid slice of tensor {name}")
    return extents
