"""Columns of sequences, for recurrent networks: `tf.feature_column.sequence_...` and `sequence_input_layer`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.example_parsing import VarLenFeature
from placesim.tf1.feature_columns import making
from placesim.tf1.feature_columns.columns import (
    CategoricalColumn,
    EmbeddingColumn,
    FeatureColumn,
    IndicatorColumn,
    NumericFields,
    SharedEmbeddingColumn,
    WeightSettings,
)
from placesim.tf1.feature_columns.features import FeatureCache
from placesim.tf1.feature_columns.models import check_batch, check_columns
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


class _Sequence(NamedTuple):
    categorical_column: CategoricalColumn


class SequenceCategoricalColumn(CategoricalColumn, _Sequence):
    """Classes of each step of a sequence."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        return self.categorical_column.num_buckets

    def transform(self, features: FeatureCache) -> Any:
        return self.categorical_column.transform(features)

    def sparse_tensors(self, features: FeatureCache) -> tuple[Any, Any]:
        # with a third axis, the rows of embeddings of a sequence are not combined
        numbers, weights = self.categorical_column.sparse_tensors(features)
        shape = tf.shape(numbers)
        shape = [shape[0], shape[1], tf.reduce_prod(shape[2:])]
        return tf.sparse_reshape(numbers, shape), None if weights is None else tf.sparse_reshape(weights, shape)


class SequenceNumericColumn(FeatureColumn, NumericFields):
    """Numbers of each step of a sequence."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def transform(self, features: FeatureCache) -> Any:
        tensor = features.get(self.key)
        return tensor if self.normalizer_fn is None else self.normalizer_fn(tensor)


SEQUENCE_COLUMNS = (SequenceNumericColumn, EmbeddingColumn, IndicatorColumn, SharedEmbeddingColumn)
"""Columns that `sequence_tensor` takes."""


def sequence_tensor(column: Any, features: FeatureCache, settings: WeightSettings) -> tuple[Any, Any]:
    """A column's tensor `[batch, steps, elements]`, and the sequences' lengths.

    Raises ValueError for a column of classes that are no sequence.
    """
    if isinstance(column, SequenceNumericColumn):
        sparse = features.get(column)
        dense = tf.sparse_tensor_to_dense(sparse, default_value=column.default_value)
        dense = tf.reshape(dense, tf.concat([tf.shape(dense)[:1], [-1], column.variable_shape], axis=0))
        lengths = _lengths(sparse, math.prod(column.shape) if sparse.shape.ndims == 2 else 1)
    else:
        categorical = column.categorical_column
        if not isinstance(categorical, SequenceCategoricalColumn):
            raise ValueError(
                f"In {column.suffix}_column: {column.name}. categorical_column must be of type SequenceCategoricalColumn to "
                f"use SequenceFeatures. Suggested fix: Use one of sequence_categorical_column_with_*. Given: {categorical}"
            )
        if isinstance(column, EmbeddingColumn):
            classes = categorical.sparse_tensors(features)
            dense = column.rows_of(*classes, settings)
        else:
            dense = column.dense_tensor(features, settings)
            classes = categorical.sparse_tensors(features)
        lengths = _lengths(classes[0])
    return dense, lengths


def _lengths(sparse: Any, elements: int = 1) -> Any:
    """The number of steps of each example, each step with `elements` values."""
    with tf.name_scope(None, "sequence_length") as name:
        rows, places = sparse.indices[:, 0], sparse.indices[:, 1]
        lengths = tf.segment_max(places + tf.ones_like(places), segment_ids=rows)
        lengths = tf.cast(tf.ceil(lengths / elements), tf.int64)
        # the last examples may have no values
        missing = tf.shape(sparse)[:1] - tf.shape(lengths)[:1]
        return tf.concat([lengths, tf.zeros(missing, dtype=lengths.dtype)], axis=0, name=name)


def equal_lengths(lengths: list[Any]) -> Any:
    """The lengths that all columns have; an op fails if they differ."""
    with tf.name_scope(None, "assert_all_equal", values=lengths):
        if len(lengths) == 1:
            return lengths[0]
        with tf.control_dependencies([tf.assert_equal(lengths[0], other) for other in lengths[1:]]):
            return tf.identity(lengths[0])


def sequence_input_layer(
    features: dict[str, Any], feature_columns: Any, weight_collections: Sequence[str] | None = None, trainable: bool = True
) -> tuple[Any, Any]:
    """Tensors of columns side by side, `[batch, steps, sizes of all columns]`, and the sequences' lengths."""
    columns = check_columns(feature_columns)
    for column in columns:
        if not isinstance(column, SEQUENCE_COLUMNS):
            raise ValueError(
                "All feature_columns must be of type _SequenceDenseColumn. You can wrap a sequence_categorical_column with an "
                f"embedding_column or indicator_column. Given: {column}"
            )
    settings = WeightSettings(list(dict.fromkeys([*(weight_collections or []), "variables"])), trainable)
    with tf.variable_scope(None, default_name="sequence_input_layer", values=list(features.values())):
        cache = FeatureCache(features)
        tensors, lengths = [], []
        ordered = sorted(columns, key=lambda column: column.name)
        for column in ordered:
            with tf.variable_scope(None, default_name=column.variable_scope_name):
                dense, length = sequence_tensor(column, cache, settings)
                shape = tf.shape(dense)
                tensors.append(tf.reshape(dense, shape=[shape[0], shape[1], column.variable_shape.num_elements()]))
                lengths.append(length)
        check_batch(tensors, ordered)
        check_batch(lengths, ordered)
        length = equal_lengths(lengths)
        return tf.concat(tensors, -1), length


# --- making columns -------------------------------------------------------------------------------------------------


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: float = 0.0,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """Numbers of sequences.  Raises ValueError and TypeError."""
    plain = making.numeric_column(key, shape, None, dtype, normalizer_fn)
    return SequenceNumericColumn(key, plain.shape, default_value, dtype, normalizer_fn)


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Integers of sequences as classes.  Raises ValueError."""
    return SequenceCategoricalColumn(making.categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> SequenceCategoricalColumn:
    """Hashes of values of sequences.  Raises ValueError."""
    return SequenceCategoricalColumn(making.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = dtypes.string,
) -> SequenceCategoricalColumn:
    """Line numbers, in a file, of values of sequences.  Raises ValueError."""
    return SequenceCategoricalColumn(
        making.categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> SequenceCategoricalColumn:
    """Positions, in a list, of values of sequences.  Raises ValueError."""
    return SequenceCategoricalColumn(
        making.categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )
