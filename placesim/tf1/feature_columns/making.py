"""Functions that make columns, and check their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.feature_columns.columns import (
    BucketizedColumn,
    CategoricalColumn,
    CrossedColumn,
    EmbeddingColumn,
    FeatureColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    IndicatorColumn,
    NumericColumn,
    SharedEmbeddingColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
    check_string_or_int,
)
from placesim.tf1.types import dtypes, nest


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: object = None,
    dtype: dtypes.DType = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Column of numbers.  Raises ValueError or TypeError for wrong arguments."""
    shape = tuple(shape) if nest.is_nested(shape) else (shape,)
    for size in shape:
        if not isinstance(size, int):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    default = _default(shape, default_value, dtype, key)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    _check_key(key)
    return NumericColumn(key, shape, default, dtype, normalizer_fn)


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def _default(shape: tuple[int, ...], value: Any, dtype: dtypes.DType, key: str) -> Any:
    """Default of a feature as nested tuples of its shape."""
    if value is None:
        return None
    if isinstance(value, int) or (isinstance(value, float) and dtype.is_floating):
        return _tuples(np.broadcast_to(np.asarray(value, object), shape).tolist())
    value = value.tolist() if hasattr(value, "tolist") else value
    if nest.is_nested(value):
        if np.shape(value) != shape:
            given = f"default_value: {value}, shape: {shape}, key: {key}"
            raise ValueError(f"The shape of default_value must be equal to given shape. {given}")
        leaves = nest.flatten(value)
        if all(isinstance(leaf, int) for leaf in leaves):
            return _tuples(value)
        if dtype.is_floating and any(isinstance(leaf, float) for leaf in leaves):
            return _tuples(value)
    raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, dtype: {dtype}, key: {key}")


def _tuples(value: object) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """Column of ranges of numbers.  Raises ValueError for boundaries that are not sorted, and for other columns."""
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    is_list = isinstance(boundaries, list | tuple)
    if not is_list or any(low >= high for low, high in pairwise(boundaries)):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: dtypes.DType = dtypes.string
) -> HashedCategoricalColumn:
    """Column of hashes.  Raises ValueError for wrong arguments."""
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    _check_key(key)
    check_string_or_int(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: dtypes.DType = dtypes.string,
) -> VocabularyFileCategoricalColumn:
    """Column of lines of a file, which are counted if the size is not given.  Raises ValueError for wrong arguments."""
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        if not tf.gfile.Exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with tf.gfile.GFile(vocabulary_file, mode="rb") as file:
            vocabulary_size = sum(1 for _ in file)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_out_of_vocabulary(key, num_oov_buckets, default_value is not None)
    check_string_or_int(dtype, f"column_name: {key}")
    _check_key(key)
    default = -1 if default_value is None else default_value
    return VocabularyFileCategoricalColumn(key, vocabulary_file, vocabulary_size, num_oov_buckets or 0, dtype, default)


def _check_out_of_vocabulary(key: str, num_oov_buckets: int, has_default: bool) -> None:
    if num_oov_buckets and has_default:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if num_oov_buckets and num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> VocabularyListCategoricalColumn:
    """Column of positions in a list.  Raises ValueError for wrong arguments."""
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    own = tf.as_dtype(np.array(vocabulary_list).dtype)
    _check_out_of_vocabulary(key, num_oov_buckets, default_value != -1)
    check_string_or_int(own, f"column_name: {key} vocabulary")
    dtype = own if dtype is None else dtype
    if dtype.is_integer != own.is_integer:
        raise ValueError(f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}")
    check_string_or_int(dtype, f"column_name: {key}")
    _check_key(key)
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), dtype, default_value, num_oov_buckets)


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> IdentityCategoricalColumn:
    """Column of integers as classes.  Raises ValueError for wrong arguments."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    _check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: dtypes.DType = dtypes.float32
) -> WeightedCategoricalColumn:
    """Column of classes with weights.  Raises ValueError for weights that are no numbers."""
    if dtype is None or not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)


def crossed_column(
    keys: Sequence[str | CategoricalColumn], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Column of combinations.  Raises ValueError for wrong arguments."""
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, str | CategoricalColumn):
            kinds = "All keys must be either string, or categorical column except HashedCategoricalColumn."
            raise ValueError(f"Unsupported key type. {kinds} Given: {key}")
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will increase "
                f"probability of collision. Instead, use the feature name as a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Column of counts of classes.  Raises ValueError for other columns."""
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(f"Unsupported input type. Input must be a CategoricalColumn. Given: {categorical_column}")
    return IndicatorColumn(categorical_column)


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Column of rows of a table.  Raises ValueError for wrong arguments."""
    where = f" Embedding of column_name: {getattr(categorical_column, 'name', '')}"
    chosen = _embedding_initializer(dimension, initializer, (ckpt_to_load_from, tensor_name_in_ckpt), where)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        chosen,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


def shared_embedding_columns(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Columns of rows of one table.  Raises ValueError for columns of different kinds or sizes."""
    chosen = _embedding_initializer(dimension, initializer, (ckpt_to_load_from, tensor_name_in_ckpt), "")
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    first = _unweighted(ordered[0])
    for column in map(_unweighted, ordered[1:]):
        start = "To use shared_embedding_column, all categorical_columns must have the same"
        if not isinstance(column, type(first)):
            raise ValueError(
                f"{start} type, or be weighted_categorical_column or sequence column of the same type. Given column: {first} "
                f"of type: {type(first)} does not match given column: {column} of type: {type(column)}"
            )
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                f"{start} number of buckets. ven column: {first} with buckets: {first.num_buckets} does  not match column: "
                f"{column} with buckets: {column.num_buckets}"
            )
    collection = shared_embedding_collection_name or "_".join(column.name for column in ordered) + "_shared_embedding"
    rest = ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable, use_safe_embedding_lookup
    return [SharedEmbeddingColumn(column, dimension, combiner, chosen, collection, *rest) for column in categorical_columns]


def _unweighted(column: CategoricalColumn) -> Any:
    while isinstance(column, WeightedCategoricalColumn):
        column = column.categorical_column
    return column


def _embedding_initializer(
    dimension: int | None, initializer: Callable[..., Any] | None, checkpoint: tuple[str | None, str | None], where: str
) -> Any:
    """The initializer, by default truncated normal values.  Raises ValueError for wrong arguments of an embedding."""
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint[0] is None) != (checkpoint[1] is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified.{where}")
    return initializer or tf.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


def make_parse_example_spec(feature_columns: Iterable[FeatureColumn]) -> dict[str, Any]:
    """Features of serialized examples that columns read, for `tf.parse_example`.  Raises ValueError for a conflict."""
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"All feature_columns must be _FeatureColumn instances. Given: {column}")
        for key, value in column.parse_example_spec.items():
            if found.setdefault(key, value) != value:
                values = f"Given {value} and {found[key]}"
                raise ValueError(f"feature_columns contain different parse_spec for key {key}. {values}")
    return found
