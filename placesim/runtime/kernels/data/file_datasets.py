"""Datasets of records of files: lines, records of fixed length, TFRecords.

Source: TensorFlow's `text_line_dataset_op.cc`, `fixed_length_record_dataset_op.cc`, `tf_record_dataset_op.cc`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.dtypes import STRING
from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, Shape
from placesim.runtime.kernels.data.values import (
    UNKNOWN,
    Dataset,
    Element,
    maker_kernel,
    names_then_scalars,
    scalar_argument,
)
from placesim.runtime.kernels.kernel import KernelContext, Table
from placesim.runtime.kernels.resources.file_access import (
    decompress,
    file_name,
    fixed_records,
    matching_paths,
    read_bytes,
    text_lines,
    tf_records,
)
from placesim.runtime.kernels.string_tensors import flat_strings, string_array

Read = Callable[[str], Iterator[bytes]]
"""The records of a file."""


class _FileRecords:
    """The records of files, one file after the other; a file that cannot be read is left behind."""

    def __init__(self, names: Sequence[str], read: Read) -> None:
        self._names = iter(names)
        self._read = read
        self._records: Iterator[bytes] = iter(())

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        while True:
            record = next(self._records, None)
            if record is not None:
                return (string_array([record], ()),)
            self._records = self._read(next(self._names))


def _of_files(filenames: Any, read: Read) -> Dataset:
    if np.ndim(filenames) > 1:
        raise InvalidArgumentError("`filenames` must be a scalar or a vector.")
    names = list(map(file_name, flat_strings(filenames)))
    return Dataset((STRING,), (Shape(()),), lambda: _FileRecords(names, read))


def _compression(value: Any) -> str:
    found: str = flat_strings(scalar_argument(value, "compression_type"))[0].decode()
    if found not in ("", "ZLIB", "GZIP"):
        raise InvalidArgumentError("Unsupported compression_type.")
    return found


def lines(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The lines of text files."""
    kind = _compression(inputs[1])
    return _of_files(inputs[0], lambda name: iter(text_lines(decompress(read_bytes(context.files, name), kind))))


def fixed(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """Records of one length, between headers and footers that are left out."""
    names = ("header_bytes", "record_bytes", "footer_bytes")
    header, size, footer = (int(scalar_argument(value, name)) for value, name in zip(inputs[1:4], names, strict=True))
    for name, value, least in zip(names, (header, size, footer), (0, 1, 0), strict=True):
        if value < least:
            raise InvalidArgumentError(f"`{name}` must be {'>= 0' if not least else '> 0'}")
    kind = _compression(inputs[5]) if len(inputs) > 5 else ""

    def read(name: str) -> Iterator[bytes]:
        data = decompress(read_bytes(context.files, name), kind)
        body = len(data) - header - footer
        if body % size:
            what = "input file" if not kind else "uncompressed input file"
            raise InvalidArgumentError(
                f'Excluding the header ({header} bytes) and footer ({footer} bytes), {what} "{name}" has body length '
                f"{body} bytes, which is not an exact multiple of the record length ({size} bytes)."
            )
        return fixed_records(data, header, size, footer)

    return _of_files(inputs[0], read)


def records(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The records of TFRecord files, from an offset on where offsets are given."""
    kind = flat_strings(scalar_argument(inputs[1], "compression_type"))[0].decode()
    names = list(map(file_name, flat_strings(inputs[0])))
    starts = dict(zip(names, map(int, np.asarray(inputs[3]).reshape(-1)), strict=True)) if len(inputs) > 3 else {}

    def read(name: str) -> Iterator[bytes]:
        found = tf_records(decompress(read_bytes(context.files, name), kind), starts.get(name, 0))
        return (record for _, record in found)

    return _of_files(inputs[0], read)


def matching(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The names of the files that fit patterns."""
    patterns = list(map(file_name, flat_strings(inputs[0])))

    def start() -> Iterator[Element]:
        names = sorted(name for pattern in patterns for name in matching_paths(context.files, pattern))
        return iter([(string_array([os.fsencode(name)], ()),) for name in names])

    return Dataset((STRING,), (Shape(()),), start, UNKNOWN)


TABLE: Table = {
    "TextLineDataset": maker_kernel(lines, names_then_scalars(2)),
    "FixedLengthRecordDataset": maker_kernel(fixed, names_then_scalars(4)),
    "FixedLengthRecordDatasetV2": maker_kernel(fixed, names_then_scalars(4)),
    "TFRecordDataset": maker_kernel(records, names_then_scalars(2)),
    "TFRecordDatasetV2": maker_kernel(records, names_then_scalars(2)),
    **dict.fromkeys(
        ("MatchingFilesDataset", "ExperimentalMatchingFilesDataset"), maker_kernel(matching, names_then_scalars(0))
    ),
}
