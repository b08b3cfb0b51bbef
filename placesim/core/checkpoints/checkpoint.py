"""Reader of a checkpoint in TensorFlow's second format (a "tensor bundle"). Tensors are read and checked on demand.

`PREFIX.index` is a sorted table of entries, and `PREFIX.data-00000-of-00001` holds the tensors one after another. Source:
TensorFlow's `tensor_bundle.cc` and its messages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.checkpoints.crc32c import crc32c, unmask
from placesim.core.checkpoints.index_entries import HEADER_KEY, Header, TensorEntry, decode_entry, decode_header
from placesim.core.checkpoints.string_tensors import decode_strings
from placesim.core.checkpoints.table import read_table
from placesim.core.checkpoints.tensor_slices import Extent, Region, bounds, format_region, slice_key
from placesim.core.dtypes import STRING
from placesim.core.errors import DataLossError, InternalError, InvalidArgumentError, NotFoundError, OpError, UnimplementedError
from placesim.core.files.containment import resolve_inside
from placesim.core.files.reader import ShortenedError, read_file, read_part

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SLICE_KEY_START = b"\0"
_CORRUPT = (
    "Unable to read file ({}). Perhaps the file is corrupt or was produced by a newer version of TensorFlow with format "
    "changes ({})"
)
Array = np.ndarray[Any, Any]
Bounds = tuple[slice, ...]
Locate = Callable[[Path], Path]
"""Maps a file's path to the path to open; raises PlacesimError if access is not allowed."""


def index_path(prefix: str | Path) -> Path:
    """Return the path `PREFIX.index`."""
    return Path(f"{prefix}.index")


def data_path(prefix: str | Path, shard: int, shards: int) -> Path:
    """Return the path of a data file, such as `PREFIX.data-00000-of-00001`."""
    return Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}")


