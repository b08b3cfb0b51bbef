"""The classes of columns.  A dense column gives a dense tensor, a categorical column sparse numbers of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.example_parsing import FixedLenFeature, VarLenFeature
from placesim.tf1.feature_columns.features import FeatureCache, to_sparse
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape


class WeightSettings(NamedTuple):
    """Collections and trainability of a model's variables, and the existing tables of columns."""

    collections: list[str]
    trainable: bool
    tables: Mapping[Any, Any] = {}


class FeatureColumn:
    """Base class; subclasses are named tuples too, and compare by value."""

    name: str

    variable_scope_name: str = read_only("name", "Name of the scope of the column's variables.")

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Features of a serialized example that the column reads."""
        raise NotImplementedError

    def transform(self, features: FeatureCache) -> Any:
        """Tensors of the column for a batch."""
        raise NotImplementedError


class DenseColumn(FeatureColumn):
    """Column whose dense tensor has the shape `[batch, *variable_shape]`."""

    @property
    def variable_shape(self) -> TensorShape:
        raise NotImplementedError

    def dense_tensor(self, features: FeatureCache, settings: WeightSettings) -> Any:
        """The column's tensor."""
        return features.get(self)


class CategoricalColumn(FeatureColumn):
    """Column of classes below `num_buckets`."""

    num_buckets: int

    def sparse_tensors(self, features: FeatureCache) -> tuple[Any, Any]:
        """Numbers of classes as a SparseTensor, and their weights or None."""
        return features.get(self), None


class _KeyedColumn(CategoricalColumn):
    """Categorical column of one feature."""

    key: str
    dtype: Any

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features: FeatureCache) -> Any:
        return self._numbers(to_sparse(features.get(self.key)))

    def _numbers(self, tensor: SparseTensor) -> Any:
        """The classes of a feature's values."""
        raise NotImplementedError

    def _check_type(self, tensor: SparseTensor) -> None:
        check_string_or_int(tensor.dtype, f"column_name: {self.key} input_tensor")
        if self.dtype.is_integer != tensor.dtype.is_integer:
            types = f"column dtype: {self.dtype}, tensor dtype: {tensor.dtype}"
            raise ValueError(f"Column dtype and SparseTensors dtype must be compatible. key: {self.key}, {types}")


def check_string_or_int(dtype: DType, prefix: str) -> None:
    """Raise ValueError for a type that is neither string nor integer."""
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {dtype}.")


# --- numbers --------------------------------------------------------------------------------------------------------


class NumericFields(NamedTuple):
    """Fields of a column of numbers."""

    key: str
    shape: tuple[int, ...]
    default_value: object
    dtype: DType
    normalizer_fn: Callable[[Any], Any] | None


class NumericColumn(DenseColumn, NumericFields):
    """Numbers of a feature as float32."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def transform(self, features: FeatureCache) -> Any:
        tensor = features.get(self.key)
        if isinstance(tensor, SparseTensor):
            wrong = "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported."
            raise ValueError(f"{wrong} key: {self.key}")
        return tf.cast(tensor if self.normalizer_fn is None else self.normalizer_fn(tensor), tf.float32)


class _Bucketized(NamedTuple):
    source_column: NumericColumn
    boundaries: tuple[float, ...]


class BucketizedColumn(DenseColumn, CategoricalColumn, _Bucketized):
    """Ranges of numbers as classes."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source_column.name}_bucketized"

    parse_example_spec: dict[str, Any] = read_only("source_column.parse_example_spec")

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape((*self.source_column.shape, len(self.boundaries) + 1))

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transform(self, features: FeatureCache) -> Any:
        return gen("Bucketize")(features.get(self.source_column), boundaries=list(self.boundaries))

    def dense_tensor(self, features: FeatureCache, settings: WeightSettings) -> Any:
        numbers = tf.cast(features.get(self), tf.int64)
        return tf.one_hot(numbers, depth=len(self.boundaries) + 1, on_value=1.0, off_value=0.0)

    def sparse_tensors(self, features: FeatureCache) -> tuple[Any, Any]:
        buckets = features.get(self)
        batch, size = tf.shape(buckets)[0], self.source_column.shape[0]
        rows = tf.reshape(tf.tile(tf.expand_dims(tf.range(0, batch), 1), [1, size]), (-1,))
        positions = tf.tile(tf.range(0, size), [batch])
        numbers = tf.reshape(buckets, (-1,)) + (len(self.boundaries) + 1) * positions
        indices = tf.cast(tf.transpose(tf.stack((rows, positions))), tf.int64)
        return SparseTensor(indices, numbers, tf.cast(tf.stack([batch, size]), tf.int64)), None


# --- classes --------------------------------------------------------------------------------------------------------


