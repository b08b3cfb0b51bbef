"""Writer of checkpoints, byte for byte like TensorFlow's.

Source: TensorFlow's `BundleWriter` in `tensor_bundle.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.core.checkpoints.checkpoint import Locate, data_path, index_path
from placesim.core.checkpoints.crc32c import crc32c, mask
from placesim.core.checkpoints.index_entries import HEADER_KEY, Header, TensorEntry, encode_entry, encode_header
from placesim.core.checkpoints.string_tensors import encode_strings
from placesim.core.checkpoints.table import write_table
from placesim.core.checkpoints.tensor_slices import Region, slice_key
from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.core.files.writer import WholeFiles

Tensor = np.ndarray[Any, Any]


class SavedTensor(NamedTuple):
    """A tensor to save. With `part`, it is a region of a tensor of shape `whole`."""

    name: str
    dtype: DataType
    value: Tensor
    part: Region | None = None
    whole: tuple[int, ...] = ()


def write_bundle(prefix: str, tensors: Sequence[SavedTensor], locate: Locate = Path) -> None:
    """Write a checkpoint with one data file. Raises InvalidArgumentError if two tensors have the same name.

    The index and the data file appear only when both are complete, so that a reader never sees half a checkpoint.
    """
    entries: dict[bytes, TensorEntry] = {}
    data, target = locate(data_path(prefix, 0, 1)), locate(index_path(prefix))
    data.parent.mkdir(exist_ok=True)
    with WholeFiles() as files:
        file = files.open(data)
        offset = 0
        for tensor in tensors:
            key = _place(entries, tensor)
            if key in entries:
                raise InvalidArgumentError(f"Adding duplicate key: {key.decode(errors='replace')}")
            content, checksum = _content(tensor)
            file.write(content)
            entries[key] = TensorEntry(tensor.dtype, tensor.value.shape, 0, offset, len(content), mask(checksum))
            offset += len(content)
        files.write(target, (encode_index(Header(), entries),))


def _place(entries: dict[bytes, TensorEntry], tensor: SavedTensor) -> bytes:
    """Return a tensor's key. A part is also recorded in the entry of its whole tensor."""
    key = tensor.name.encode(errors="surrogateescape")
    if tensor.part is None or tensor.value.shape == tensor.whole:
        return key
    found = entries.get(key, TensorEntry(tensor.dtype, tensor.whole))
    entries[key] = replace(found, regions=(*found.regions, tensor.part))
    return slice_key(key, tensor.part)


def _content(tensor: SavedTensor) -> tuple[bytes, int]:
    """Return the bytes of a tensor, and their checksum."""
    if tensor.dtype is STRING:
        return encode_strings([bytes(text) for text in tensor.value.reshape(-1)])
    if tensor.dtype.size == 0:
        raise UnimplementedError(f"cannot save tensor {tensor.name}: got type {tensor.dtype}, which placesim cannot write")
    content = np.ascontiguousarray(tensor.value).tobytes()
    return content, crc32c(content)


def encode_index(header: Header, entries: Mapping[bytes, TensorEntry]) -> bytes:
    """Serialise the index file."""

    def rows() -> Iterator[tuple[bytes, bytes]]:
        yield HEADER_KEY, encode_header(header)
        for key in sorted(entries):
            yield key, encode_entry(entries[key])

    return write_table(rows())
