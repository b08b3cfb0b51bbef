"""`tf.lookup`: tables from keys to values, and what fills them."""

from __future__ import annotations

import uuid
from typing import Any

import placesim.tf1 as tf
from placesim.ops.attributes import Shape
from placesim.tf1 import dtypes
from placesim.tf1.generated import gen
from placesim.tf1.graph import get_default_graph
from placesim.tf1.graph_keys import GraphKeys
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.tensor import Operation, Tensor


class TextFileIndex:
    """Which part of a line is meant: all of it, its number, or a column from 0 on."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


# --- what fills a table ---------------------------------------------------------------------------------------------


class TableInitializerBase:
    """Fills a table of keys and values of these types."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> dtypes.DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        return self._value_dtype

    @property
    def _shared_name(self) -> str:
        return f"hash_table_{uuid.uuid4()}"

    def initialize(self, table: Any) -> Operation:
        """The op that fills a table."""
        raise NotImplementedError

    def _check(self, table: Any) -> None:
        for what in ("key", "value"):
            own, other = getattr(self, f"{what}_dtype"), getattr(table, f"{what}_dtype")
            if own is not other:
                raise TypeError(f"Invalid {what} dtype for table, expected {own} but got {other}.")


class KeyValueTensorInitializer(TableInitializerBase):
    """Keys and values as tensors."""

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None) -> None:
        with tf.init_scope():
            self._keys = tf.convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = tf.convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = "key_value_init" if name is None else name
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """The op that fills a table.  Raises TypeError for one of other types."""
        self._check(table)
        with tf.name_scope(self._name, values=(table.resource_handle, self._keys, self._values)):
            op = gen("LookupTableImportV2")(table.resource_handle, self._keys, self._values)
        get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op  # type: ignore[no-any-return]


class TextFileInitializer(TableInitializerBase):
    """Keys and values out of the lines of a file."""

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
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
            raise ValueError(f"`vocab_size` must be positive, got {vocab_size}")
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
        """The op that fills a table.  Raises TypeError for one of other types."""
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
    """Raises ValueError for a column that can't have that type."""
    if index < -2:
        raise ValueError(f"`{what}_index` should be >= -2, received: {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes.int64:
        raise ValueError(f"`{what}_dtype` must be int64 if `{what}_index` is {TextFileIndex.LINE_NUMBER}, received: {dtype}")
    if index == TextFileIndex.WHOLE_LINE and dtype not in (dtypes.int64, dtypes.string):
        raise ValueError(
            f"`{what}_dtype` should be either integer or string for `{what}_index` {TextFileIndex.WHOLE_LINE}, received: "
            f"{dtype}"
        )


# --- tables ---------------------------------------------------------------------------------------------------------


class _Table:
    """A resource that maps keys to values."""

    def __init__(self, handle: Tensor, key_dtype: dtypes.DType, value_dtype: dtypes.DType) -> None:
        self._handle = handle
        self._key_dtype, self._value_dtype = key_dtype, value_dtype
        self._name = handle.op.name.rpartition("/")[2]

    @property
    def resource_handle(self) -> Tensor:
        return self._handle

    @property
    def key_dtype(self) -> dtypes.DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        return self._value_dtype

    @property
    def name(self) -> str:
        return self._name

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys."""
        raise NotImplementedError


class StaticHashTable(_Table):
    """A table that is filled once, by its initializer."""

    def __init__(
        self, initializer: Any, default_value: Any, name: str | None = None, experimental_is_anonymous: bool = False
    ) -> None:
        key, value = initializer.key_dtype, initializer.value_dtype
        with tf.init_scope():
            self._default_value = tf.convert_to_tensor(default_value, dtype=value)
            handle = gen("HashTableV2")(
                shared_name=initializer._shared_name, key_dtype=key, value_dtype=value, name=name or "hash_table"
            )
        super().__init__(handle, key, value)
        if self._default_value.shape.rank not in (0, None):
            raise ValueError(f"Cannot use a default value of shape {self._default_value.shape}; it must be a scalar.")
        with tf.init_scope():
            self._initializer = initializer.initialize(self)

    @property
    def default_value(self) -> Tensor:
        return self._default_value  # type: ignore[no-any-return]

    @property
    def initializer(self) -> Operation:
        return self._initializer  # type: ignore[no-any-return]

    def size(self, name: str | None = None) -> Tensor:
        """How many keys it has."""
        with tf.name_scope(name, f"{self._name}_Size", [self._handle]):
            return gen("LookupTableSizeV2")(self._handle)  # type: ignore[no-any-return]

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys, the default where there is none.  Raises TypeError for keys of another type."""
        found = keys.values if isinstance(keys, SparseTensor) else tf.convert_to_tensor(keys)
        if found.dtype.base_dtype is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype}, received: {keys.dtype}")
        with tf.name_scope(name, f"{self._name}_Lookup", (self._handle, found, self._default_value)):
            values = gen("LookupTableFindV2")(self._handle, found, self._default_value)
        values.set_shape(found.shape)
        return SparseTensor(keys.indices, values, keys.dense_shape) if isinstance(keys, SparseTensor) else values

    def export(self, name: str | None = None) -> Any:
        """All keys and all values."""
        with tf.name_scope(name, f"{self._name}_Export", [self._handle]):
            return gen("LookupTableExportV2")(self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype)