class _Hashed(NamedTuple):
    key: str
    hash_bucket_size: int
    dtype: DType


class HashedCategoricalColumn(_KeyedColumn, _Hashed):
    """Hashes of a feature's values."""

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return self.hash_bucket_size

    def _numbers(self, tensor: SparseTensor) -> Any:
        self._check_type(tensor)
        values = tensor.values if self.dtype == tf.string else tf.as_string(tensor.values)
        numbers = tf.string_to_hash_bucket_fast(values, self.hash_bucket_size, name="lookup")
        return SparseTensor(tensor.indices, numbers, tensor.dense_shape)


class _VocabularyFile(NamedTuple):
    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: DType
    default_value: int
    file_format: str | None = None


class _VocabularyColumn(_KeyedColumn):
    """Categorical column that looks values up in a table."""

    vocabulary_size: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return self.vocabulary_size + self.num_oov_buckets

    def _numbers(self, tensor: SparseTensor) -> Any:
        self._check_type(tensor)
        dtype = self.dtype
        if tensor.dtype.is_integer:
            dtype, tensor = tf.int64, tf.cast(tensor, tf.int64)
        with tf.init_scope():
            table = self._table(dtype, f"{self.key}_lookup")
        return table.lookup(tensor)

    def _table(self, dtype: DType, name: str) -> Any:
        raise NotImplementedError


class VocabularyFileCategoricalColumn(_VocabularyColumn, _VocabularyFile):
    """Line numbers of a feature's values in a file."""

    def _table(self, dtype: DType, name: str) -> Any:
        return tf.contrib.lookup.index_table_from_file(
            self.vocabulary_file, self.num_oov_buckets, self.vocabulary_size, self.default_value, key_dtype=dtype, name=name
        )


class _VocabularyList(NamedTuple):
    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: DType
    default_value: int
    num_oov_buckets: int


class VocabularyListCategoricalColumn(_VocabularyColumn, _VocabularyList):
    """Positions of a feature's values in a list."""

    @property
    def vocabulary_size(self) -> int:  # type: ignore[override]
        return len(self.vocabulary_list)

    def _table(self, dtype: DType, name: str) -> Any:
        return tf.contrib.lookup.index_table_from_tensor(
            self.vocabulary_list, self.num_oov_buckets, self.default_value, dtype=dtype, name=name
        )


class _Identity(NamedTuple):
    key: str
    number_buckets: int
    default_value: int | None


class IdentityCategoricalColumn(_KeyedColumn, _Identity):
    """Integers of a feature as classes."""

    @property
    def dtype(self) -> Any:
        return tf.int64

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return self.number_buckets

    def _numbers(self, tensor: SparseTensor) -> Any:
        if not tensor.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {tensor.dtype}")
        values = tf.cast(tensor.values, tf.int64, name="values")
        if self.default_value is not None:
            values = self._with_default(tf.cast(tensor.values, tf.int64, name="values"))
        return SparseTensor(tensor.indices, values, tensor.dense_shape)

    def _with_default(self, values: Tensor) -> Any:
        """The values; values that are no class are replaced by the default."""
        size = tf.cast(self.num_buckets, tf.int64, name="num_buckets")
        zero = tf.cast(0, tf.int64, name="zero")
        is_wrong = tf.logical_or(values < zero, values >= size, name="out_of_range")
        default = tf.fill(tf.shape(values), tf.cast(self.default_value, tf.int64), name="default_values")
        return tf.where_v2(is_wrong, default, values)


class _Weighted(NamedTuple):
    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: DType


class WeightedCategoricalColumn(CategoricalColumn, _Weighted):
    """Classes with weights from another feature."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        found = self.categorical_column.parse_example_spec
        if self.weight_feature_key in found:
            known = found[self.weight_feature_key]
            raise ValueError(f"Parse config {known} already exists for {self.weight_feature_key}.")
        return {**found, self.weight_feature_key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return self.categorical_column.num_buckets

    def transform(self, features: FeatureCache) -> Any:
        weights = features.get(self.weight_feature_key)
        if self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = to_sparse(weights, missing=0.0)
        if not weights.dtype.is_floating:
            weights = tf.cast(weights, tf.float32)
        return features.get(self.categorical_column), weights

    def sparse_tensors(self, features: FeatureCache) -> tuple[Any, Any]:
        numbers, weights = features.get(self)
        return numbers, weights


class _Crossed(NamedTuple):
    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None


class CrossedColumn(CategoricalColumn, _Crossed):
    """Hashes of combinations of several features' values."""

    def _leaves(self) -> Iterator[Any]:
        for key in self.keys:
            yield from key._leaves() if isinstance(key, CrossedColumn) else (key,)

    @property
    def name(self) -> str:  # type: ignore[override]
        return "_X_".join(sorted(key if isinstance(key, str) else key.name for key in self._leaves()))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in self.keys:
            found |= {key: VarLenFeature(tf.string)} if isinstance(key, str) else key.parse_example_spec
        return found

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return self.hash_bucket_size

    def transform(self, features: FeatureCache) -> Any:
        inputs = [features.get(key) if isinstance(key, str) else _without_weights(key, features) for key in self._leaves()]
        return tf.sparse.cross_hashed(inputs, num_buckets=self.hash_bucket_size, hash_key=self.hash_key)


