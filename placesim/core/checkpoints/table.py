"""Table files in LevelDB's format, which checkpoint indexes use: sorted keys and values in blocks with checksums.

A table consists of data blocks, an empty filter block, an index block with the last key of each data block, and a footer. A
block stores each key as its difference from the previous one. Restart points, the compression type and a checksum follow.
Source: LevelDB's `doc/table_format.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from placesim.core.checkpoints.crc32c import crc32c, mask, unmask
from placesim.core.checkpoints.index_messages import wire_errors
from placesim.core.checkpoints.snappy import expand_snappy
from placesim.core.errors import DataLossError
from placesim.core.protobuf_wire import read_varint, write_varint

TABLE_MAGIC = bytes.fromhex("57fb808b247547db")
"""Magic number at the end of a table file."""
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_MAX_KEY_BYTES = 1 << 16
MAX_KEYS_BYTES = 1 << 28
"""Maximum total size of all keys. A small file can hold many long keys, since each is stored as its difference from the last.
"""
_BLOCK_BYTES = 262144
_RESTART_INTERVAL = 16
_PLAIN, _SNAPPY = 0, 1


# --- reading --------------------------------------------------------------------------------------------------------


def read_table(data: bytes | memoryview) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries in key order. Raises DataLossError, with TensorFlow's message if there is one."""
    view = memoryview(data)
    if len(view) < _FOOTER_BYTES:
        raise DataLossError("file is too short to be an sstable")
    footer = view[-_FOOTER_BYTES:]
    if bytes(footer[-len(TABLE_MAGIC) :]) != TABLE_MAGIC:
        raise DataLossError("not an sstable (bad magic number)")
    with wire_errors():
        yield from _entries(view, footer)


def _entries(view: memoryview, footer: memoryview) -> Iterator[tuple[bytes, bytes]]:
    _, position = _read_handle(footer, 0)
    index, _ = _read_handle(footer, position)
    last, keys_bytes = None, 0
    for _, handle in _block_entries(_block(view, *index)):
        place, _ = _read_handle(handle, 0)
        for key, value in _block_entries(_block(view, *place)):
            if last is not None and key <= last:
                raise DataLossError("corrupted table: its keys are not in order")
            keys_bytes += len(key)
            if keys_bytes > MAX_KEYS_BYTES:
                raise DataLossError(f"table too large: its keys have more than {MAX_KEYS_BYTES} bytes")
            last = key
            yield key, value


def _read_handle(data: bytes | memoryview, position: int) -> tuple[tuple[int, int], int]:
    offset, position = read_varint(data, position, len(data))
    size, position = read_varint(data, position, len(data))
    return (offset, size), position


def _block(data: memoryview, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _TRAILER_BYTES > len(data) - _FOOTER_BYTES:
        raise DataLossError("truncated block read")
    kind = data[end]
    (stored,) = struct.unpack("<I", data[end + 1 : end + _TRAILER_BYTES])
    if unmask(stored) != crc32c(data[offset : end + 1]):
        raise DataLossError("block checksum mismatch")
    if kind == _PLAIN:
        return bytes(data[offset:end])
    if kind == _SNAPPY:
        return expand_snappy(bytes(data[offset:end]))
    raise DataLossError("bad block type")


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise DataLossError("bad entry in block")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise DataLossError("bad entry in block")
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(block, position, end)
        added, position = read_varint(block, position, end)
        size, position = read_varint(block, position, end)
        if shared > len(key) or position + added + size > end or shared + added > _MAX_KEY_BYTES:
            raise DataLossError("bad entry in block")
        key = key[:shared] + block[position : position + added]
        position += added
        yield key, block[position : position + size]
        position += size


# --- writing -------------------------------------------------------------------------------------------------------


class _BlockBuilder:
    def __init__(self, restart_interval: int) -> None:
        self.data = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self._last = b""
        self._interval = restart_interval

    @property
    def size(self) -> int:
        return len(self.data) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since_restart < self._interval:
            shared = _shared_length(self._last, key)
        else:
            self._restarts.append(len(self.data))
            self._since_restart = 0
        self.data += write_varint(shared) + write_varint(len(key) - shared) + write_varint(len(value)) + key[shared:] + value
        self._last = key
        self._since_restart += 1

    def finish(self) -> bytes:
        return bytes(self.data) + struct.pack(f"<{len(self._restarts) + 1}I", *self._restarts, len(self._restarts))


def _shared_length(one: bytes, two: bytes) -> int:
    for at, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return at
    return min(len(one), len(two))


def _separator(last: bytes, following: bytes) -> bytes:
    """Return a short key that is at least `last` and less than `following`."""
    at = _shared_length(last, following)
    if at < min(len(last), len(following)) and last[at] < 0xFF and last[at] + 1 < following[at]:
        return last[:at] + bytes([last[at] + 1])
    return last


def _successor(key: bytes) -> bytes:
    """Return a short key that is not less than `key`."""
    for at, byte in enumerate(key):
        if byte != 0xFF:
            return key[:at] + bytes([byte + 1])
    return key


def write_table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Serialise entries, given in key order, as an uncompressed table."""
    file = bytearray()
    index = _BlockBuilder(1)
    last, pending = b"", None
    block = _BlockBuilder(_RESTART_INTERVAL)
    for key, value in entries:
        if block.data and len(key) + len(value) >= 2 * _BLOCK_BYTES:
            pending, block = _write_block(file, block), _BlockBuilder(_RESTART_INTERVAL)
        if pending is not None:
            index.add(_separator(last, key), pending)
            pending = None
        block.add(key, value)
        last = key
        if block.size >= _BLOCK_BYTES:
            pending, block = _write_block(file, block), _BlockBuilder(_RESTART_INTERVAL)
    if block.data:
        pending = _write_block(file, block)
    filters = _write_block(file, _BlockBuilder(_RESTART_INTERVAL))
    if pending is not None:
        index.add(_successor(last), pending)
    handles = filters + _write_block(file, index)
    return bytes(file) + handles.ljust(_FOOTER_BYTES - len(TABLE_MAGIC), b"\0") + TABLE_MAGIC


def _write_block(file: bytearray, block: _BlockBuilder) -> bytes:
    """Append a block with its trailer, and return its encoded handle."""
    content = block.finish()
    handle = write_varint(len(file)) + write_varint(len(content))
    kind = bytes([_PLAIN])
    file += content + kind + struct.pack("<I", mask(crc32c(content + kind)))
    return handle
