"""`tf.lookup`: lookup tables and their initializers."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.ops.attributes import Shape
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.read_only import read_only


def _checked_keys(keys: Any, dtype: dtypes.DType) -> Any:
    """Return a tensor of keys; keys are no lists.  Raises TypeError for keys of another type."""
    if keys.dtype.base_dtype != dtype:
        raise TypeError(f"Dtype of argument `keys` must be {dtype}, received: {keys.dtype}")
    return keys.values if isinstance(keys, SparseTensor) else keys


class _Table:
    """A resource that maps keys to values."""

    def __init__(self, handle: Tensor, key_dtype: dtypes.DType, value_dtype: dtypes.DType) -> None:
        self._handle = handle
        self._key_dtype, self._value_dtype = key_dtype, value_dtype
        self._name = handle.op.name.rpartition("/")[2]

    resource_handle: Tensor = read_only("_handle")
    key_dtype: dtypes.DType = read_only("_key_dtype")
    value_dtype: dtypes.DType = read_only("_value_dtype")

    @property
    def name(self) -> str:
        return self._name

    def __getitem__(self, keys: TensorLike) -> Any:
        return self.lookup(keys)

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        """The values of keys."""
        raise NotImplementedError


class StaticHashTable(_Table):
    """A table that is filled once, by its initializer."""

    def __init__(
        self, initializer: Any, default_value: TensorLike, name: str | None = None, experimental_is_anonymous: bool = False
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
        """Number of keys."""
        with tf.name_scope(name, f"{self._name}_Size", [self._handle]):
            return gen("LookupTableSizeV2")(self._handle)  # type: ignore[no-any-return]

    def lookup(self, keys: TensorLike | SparseTensor, name: str | None = None) -> Any:
        """Values of keys, or the default.  Raises TypeError for keys of another type."""
        found = _checked_keys(keys, self._key_dtype)
        with tf.name_scope(name, f"{self._name}_Lookup", (self._handle, found, self._default_value)):
            values = gen("LookupTableFindV2")(self._handle, found, self._default_value)
        values.set_shape(found.shape)
        return SparseTensor(keys.indices, values, keys.dense_shape) if isinstance(keys, SparseTensor) else values

    def export(self, name: str | None = None) -> Any:
        """All keys and all values."""
        with tf.name_scope(name, f"{self._name}_Export", [self._handle]):
            return gen("LookupTableExportV2")(self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype)


StaticHashTable.__name__ = "StaticHashTableV1"  # TensorFlow's name, which functions of its methods contain
HashTable = StaticHashTable


class StaticVocabularyTable:
    """A table from words to numbers.  Other words get one of `num_oov_buckets` further numbers, by their hash."""

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: DTypeLike | None = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        if initializer is None:
            raise ValueError("initializer must be a table initializer")
        if initializer.value_dtype is not dtypes.int64:
            raise TypeError(f"Invalid `value_dtype`, expected {dtypes.int64} but got {initializer.value_dtype}.")
        key_dtype = dtypes.as_dtype(lookup_key_dtype or initializer.key_dtype)
        if key_dtype.is_integer != initializer.key_dtype.is_integer:
            wanted = "integer" if key_dtype.is_integer else "non-integer"
            raise TypeError(f"Invalid `key_dtype`, expected {wanted} but got {initializer.key_dtype}.")
        self._table = StaticHashTable(initializer, default_value=-1, name=name)
        self._buckets, self._key_dtype = num_oov_buckets, key_dtype

    @property
    def name(self) -> str:
        return self._table.name

    initializer: Operation = read_only("_table.initializer")
    resource_handle: Tensor = read_only("_table.resource_handle")
    key_dtype: dtypes.DType = read_only("_key_dtype")

    @property
    def value_dtype(self) -> dtypes.DType:
        return dtypes.int64

    def __getitem__(self, keys: TensorLike | SparseTensor) -> Any:
        return self.lookup(keys)

    def size(self, name: str | None = None) -> Any:
        """Number of ids, with buckets."""
        with tf.name_scope(name, f"{self.name}_Size"):
            known: Any = self._table.size()
            return known + self._buckets

    def lookup(self, keys: TensorLike | SparseTensor, name: str | None = None) -> Any:
        """Ids of words.  Raises TypeError for keys of another type."""
        found = _checked_keys(keys, self._key_dtype)
        with tf.name_scope(name, f"{self.name}_Lookup"):
            texts = found if found.dtype is dtypes.string else tf.as_string(found)
            buckets = gen("StringToHashBucketFast")(texts, num_buckets=self._buckets, name="hash_bucket")
            known = self._table.lookup(found)
            further = gen("AddV2")(buckets, self._table.size(), name="Add")
            is_known = tf.not_equal(known, self._table.default_value)
            numbers = gen("SelectV2")(is_known, known, further)
        return SparseTensor(keys.indices, numbers, keys.dense_shape) if isinstance(keys, SparseTensor) else numbers


class _MutableTable(_Table):
    """A table that ops change, and that checkpoints contain."""

    def __init__(
        self, handle: Tensor, default_value: Tensor, key_dtype: dtypes.DType, value_dtype: dtypes.DType, is_saved: bool
    ) -> None:
        super().__init__(handle, key_dtype, value_dtype)
        self._default_value = default_value
        if is_saved:
            self.export()
            get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)

    def size(self, name: str | None = None) -> Tensor:
        """Number of keys."""
        with tf.name_scope(name, f"{self._name}_Size", [self._handle]), tf.colocate_with(self._handle):
            return gen("LookupTableSizeV2")(self._handle)  # type: ignore[no-any-return]

    def lookup(self, keys: TensorLike, name: str | None = None, dynamic_default_values: object = None) -> Any:
        """Values of keys, or the default."""
        default = self._default_value if dynamic_default_values is None else dynamic_default_values
        with tf.name_scope(name, f"{self._name}_lookup_table_find", (self._handle, keys, self._default_value)):
            found = tf.convert_to_tensor(keys, dtype=self._key_dtype, name="keys")
            with tf.colocate_with(self._handle):
                return gen("LookupTableFindV2")(self._handle, found, default)

    def insert(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Operation:
        """Make an op that inserts keys, or changes their values."""
        with tf.name_scope(name, f"{self._name}_lookup_table_insert", [self._handle, keys, values]):
            found = tf.convert_to_tensor(keys, self._key_dtype, name="keys")
            given = tf.convert_to_tensor(values, self._value_dtype, name="values")
            with tf.colocate_with(self._handle):
                return gen("LookupTableInsertV2")(self._handle, found, given)  # type: ignore[no-any-return]

    def remove(self, keys: Tensor, name: str | None = None) -> Operation:
        """Make an op that removes keys.  Raises TypeError for keys of another type."""
        found = _checked_keys(keys, self._key_dtype)
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
    """A hash table that ops change."""

    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        key, value = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        default = tf.convert_to_tensor(default_value, dtype=value)
        options = {"use_node_name_sharing": checkpoint, "key_dtype": key, "value_dtype": value, "name": name}
        if default.shape.rank == 0:
            handle = gen("MutableHashTableV2")(**options)
        else:
            handle = gen("MutableHashTableOfTensorsV2")(value_shape=default.shape, **options)
        super().__init__(handle, default, key, value, checkpoint)


class DenseHashTable(_MutableTable):
    """A hash table in one block of memory that ops change.  It can't contain the empty and the deleted key."""

    erase = _MutableTable.remove

    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        empty_key: TensorLike,
        deleted_key: TensorLike,
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