class Checkpoint:
    """A checkpoint opened for reading.

    `entries` has every key, including the keys of parts of tensors. `prefix` is the common start of the file names
    (`variables/variables`).
    """

    def __init__(self, prefix: str | Path, directory: Path | None = None, *, locate: Locate | None = None) -> None:
        """Read the index.

        Files must lie in `directory` (by default the directory of the prefix), or at paths that `locate` allows. Raises
        NotFoundError, DataLossError or InternalError for a missing or corrupt index, and InvalidArgumentError for a file
        outside of the directory.
        """
        self.prefix = str(prefix)
        index = index_path(prefix)
        self._locate = locate or partial(resolve_inside, directory=directory or index.parent)
        if locate is not None:
            locate(index)  # without the right to read a file, nobody learns whether it exists
        if not os.path.isfile(index):
            text = "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for"
            raise NotFoundError(f"{text} {self.prefix}")
        self._shards: dict[int, tuple[Path, int]] = {}
        try:
            self.header, self.entries = _read_index(read_file(self._locate(index)))
        except OpError as error:
            error.message = _CORRUPT.format(index, error.message)
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the complete tensors, in the order of the index."""
        return tuple(key.decode(errors="surrogateescape") for key in self.entries if key[:1] != _SLICE_KEY_START)

    def __contains__(self, name: str) -> bool:
        return _key(name) in self.entries

    def entry(self, name: str) -> TensorEntry:
        """Return the index entry of a tensor. Raises NotFoundError if the tensor has no entry."""
        return self._entry(_key(name))

    def _entry(self, key: bytes) -> TensorEntry:
        found = self.entries.get(key)
        if found is None:
            raise NotFoundError(f"Key {key.decode(errors='backslashreplace')} not found in checkpoint")
        return found

    def read(self, name: str, region: Region | None = None) -> Array:
        """Return a tensor, or a region of it. The array is read-only unless it is assembled from parts.

        Raises NotFoundError for an unknown name, DataLossError for a wrong checksum, and InvalidArgumentError for a region that
        was not saved.
        """
        entry = self.entry(name)
        if entry.regions:
            return self._joined(name, entry, (Extent(),) * len(entry.shape) if region is None else region)
        array = self._value(_key(name), entry)
        return array if region is None else array[_bounds(name, region, entry.shape)]

    # --- bytes ------------------------------------------------------------------------------------------------------

    def _shard(self, number: int) -> tuple[Path, int]:
        """Return the path of a data file, and its size in bytes."""
        found = self._shards.get(number)
        if found is None:
            path = data_path(self.prefix, number, self.header.shards)
            if not os.path.isfile(path):
                raise NotFoundError(f"{path}; No such file or directory")
            path = self._locate(path)
            found = self._shards[number] = (path, path.stat().st_size)
        return found

    def _value(self, key: bytes, entry: TensorEntry) -> Array:
        name, dtype = key.decode(errors="backslashreplace"), entry.dtype
        count = math.prod(entry.shape)
        if dtype.size == 0 and dtype is not STRING:
            raise UnimplementedError(f"cannot restore tensor {name}: got type {dtype}, which placesim cannot hold")
        if dtype is not STRING and entry.size_bytes != count * dtype.size:
            stored = f"stored size {entry.size_bytes}; expected size {count * dtype.size}"
            raise DataLossError(f"Invalid size in bundle entry: key {name}; {stored}")
        path, size = self._shard(entry.shard)
        if entry.offset + entry.size_bytes > size:
            where = f"{entry.size_bytes} bytes at {entry.offset} of a shard of {size} bytes"
            raise DataLossError(f"Invalid size in bundle entry: key {name}; {where}")
        data = np.frombuffer(_read_part(path, entry), np.uint8)
        if dtype is STRING:
            strings, checksum = decode_strings(name, data.data, count, self.header.is_big_endian)
            self._check(key, entry, checksum)
            return _shaped(name, strings, entry.shape)
        self._check(key, entry, crc32c(data))
        array = _shaped(name, data.view(dtype.numpy), entry.shape)
        return array.byteswap() if self.header.is_big_endian and dtype.size > 1 else array

    def _check(self, key: bytes, entry: TensorEntry, actual: int) -> None:
        stored = unmask(entry.checksum)
        if stored != actual:
            where = f"TensorBundle at {self.prefix} shard {entry.shard} ({entry.size_bytes} bytes)"
            raise DataLossError(
                f"{where}: Checksum does not match: stored {stored:08d} vs. calculated on the restored bytes {actual}"
            )

    # --- partitioned tensors ----------------------------------------------------------------------------------------

    def _joined(self, name: str, entry: TensorEntry, region: Region) -> Array:
        """Assemble a region from the regions in which the tensor was saved."""
        wanted = _bounds(name, region, entry.shape)
        parts = []
        for saved in entry.regions:
            part = _bounds(name, saved, entry.shape)
            if part == wanted:
                return self._part(name, entry, saved, part)
            common = _intersection(part, wanted)
            if common is not None:
                parts.append((saved, part, common))
        if entry.dtype.size == 0:
            raise InvalidArgumentError(f"Dtype {entry.dtype.name} not supported.")
        if sum(_volume(common) for _, _, common in parts) != _volume(wanted):
            raise InvalidArgumentError(
                f"Does not have sufficient slices for partitioned tensor {name} to restore in slice_spec: "
                f"{format_region(region)}"
            )
        sources = [(self._part(name, entry, saved, part), part, common) for saved, part, common in parts]
        array = _shaped(name, np.empty(_volume(wanted), entry.dtype.numpy), _sizes(wanted))
        is_filled = np.zeros(array.shape, np.bool_)
        for source, part, common in sources:
            target = _within(common, wanted)
            array[target] = source[_within(common, part)]
            is_filled[target] = True
        if not is_filled.all():
            raise DataLossError(f"Overlapping slices of partitioned tensor {name}")
        return array

    def _part(self, name: str, entry: TensorEntry, saved: Region, part: Bounds) -> Array:
        """Read one saved part.

        The part's key has the extents as they were saved: an extent that covers a whole dimension has no length.
        """
        key = slice_key(_key(name), saved)
        found = self._entry(key)
        if found.dtype is not entry.dtype or found.shape != _sizes(part) or found.regions:
            raise DataLossError(f"a slice of partitioned tensor {name} differs in type or shape from the index")
        return self._value(key, found)


def _read_part(path: Path, entry: TensorEntry) -> bytes:
    try:
        return read_part(path, entry.offset, entry.size_bytes)
    except ShortenedError as error:
        raise DataLossError(f"{path}; {error.strerror}") from None


# --- the index ------------------------------------------------------------------------------------------------------


def _read_index(data: bytes) -> tuple[Header, dict[bytes, TensorEntry]]:
    table = read_table(data)
    key, value = next(table, (None, b""))
    if key != HEADER_KEY:
        raise InternalError("failed to seek to header entry")
    header = decode_header(value)
    entries = {key: decode_entry(key, value, header.shards) for key, value in table}
    _check_places(entries)
    return header, entries


def _check_places(entries: dict[bytes, TensorEntry]) -> None:
    """Raise DataLossError if two tensors share bytes. Otherwise, reading all tensors takes no longer than reading the files."""
    last_shard, last_end = -1, 0
    stored = (entry for entry in entries.values() if entry.size_bytes and not entry.regions)
    for shard, offset, size in sorted((entry.shard, entry.offset, entry.size_bytes) for entry in stored):
        if shard == last_shard and offset < last_end:
            raise DataLossError(f"two tensors share bytes at {offset} of shard {shard}")
        last_shard, last_end = shard, offset + size


def _key(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


# --- regions and shapes ---------------------------------------------------------------------------------------------


def _shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    try:
        return array.reshape(shape)
    except ValueError:  # no elements, but the product of the other sizes is too large
        raise DataLossError(f"Invalid tensor shape: {name} {list(shape)}") from None


def _bounds(name: str, region: Region, shape: tuple[int, ...]) -> Bounds:
    try:
        return bounds(shape, region)
    except InternalError:
        what = f"slice {format_region(region)} does not lie in tensor {name} of shape {list(shape)}"
        raise InvalidArgumentError(what) from None


def _intersection(a: Bounds, b: Bounds) -> Bounds | None:
    found = []
    for one, other in zip(a, b, strict=True):
        start, stop = max(one.start, other.start), min(one.stop, other.stop)
        if start >= stop:
            return None
        found.append(slice(start, stop))
    return tuple(found)


def _within(region: Sequence[slice], outer: Sequence[slice]) -> Bounds:
    """Return a region's coordinates relative to the start of `outer`."""
    return tuple(slice(one.start - o.start, one.stop - o.start) for one, o in zip(region, outer, strict=True))


def _sizes(region: Bounds) -> tuple[int, ...]:
    return tuple(one.stop - one.start for one in region)


def _volume(region: Bounds) -> int:
    return math.prod(_sizes(region))
