"""Writes small checkpoints and tables, right ones and wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.checkpoints.crc32c import crc32c, mask
from placesim.core.checkpoints.table import TABLE_MAGIC
from placesim.core.checkpoints.tensor_slices import FULL, Region, slice_key
from placesim.core.dtypes import STRING, DataType
from placesim.formats.tensorflow.messages import Message, message_class, serialise


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def table(entries: Sequence[tuple[bytes, bytes]], kind: int = 0, compress: Any = bytes) -> bytes:
    """A table of one data block; `kind` and `compress` say how its content is stored."""
    data = _block([(key, value) for key, value in entries])
    stored: bytes = compress(data)
    written = stored + _trailer(stored, kind)
    index = _block([(entries[-1][0] + b"~" if entries else b"~", varint(0) + varint(len(stored)))])
    handle = varint(len(written)) + varint(len(index))
    written += index + _trailer(index, 0)
    return written + (varint(0) + varint(0) + handle).ljust(40, b"\0") + TABLE_MAGIC


def _block(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    rows = b"".join(varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
    return rows + struct.pack("<II", 0, 1)


def _trailer(block: bytes, kind: int) -> bytes:
    return bytes([kind]) + struct.pack("<I", mask(crc32c(block + bytes([kind]))))


class CheckpointFiles:
    """Tensors one after the other in one shard."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.data = bytearray()
        self.entries: dict[bytes, Message] = {}
        self.header = message_class("BundleHeaderProto")(num_shards=1)

    def add(self, name: str, dtype: DataType, array: np.ndarray[Any, Any]) -> Message:
        """A whole tensor; returns its entry, to be spoilt."""
        return self._add(name.encode(), dtype, np.asarray(array))

    def add_parts(self, name: str, dtype: DataType, whole: np.ndarray[Any, Any], regions: Sequence[Region]) -> Message:
        """A tensor saved in regions; returns its entry, to be spoilt."""
        entry = self._entry(name.encode(), dtype, whole.shape)
        for region in regions:
            part = entry.slices.add()
            for extent in region:
                saved = part.extent.add()
                if extent.length != FULL:
                    saved.start, saved.length = extent
            places = tuple(slice(e.start, None if e.length == FULL else e.start + e.length) for e in region)
            self._add(slice_key(name.encode(), region), dtype, whole[places])
        return entry

    def _entry(self, key: bytes, dtype: DataType, shape: Sequence[int]) -> Message:
        entry = self.entries[key] = message_class("BundleEntryProto")(dtype=dtype.number)
        entry.shape.SetInParent()
        for size in shape:
            entry.shape.dim.add(size=size)
        return entry

    def _add(self, key: bytes, dtype: DataType, array: np.ndarray[Any, Any]) -> Message:
        entry = self._entry(key, dtype, array.shape)
        content, checked = _strings(array.reshape(-1).tolist()) if dtype is STRING else (array.tobytes(),) * 2
        entry.offset, entry.size, entry.crc32c = len(self.data), len(content), mask(crc32c(checked))
        self.data += content
        return entry

    def write(self, extra: Mapping[bytes, bytes] | None = None) -> Path:
        """Write both files; `extra` goes into the index as it is."""
        rows = (
            {b"": serialise(self.header)} | {key: serialise(entry) for key, entry in self.entries.items()} | dict(extra or {})
        )
        self.prefix.with_name(self.prefix.name + ".index").write_bytes(table(sorted(rows.items())))
        self.prefix.with_name(self.prefix.name + ".data-00000-of-00001").write_bytes(bytes(self.data))
        return self.prefix


def _strings(texts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The bytes of a tensor of strings, and the bytes that its checksum is taken of."""
    fixed = b"".join(struct.pack("<I", len(text)) for text in texts)
    rest = struct.pack("<I", mask(crc32c(fixed))) + b"".join(texts)
    return b"".join(varint(len(text)) for text in texts) + rest, fixed + rest
