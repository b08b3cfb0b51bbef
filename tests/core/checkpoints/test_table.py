"""Table files: what was written is read, compressed blocks are expanded, and what is broken is said."""

from __future__ import annotations

import pytest

from placesim.core.checkpoints.snappy import expand_snappy
from placesim.core.checkpoints.table import MAX_KEYS_BYTES, read_table, write_table
from placesim.core.errors import DataLossError
from tests.core.checkpoints.checkpoint_files import table


def test_a_table_gives_back_its_entries() -> None:
    entries = [(b"", b"head"), *((f"name/{i:05d}".encode(), bytes([i % 256]) * 500) for i in range(1200)), (b"\xff\xff", b"")]
    data = write_table(entries)
    assert list(read_table(data)) == entries
    assert len(data) > 2 * 262144  # several blocks
    for damaged, message in (
        (data[:20], "file is too short to be an sstable"),
        (data[:-1] + b"x", r"not an sstable \(bad magic number\)"),
        (data[:100] + b"\x00\x01" + data[102:], "block checksum mismatch"),
    ):
        with pytest.raises(DataLossError, match=message):
            list(read_table(damaged))


def test_keys_that_take_few_bytes_in_the_file_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_KEYS_BYTES == 256 << 20
    monkeypatch.setattr("placesim.core.checkpoints.table.MAX_KEYS_BYTES", 1 << 20)  # as many take seconds to write
    common = b"k" * 65000
    data = write_table((common + number.to_bytes(3, "big"), b"") for number in range(1 + (1 << 20) // len(common)))
    with pytest.raises(DataLossError, match="table too large: its keys have more than 1048576 bytes"):
        for _ in read_table(data):
            pass


def test_snappy_is_expanded() -> None:
    # a literal, a copy that reaches into itself, a copy by a two-byte offset, a long literal
    assert expand_snappy(bytes([3, 2 << 2]) + b"abc") == b"abc"
    assert expand_snappy(bytes([9, 2 << 2]) + b"abc" + bytes([(6 - 4) << 2 | 1, 3])) == b"abcabcabc"
    assert expand_snappy(bytes([6, 2 << 2]) + b"abc" + bytes([(3 - 1) << 2 | 2, 3, 0])) == b"abcabc"
    assert expand_snappy(bytes([70, 60 << 2, 69]) + b"x" * 70) == b"x" * 70
    with pytest.raises(DataLossError, match="corrupted compressed block contents"):
        expand_snappy(bytes([9, 2 << 2]) + b"abc" + bytes([(6 - 4) << 2 | 1, 7]))


def test_a_compressed_table() -> None:
    def literal(data: bytes) -> bytes:
        return bytes([len(data) & 127 | 128, len(data) >> 7, 61 << 2]) + (len(data) - 1).to_bytes(2, "little") + data

    rows = [(b"a", b"1" * 50), (b"b", b"2" * 200)]
    assert list(read_table(table(rows, 1, literal))) == rows


SNAPPY = {
    bytes.fromhex("0510") + b"hello": b"hello",
    bytes.fromhex("0a0061") + bytes.fromhex("1501"): b"a" * 10,  # a copy of itself: 9 bytes from 1 back
    bytes.fromhex("080c61626364") + bytes.fromhex("0e0400"): b"abcdabcd",  # a copy with two bytes of offset
    bytes.fromhex("080c61626364") + bytes.fromhex("0f04000000"): b"abcdabcd",
}


@pytest.mark.parametrize("data", SNAPPY)
def test_snappy(data: bytes) -> None:
    assert expand_snappy(data) == SNAPPY[data]


BAD_TABLES = {
    b"": "file is too short to be an sstable",
    bytes(48): r"not an sstable \(bad magic number\)",
    table([(b"b", b""), (b"a", b"")]): "its keys are not in order",
    table([(b"a", b"")], 7): "bad block type",
    table([(b"a", b"")], 1): "corrupted compressed block contents",
    bytes([1]) + table([(b"a", b"")])[1:]: "block checksum mismatch",
    table([(b"a" * 70_000, b"")]): "bad entry in block",
    table([(b"a", b"")], 0, lambda data: b"\xff"): "bad entry in block",
    table([(b"a", b"")], 0, lambda data: b"\x05" + data[1:]): "bad entry in block",
    table([(b"a", b"")])[20:]: "truncated block read",
}


@pytest.mark.parametrize("data", BAD_TABLES, ids=range(len(BAD_TABLES)))
def test_broken_tables(data: bytes) -> None:
    with pytest.raises(DataLossError, match=BAD_TABLES[data]):
        list(read_table(data))
