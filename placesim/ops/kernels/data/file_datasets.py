"""Datasets of the records of files: lines, records of fixed length, TFRecords.

Source: TensorFlow's `text_line_dataset_op.cc`, `fixed_length_record_dataset_op.cc`, `tf_record_dataset_op.cc`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, Shape
from placesim.ops.kernels.data.values import (
    UNKNOWN,
    Element,
    ElementSequence,
    build_dataset,
    build_infer_records,
    scalar_argument,
)
from placesim.ops.kernels.kernel import KernelContext, Table
from placesim.ops.kernels.resources.file_access import (
    decompress,
    file_name,
    fixed_records,
    matching_paths,
    read_bytes,
    text_lines,
    tf_records,
)
from placesim.ops.kernels.string_tensors import flat_strings, string_array

Read = Callable[[str], Iterator[bytes]]
"""A function that reads the records of a file."""


class _FileRecords(Iterator[Element]):
    """The records of several files; after an error the iteration goes on with the next file."""

    def __init__(self, names: Sequence[str], read: Read) -> None:
        self._names = iter(names)
        self._read = read
        self._records: Iterator[bytes] = iter(())

    def __next__(self) -> Element:
        while True:
            record = next(self._records, None)
            if record is not None:
                return (string_array([record], ()),)
            self._records = self._read(next(self._names))


def _of_files(filenames: Any, read: Read) -> ElementSequence:
    if np.ndim(filenames) > 1:
        raise InvalidArgumentError("`filenames` must be a scalar or a vector.")
    names = list(map(file_name, flat_strings(filenames)))
    return ElementSequence((STRING,), (Shape(()),), lambda: _FileRecords(names, read))


def _compression_text(value: Any) -> str:
    text: str = flat_strings(scalar_argument(value, "compression_type"))[0].decode(errors="backslashreplace")
    return text


def _compression(value: Any) -> str:
    found = _compression_text(value)
    if found not in ("", "ZLIB", "GZIP"):
        raise InvalidArgumentError("Unsupported compression_type.")
    return found


def read_lines(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the lines of text files, scalar strings. Raises the same errors as `read_fixed_records`."""
    kind = _compression(inputs[1])
    return _of_files(inputs[0], lambda name: iter(text_lines(decompress(read_bytes(context.files, name), kind))))


def read_fixed_records(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of records of one length, scalar strings, without the files' headers and footers.

    Raises InvalidArgumentError for invalid file names, lengths or compression. An iteration raises the error of a file that
    cannot be read, and InvalidArgumentError for a file with an incomplete record.
    """
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


def read_tf_records(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the records of TFRecord files, scalar strings; each file may have an offset at which to start.

    Raises InvalidArgumentError for invalid file names or offsets. An iteration raises the error of a file that cannot be read,
    and DataLossError for a damaged file.
    """
    # TensorFlow checks the compression of the other readers only, and ignores an unknown one here
    kind = _compression_text(inputs[1])
    names = list(map(file_name, flat_strings(inputs[0])))
    offsets = np.asarray(inputs[3]).reshape(-1).tolist() if len(inputs) > 3 else [0] * len(names)
    if len(offsets) != len(names) or min(offsets, default=0) < 0:
        raise InvalidArgumentError(f"`byte_offsets` must be {len(names)} offsets, one for each file. Got: {offsets[:9]}")
    starts = dict(zip(names, offsets, strict=True))

    def read(name: str) -> Iterator[bytes]:
        found = tf_records(decompress(read_bytes(context.files, name), kind), starts[name])
        return (record for _, record in found)

    return _of_files(inputs[0], read)


def match_files(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of sorted file names; each iteration first looks for the files that match the patterns."""
    patterns = list(map(file_name, flat_strings(inputs[0])))

    def start() -> Iterator[Element]:
        names = sorted(name for pattern in patterns for name in matching_paths(context.files, pattern))
        return iter([(string_array([os.fsencode(name)], ()),) for name in names])

    return ElementSequence((STRING,), (Shape(()),), start, UNKNOWN)


TABLE: Table = {
    "TextLineDataset": build_dataset(read_lines, build_infer_records(scalars=2)),
    "FixedLengthRecordDataset": build_dataset(read_fixed_records, build_infer_records(scalars=4)),
    "FixedLengthRecordDatasetV2": build_dataset(read_fixed_records, build_infer_records(scalars=4)),
    "TFRecordDataset": build_dataset(read_tf_records, build_infer_records(scalars=2)),
    "TFRecordDatasetV2": build_dataset(read_tf_records, build_infer_records(scalars=2)),
    **dict.fromkeys(
        ("MatchingFilesDataset", "ExperimentalMatchingFilesDataset"),
        build_dataset(match_files, build_infer_records(scalars=0)),
    ),
}