StaticHashTable.__name__ = "StaticHashTableV1"  # as functions of its methods are named
HashTable = StaticHashTable


class StaticVocabularyTable:
    """A table of words' numbers; those that it hasn't get one of some further numbers, by a hash."""

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError(f"`num_oov_buckets` must be > 0; use StaticHashTable. Got {num_oov_buckets}.")
        if initializer is None:
            raise ValueError("initializer must be a table initializer")
        if initializer.value_dtype is not dtypes.int64:
            raise TypeError(f"Invalid `value_dtype`, expected {dtypes.int64} but got {initializer.value_dtype}.")
        self._table = StaticHashTable(initializer, default_value=-1, name=name)
        self._buckets = num_oov_buckets
        self._key_dtype = dtypes.as_dtype(lookup_key_dtype or initializer.key_dtype)

    @property
    def initializer(self) -> Operation:
        return self._table.initializer

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def resource_handle(self) -> Tensor:
        return self._table.resource_handle

    @property
    def key_dtype(self) -> dtypes.DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        return dtypes.int64

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def size(self, name: str | None = None) -> Any:
        """How many numbers there are."""
        with tf.name_scope(name, f"{self.name}_Size"):
            known: Any = self._table.size()
            return known + self._buckets

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The numbers of words.  Raises TypeError for those of another type."""
        found = keys.values if isinstance(keys, SparseTensor) else tf.convert_to_tensor(keys)
        if found.dtype.base_dtype is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype}, received: {keys.dtype}")
        with tf.name_scope(name, f"{self.name}_Lookup"):
            texts = found if found.dtype is dtypes.string else tf.as_string(found)
            buckets = gen("StringToHashBucketFast")(texts, num_buckets=self._buckets, name="hash_bucket")
            known = self._table.lookup(found)
            further = gen("AddV2")(buckets, self._table.size(), name="Add")
            is_known = tf.not_equal(known, self._table.default_value)
            numbers = gen("SelectV2")(is_known, known, further)
        return SparseTensor(keys.indices, numbers, keys.dense_shape) if isinstance(keys, SparseTensor) else numbers


class _MutableTable(_Table):
    """A table that ops add to; it is saved in checkpoints."""

    def __init__(self, handle: Tensor, default_value: Tensor, key_dtype: Any, value_dtype: Any, is_saved: bool) -> None:
        super().__init__(handle, key_dtype, value_dtype)
        self._default_value = default_value
        if is_saved:
            self.export()
            get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys it has."""
        with tf.name_scope(name, f"{self._name}_Size", [self._handle]), tf.colocate_with(self._handle):
            return gen("LookupTableSizeV2")(self._handle)  # type: ignore[no-any-return]

    def lookup(self, keys: Any, name: str | None = None, dynamic_default_values: Any = None) -> Any:
        """The values of keys, the default where there is none."""
        default = self._default_value if dynamic_default_values is None else dynamic_default_values
        with tf.name_scope(name, f"{self._name}_lookup_table_find", (self._handle, keys, self._default_value)):
            found = tf.convert_to_tensor(keys, dtype=self._key_dtype, name="keys")
            with tf.colocate_with(self._handle):
                return gen("LookupTableFindV2")(self._handle, found, default)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Adds keys and values, or changes the values."""
        with tf.name_scope(name, f"{self._name}_lookup_table_insert", [self._handle, keys, values]):
            found = tf.convert_to_tensor(keys, self._key_dtype, name="keys")
            given = tf.convert_to_tensor(values, self._value_dtype, name="values")
            with tf.colocate_with(self._handle):
                return gen("LookupTableInsertV2")(self._handle, found, given)  # type: ignore[no-any-return]

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Takes keys out.  Raises TypeError for those of another type."""
        found = tf.convert_to_tensor(keys)
        if found.dtype.base_dtype is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype}, received: {found.dtype}")
        with tf.name_scope(name, f"{self._name}_lookup_table_remove", (self._handle, found, self._default_value)):
            return gen("LookupTableRemoveV2")(self._handle, found)  # type: ignore[no-any-return]

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        with (
            tf.name_scope(name, f"{self._name}_lookup_table_export_values", [self._handle]),
            tf.colocate_with(self._handle),
        ):
            keys, values = gen("LookupTableExportV2")(self._handle, self._key_dtype, self._value_dtype)
        return keys, values


