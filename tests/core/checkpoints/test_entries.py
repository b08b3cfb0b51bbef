"""The messages of an index: written and read as protobuf does, and never more than an error."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.checkpoints.index_entries import (
    Header,
    TensorEntry,
    decode_entry,
    decode_header,
    encode_entry,
    encode_header,
)
from placesim.core.checkpoints.tensor_slices import Extent, Region
from placesim.core.dtypes import DTYPES, FLOAT
from placesim.core.errors import DataLossError, InvalidArgumentError
from placesim.formats.tensorflow.messages import message_class, parse, serialise

SIZES = st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1))
EXTENTS = st.one_of(st.just(Extent()), st.builds(Extent, SIZES, SIZES))


@st.composite
def entries(draw: st.DrawFn) -> TensorEntry:
    shape = tuple(draw(st.lists(SIZES, max_size=5)))
    extents = st.lists(EXTENTS, min_size=len(shape), max_size=len(shape))
    regions: tuple[Region, ...] = tuple(tuple(region) for region in draw(st.lists(extents, max_size=3)))
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    return TensorEntry(
        dtype, shape, draw(st.integers(0, 99)), draw(SIZES), draw(SIZES), draw(st.integers(0, (1 << 32) - 1)), regions
    )


@given(entries())
def test_entries_are_protobufs(entry: TensorEntry) -> None:
    data = encode_entry(entry)
    message = parse("BundleEntryProto", data)
    assert serialise(message) == data
    assert decode_entry(b"x", data, 100) == entry
    assert message.dtype == entry.dtype.number
    assert tuple(dim.size for dim in message.shape.dim) == entry.shape
    assert (message.shard_id, message.offset, message.size) == (entry.shard, entry.offset, entry.size_bytes)
    assert message.crc32c == entry.checksum
    assert [len(part.extent) for part in message.slices] == [len(region) for region in entry.regions]


@given(st.builds(Header, st.integers(1, 100_000), st.booleans(), st.integers(0, 1 << 30), st.integers(0, 1)))
def test_headers_are_protobufs(header: Header) -> None:
    data = encode_header(header)
    message = parse("BundleHeaderProto", data)
    assert serialise(message) == data
    assert decode_header(data) == header
    assert (message.num_shards, message.endianness == 1) == (header.shards, header.is_big_endian)
    assert (message.version.producer, message.version.min_consumer) == (header.producer, header.least_consumer)


def test_fields_that_nobody_knows_are_passed_over() -> None:
    data = encode_entry(TensorEntry(FLOAT, (2,), 0, 0, 8, 5))
    unknown = bytes([15 << 3, 1]) + bytes([14 << 3 | 5]) + bytes(4) + bytes([13 << 3 | 1]) + bytes(8)
    assert decode_entry(b"x", unknown + data + unknown, 1) == decode_entry(b"x", data, 1)


def test_a_message_that_is_written_twice_is_one() -> None:
    message = message_class("BundleEntryProto")(dtype=1)
    message.shape.dim.add(size=2)
    data = serialise(message)
    assert decode_entry(b"x", data + data, 1).shape == tuple(
        dim.size for dim in parse("BundleEntryProto", data + data).shape.dim
    )


@pytest.mark.parametrize(
    "data", ["08", "0880", "0b", "00", "0a05", "35000000", "08ffffffffffffffffffff01", "12020a00" * 2 + "1202"]
)
def test_what_is_no_message(data: str) -> None:
    with pytest.raises(DataLossError, match="corrupted"):
        decode_entry(b"x", bytes.fromhex(data), 1)


@given(st.binary(max_size=60), st.integers(1, 3))
def test_any_bytes_are_an_entry_or_an_error(data: bytes, shards: int) -> None:
    for decode in (decode_header, lambda found: decode_entry(b"x", found, shards)):
        with suppress(DataLossError, InvalidArgumentError):
            decode(data)
