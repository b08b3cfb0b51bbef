"""Keras' `DenseFeatures` and `experimental.SequenceFeatures`: dense tensors of feature columns, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.feature_columns.columns import DenseColumn, EmbeddingColumn, FeatureColumn, WeightSettings
from placesim.tf1.feature_columns.features import FeatureCache
from placesim.tf1.feature_columns.models import check_batch, check_columns, matrix_of
from placesim.tf1.feature_columns.sequences import SEQUENCE_COLUMNS, equal_lengths, sequence_tensor
from placesim.tf1.graphs.tensor_likes import ShapeLike
from placesim.tf1.keras import backend
from placesim.tf1.keras.keras_layer import Layer


class _FeatureLayer(Layer):
    """A layer whose inputs are a dictionary of features; its columns are in the order of their names."""

    _taken: tuple[type, ...]
    """Classes of columns."""
    _base: str
    """TensorFlow's base class of the accepted columns."""

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(trainable, name, **kwargs)
        columns: list[FeatureColumn] = sorted(check_columns(feature_columns), key=lambda column: column.name)
        for column in columns:
            if not isinstance(column, self._taken):
                raise ValueError(
                    "Items of feature_columns must be a "
                    f"<class 'tensorflow.python.feature_column.feature_column_v2.{self._base}'>. "
                    f"You can wrap a categorical column with an embedding_column or indicator_column. Given: {column}"
                )
        self._columns = tuple(columns)
        self._tables: dict[FeatureColumn, Any] = {}

    def build(self, input_shape: ShapeLike) -> None:
        scope = tf.get_default_graph().get_name_scope()
        for column in self._columns:
            if isinstance(column, EmbeddingColumn):
                # a call enters the same scope, without a number
                with tf.name_scope(f"{scope}/{column.name}/"):
                    self._tables[column] = self.add_weight(
                        "embedding_weights",
                        (column.categorical_column.num_buckets, column.dimension),
                        tf.float32,
                        initializer=column.initializer,
                        trainable=self.trainable and column.trainable,
                    )
        self.built = True

    def _tensors(self, inputs: Any, training: object, make: Callable[[Any, FeatureCache, WeightSettings], Any]) -> list[Any]:
        """Tensors of each column.  Raises ValueError for inputs that are no dictionary."""
        if training is None:
            backend.learning_phase()
        if not isinstance(inputs, dict):
            raise ValueError("We expected a dictionary here. Instead we got: ", inputs)
        cache, settings, found = FeatureCache(inputs), WeightSettings([], self.trainable, self._tables), []
        for column in self._columns:
            with tf.name_scope(column.name):
                found.append(make(column, cache, settings))
        return found


class DenseFeatures(_FeatureLayer):
    """The columns' tensors as one matrix."""

    _taken, _base = (DenseColumn,), "DenseColumn"

    def call(self, inputs: Any, *args: object, training: object = None, **kwargs: object) -> Any:
        return tf.concat(self._tensors(inputs, training, matrix_of), -1)


class SequenceFeatures(_FeatureLayer):
    """The columns' tensors `[batch, steps, elements]`, and the sequences' lengths."""

    _taken, _base = SEQUENCE_COLUMNS, "SequenceDenseColumn"

    def call(self, inputs: Any, *args: object, training: object = None, **kwargs: object) -> Any:
        tensors, lengths = zip(*self._tensors(inputs, training, _sequence_of), strict=True)
        check_batch(lengths, self._columns)
        length = equal_lengths(list(lengths))
        check_batch(tensors, self._columns)
        return tf.concat(tensors, -1), length


def _sequence_of(column: Any, cache: FeatureCache, settings: WeightSettings) -> tuple[Any, Any]:
    dense, length = sequence_tensor(column, cache, settings)
    shape = tf.shape(dense)
    return tf.reshape(dense, shape=(shape[0], shape[1], column.variable_shape.num_elements())), length
