"""`tf.keras.layers.DenseFeatures`: dense tensors of feature columns, side by side."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.feature_columns.columns import DenseColumn, EmbeddingColumn, FeatureColumn, WeightSettings
from placesim.tf1.feature_columns.features import FeatureCache
from placesim.tf1.feature_columns.models import check_columns, matrix_of
from placesim.tf1.graphs.tensor_likes import ShapeLike
from placesim.tf1.keras import backend
from placesim.tf1.keras.keras_layer import Layer


class DenseFeatures(Layer):
    """A layer whose inputs are a dictionary of features; its columns are in the order of their names."""

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(trainable, name, **kwargs)
        columns: list[FeatureColumn] = sorted(check_columns(feature_columns), key=lambda column: column.name)
        for column in columns:
            if not isinstance(column, DenseColumn):
                raise ValueError(
                    "Items of feature_columns must be a "
                    "<class 'tensorflow.python.feature_column.feature_column_v2.DenseColumn'>. "
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

    def call(self, inputs: Any, *args: object, training: object = None, **kwargs: object) -> Any:
        if training is None:
            backend.learning_phase()
        if not isinstance(inputs, dict):
            raise ValueError("We expected a dictionary here. Instead we got: ", inputs)
        cache, settings, tensors = FeatureCache(inputs), WeightSettings([], self.trainable, self._tables), []
        for column in self._columns:
            with tf.name_scope(column.name):
                tensors.append(matrix_of(column, cache, settings))
        return tf.concat(tensors, -1)
