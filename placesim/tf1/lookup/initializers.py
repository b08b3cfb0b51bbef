"""Initializers of `tf.lookup` tables."""

from __future__ import annotations

import uuid
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.read_only import read_only


class TextFileIndex:
    """Part of a line to use: the whole line, its number, or a column by its index."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TableInitializerBase:
    """Initializer of a table with these key and value types."""

    def __init__(self, key_dtype: DTypeLike, value_dtype: DTypeLike) -> None:
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    key_dtype: dtypes.DType = read_only("_key_dtype")
    value_dtype: dtypes.DType = read_only("_value_dtype")

    @property
    def _shared_name(self) -> str:
        return f"hash_table_{uuid.uuid4()}"

    def initialize(self, table: object) -> Operation:
        """Make the op that fills a table."""
        raise NotImplementedError

    def _check(self, table: object) -> None:
        for what in ("key", "value"):
            own, other = getattr(self, f"{what}_dtype"), getattr(table, f"{what}_dtype")
            if own is not other:
                raise TypeError(f"Invalid {what} dtype for table, expected {own} but got {other}.")


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table from tensors of keys and values."""

    def __init__(
        self,
        keys: TensorLike,
        values: TensorLike,
        key_dtype: DTypeLike | None = None,
        value_dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        with tf.init_scope():
            self._keys = tf.convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = tf.convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = "key_value_init" if name is None else name
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """Make the op that fills a table.  Raises TypeError for a table of other types."""
        self._check(table)
        with tf.name_scope(self._name, values=(table.resource_handle, self._keys, self._values)):
            op = gen("LookupTableImportV2")(table.resource_handle, self._keys, self._values)
        get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op  # type: ignore[no-any-return]


class TextFileInitializer(TableInitializerBase):
    """Fills a table from the lines of a file."""

    def __init__(
        self,
        filename: TensorLike,
        key_dtype: Any,
        key_index: int,
        value_dtype: DTypeLike,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        self._filename_arg = filename
        key, value = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        _check_column("key", key, key_index)
        _check_column("value", value, value_index)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._columns = key_index, value_index
        self._vocab_size, self._delimiter, self._offset = vocab_size, delimiter, value_index_offset
        self._name = "text_file_init" if name is None else name
        with tf.init_scope(), tf.device("CPU"):
            self._filename = tf.convert_to_tensor(filename, dtypes.string, name="asset_path")
        get_default_graph().add_to_collection(GraphKeys.ASSET_FILEPATHS, self._filename)
        super().__init__(key, value)

    @property
    def _shared_name(self) -> str:
        sizes = [] if self._vocab_size is None else [self._vocab_size]
        offsets = [self._offset] if self._offset else []
        return "_".join(map(str, ("hash_table", self._filename_arg, *sizes, *self._columns, *offsets)))

    def initialize(self, table: Any) -> Operation:
        """Make the op that fills a table.  Raises TypeError for a table of other types."""
        self._check(table)
        with tf.name_scope(self._name, "text_file_init", (table.resource_handle,)):
            op = gen("InitializeTableFromTextFileV2")(
                table.resource_handle,
                self._filename,
                key_index=self._columns[0],
                value_index=self._columns[1],
                vocab_size=-1 if self._vocab_size is None else self._vocab_size,
                delimiter=self._delimiter,
                offset=self._offset,
            )
        get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op  # type: ignore[no-any-return]


def _check_column(what: str, dtype: dtypes.DType, index: int) -> None:
    """Raise ValueError if a column can't have this type."""
    if index < -2:
        raise ValueError(f"`{what}_index` should be >= -2, received: {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes.int64:
        raise ValueError(f"`{what}_dtype` must be int64 if `{what}_index` is {TextFileIndex.LINE_NUMBER}, received: {dtype}")
    if index == TextFileIndex.WHOLE_LINE and not (dtype.is_integer or dtype is dtypes.string):
        raise ValueError(
            f"`{what}_dtype` should be either integer or string for `{what}_index` {TextFileIndex.WHOLE_LINE}, received: "
            f"{dtype}"
        )
