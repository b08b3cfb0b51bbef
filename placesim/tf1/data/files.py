"""Datasets of files: their names, lines and records."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.data import changes, mapping, sources
from placesim.tf1.data.building import make, number
from placesim.tf1.data.datasets import Dataset, DatasetV1Adapter
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.type_specs import TensorSpec

_BUFFER_BYTES = 256 * 1024


def _file_names(filenames: TensorLike) -> Dataset:
    """Dataset of file names: the given one, or the elements of a tensor.  Raises TypeError for other types."""
    if isinstance(filenames, Dataset):
        if filenames.output_types is not dtypes.string:
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements. Got a dataset of "
                f"`{filenames.output_types!r}` elements."
            )
        if filenames.output_shapes.rank not in (None, 0):
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements of shape [] (i.e. scalars). Got a dataset of "
                f"element shape {filenames.output_shapes!r}."
            )
        return filenames
    from placesim.tf1.array.shaping import reshape

    names = convert_to_tensor(_as_texts(filenames), dtype_hint=dtypes.string)
    if names.dtype is not dtypes.string:
        raise TypeError(f"The `filenames` argument must contain `tf.string` elements. Got `{names.dtype!r}` elements.")
    return sources.from_tensor_slices(reshape(names, [-1], name="flat_filenames"), is_files=True)


def _as_texts(value: TensorLike) -> Any:
    if isinstance(value, list | tuple):
        return [_as_texts(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class _FileDataset(DatasetV1Adapter):
    """Elements of several files, file by file."""

    _shown = ""

    def _read(self, names: Dataset, read_one_file: Callable[[Any], Dataset], parallel: int | Tensor | None = None) -> None:
        if parallel is None:
            found = mapping.flat_mapped(names, read_one_file)
        else:
            found = mapping.interleaved_ahead(names, read_one_file, parallel, 1, False, None, None)
        super().__init__(found._variant_tensor, found._spec, self._shown, found._options)


class _PlainFileDataset(_FileDataset):
    """Elements of files, read by an op with three inputs: file name, compression and buffer size."""

    _op = ""
    _buffer_bytes = -1

    def __init__(
        self,
        filenames: TensorLike,
        compression_type: Any = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: int | Tensor | None = None,
        name: str | None = None,
    ) -> None:
        def read_one_file(filename: TensorLike) -> Dataset:
            compression = _text(compression_type, "compression_type")
            size = number(self._buffer_bytes if buffer_size is None else buffer_size, "buffer_size")
            return make(self._op, filename, compression, size, spec=TensorSpec([], dtypes.string), name=name)

        self._read(_file_names(filenames), read_one_file, num_parallel_reads)


class TextLineDataset(_PlainFileDataset):
    """`tf.data.TextLineDataset`: lines, without their ends."""

    _shown, _op, _buffer_bytes = "TextLineDatasetV2", "TextLineDataset", _BUFFER_BYTES


class TFRecordDataset(_PlainFileDataset):
    """`tf.data.TFRecordDataset`: records, each as a string of bytes."""

    _shown, _op = "TFRecordDatasetV2", "TFRecordDataset"


class FixedLengthRecordDataset(_FileDataset):
    """`tf.data.FixedLengthRecordDataset`: records of equal length."""

    _shown = "FixedLengthRecordDatasetV2"

    def __init__(
        self,
        filenames: TensorLike,
        record_bytes: TensorLike,
        header_bytes: TensorLike | None = None,
        footer_bytes: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        compression_type: Any = None,
        num_parallel_reads: int | Tensor | None = None,
        name: str | None = None,
    ) -> None:
        def read_one_file(filename: TensorLike) -> Dataset:
            record = number(record_bytes, "record_bytes")
            header = number(0 if header_bytes is None else header_bytes, "header_bytes")
            footer = number(0 if footer_bytes is None else footer_bytes, "footer_bytes")
            size = number(_BUFFER_BYTES if buffer_size is None else buffer_size, "buffer_size")
            parts = header, record, footer, size, _text(compression_type, "compression_type")
            return make("FixedLengthRecordDatasetV2", filename, *parts, spec=TensorSpec([], dtypes.string), name=name)

        self._read(_file_names(filenames), read_one_file, num_parallel_reads)


def _text(value: TensorLike, name: str) -> Any:
    return convert_to_tensor("" if value is None else value, dtypes.string, name)


def list_files(file_pattern: TensorLike, shuffle: object = None, seed: int | None = None, name: str | None = None) -> Dataset:
    """Names of matching files, shuffled by default; an op fails if there are none."""
    from placesim.tf1.array.shaping import identity, shape
    from placesim.tf1.control_flow.conditionals import Assert
    from placesim.tf1.graphs.default_graph_scopes import control_dependencies, name_scope
    from placesim.tf1.ops.generated_functions import gen
    from placesim.tf1.strings import reduce_join

    with name_scope("list_files"):
        patterns = convert_to_tensor(_as_texts(file_pattern), dtypes.string, "file_pattern")
        files = gen("MatchingFiles")(patterns)
        found = tf.greater(shape(files)[0], 0, name="match_not_empty")
        message = tf.add("No files matched pattern: ", reduce_join(patterns, separator=", "), name="message")
        checked = Assert(found, [message], summarize=1, name="assert_not_empty")
        with control_dependencies([checked]):
            files = identity(files)
        dataset = sources.from_tensor_slices(files, is_files=True)
        if shuffle is None or shuffle:
            size = tf.maximum(shape(files, out_type=dtypes.int64)[0], 1)
            dataset = changes.shuffle(dataset, size, seed)
        return dataset