class MutableHashTable(_MutableTable):
    """A table in memory that ops add to."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        key, value = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        default = tf.convert_to_tensor(default_value, dtype=value)
        told = {"use_node_name_sharing": checkpoint, "key_dtype": key, "value_dtype": value, "name": name}
        if default.shape.rank == 0:
            handle = gen("MutableHashTableV2")(**told)
        else:
            handle = gen("MutableHashTableOfTensorsV2")(value_shape=default.shape, **told)
        super().__init__(handle, default, key, value, checkpoint)


class DenseHashTable(_MutableTable):
    """A table in one block of memory that ops add to; two keys can't be in it."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        key, value = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        default = tf.convert_to_tensor(default_value, dtype=value, name="default_value")
        empty = tf.convert_to_tensor(empty_key, dtype=key, name="empty_key")
        deleted = tf.convert_to_tensor(deleted_key, dtype=key, name="deleted_key")
        handle = gen("MutableDenseHashTableV2")(
            empty_key=empty,
            deleted_key=deleted,
            use_node_name_sharing=checkpoint,
            value_dtype=value,
            value_shape=Shape(default.sizes),
            initial_num_buckets=initial_num_buckets,
            name=name,
        )
        super().__init__(handle, default, key, value, checkpoint)


# --- `tf.contrib.lookup` --------------------------------------------------------------------------------------------


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = None,
    key_dtype: Any = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """A table of the numbers of a file's lines.  Raises ValueError where none is given."""
    if vocabulary_file is None:
        raise ValueError("`vocabulary_file` must be specified.")
    with tf.name_scope(name, "string_to_index"):
        initializer = TextFileInitializer(
            vocabulary_file,
            dtypes.int64 if dtypes.as_dtype(key_dtype).is_integer else key_dtype,
            key_column_index,
            dtypes.int64,
            value_column_index,
            vocab_size,
            delimiter,
            "table_init",
        )
        return _index_table(initializer, num_oov_buckets, default_value)


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """A table of the places of a list's elements.  Raises ValueError where none is given."""
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` must be specified.")
    with tf.name_scope(name, "string_to_index"):
        keys = tf.convert_to_tensor(vocabulary_list)
        count = tf.size(keys)
        values = tf.cast(tf.range(count), dtypes.int64)
        return _index_table(KeyValueTensorInitializer(keys, values, name="table_init"), num_oov_buckets, default_value)


def _index_table(initializer: Any, buckets: int, default_value: int) -> Any:
    if buckets:
        return StaticVocabularyTable(initializer, buckets, name="hash_table")
    return StaticHashTable(initializer, default_value, name="hash_table")


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> Any:
    """A table of a file's lines by their numbers."""
    with tf.name_scope(name, "index_to_string"):
        initializer = TextFileInitializer(
            vocabulary_file,
            dtypes.int64,
            key_column_index,
            dtypes.string,
            value_column_index,
            vocab_size,
            delimiter,
            "table_init",
        )
        return StaticHashTable(initializer, default_value)


def index_to_string_table_from_tensor(vocabulary_list: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """A table of a list's elements by their places."""
    with tf.name_scope(name, "index_to_string"):
        values = tf.convert_to_tensor(vocabulary_list, dtypes.string)
        keys = tf.cast(tf.range(tf.size(values)), dtypes.int64)
        return StaticHashTable(
            KeyValueTensorInitializer(keys, values, dtypes.int64, dtypes.string, "table_init"), default_value
        )