def _without_weights(column: CategoricalColumn, features: FeatureCache) -> Any:
    numbers, weights = column.sparse_tensors(features)
    if weights is not None:
        wrong = "crossed_column does not support weight_tensor, but the given column populates weight_tensor."
        raise ValueError(f"{wrong} Given column: {column.name}")
    return numbers


# --- dense columns of classes ---------------------------------------------------------------------------------------


class _DenseColumnOfClasses(DenseColumn):
    """Dense column of a categorical column, with that column's name and a suffix."""

    categorical_column: CategoricalColumn
    suffix: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.categorical_column.name}_{self.suffix}"

    parse_example_spec: dict[str, Any] = read_only("categorical_column.parse_example_spec")


class _Indicator(NamedTuple):
    categorical_column: CategoricalColumn


class IndicatorColumn(_DenseColumnOfClasses, _Indicator):
    """Counts of an example's classes."""

    suffix = "indicator"

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([1, self.categorical_column.num_buckets])

    def transform(self, features: FeatureCache) -> Any:
        numbers, weights = self.categorical_column.sparse_tensors(features)
        size = self.categorical_column.num_buckets
        if weights is not None:
            merged = tf.sparse_merge(numbers, weights, vocab_size=size)
            merged = tf.sparse_slice(merged, [0, 0], merged.dense_shape)
            return tf.scatter_nd(merged.indices, merged.values, merged.dense_shape)
        dense = tf.sparse_tensor_to_dense(numbers, default_value=-1)
        return tf.reduce_sum(tf.one_hot(dense, depth=size, on_value=1.0, off_value=0.0), axis=[-2])


class _TableColumn(_DenseColumnOfClasses):
    """Combined rows of a table for an example's classes."""

    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([self.dimension])

    def transform(self, features: FeatureCache) -> Any:
        return features.get(self.categorical_column)

    def dense_tensor(self, features: FeatureCache, settings: WeightSettings) -> Any:
        return self.rows_of(*self.categorical_column.sparse_tensors(features), settings)

    def rows_of(self, numbers: Any, weights: Any, settings: WeightSettings) -> Any:
        """Combined rows for numbers of classes."""
        table = self._table(settings)
        if self.ckpt_to_load_from is not None:
            tf.train.init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: table})
        rank = numbers.dense_shape.shape.as_list()[0]
        is_safe = self.use_safe_embedding_lookup or rank is None or rank > 2
        lookup = tf.nn.safe_embedding_lookup_sparse if is_safe else tf.nn.embedding_lookup_sparse
        return lookup(table, numbers, weights, combiner=self.combiner, name=f"{self.name}_weights", max_norm=self.max_norm)

    def _table(self, settings: WeightSettings) -> Any:
        """The table of embeddings: the column's, or a new variable of the current variable scope."""
        if self in settings.tables:
            return settings.tables[self]
        return tf.get_variable(
            "embedding_weights",
            shape=(self.categorical_column.num_buckets, self.dimension),
            dtype=tf.float32,
            initializer=self.initializer,
            trainable=self.trainable and settings.trainable,
            collections=settings.collections,
        )


class _Embedding(NamedTuple):
    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool = True


class EmbeddingColumn(_TableColumn, _Embedding):
    """Column with a table of its own."""

    suffix = "embedding"


class _SharedEmbedding(NamedTuple):
    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    shared_embedding_collection_name: str
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool = True


class SharedEmbeddingColumn(_TableColumn, _SharedEmbedding):
    """Column that shares its table with all columns of the same collection."""

    suffix = "shared_embedding"

    variable_scope_name: str = read_only("shared_embedding_collection_name")

    def dense_tensor(self, features: FeatureCache, settings: WeightSettings) -> Any:
        with tf.name_scope(None, self.name):
            return super().dense_tensor(features, settings)

    def _table(self, settings: WeightSettings) -> Any:
        tables = tf.get_collection(self.shared_embedding_collection_name)
        if tables:
            return tables[0]
        table = super()._table(settings)
        tf.add_to_collection(self.shared_embedding_collection_name, table)
        return table
