"""`input_layer`, the concatenated dense tensors of columns, and `linear_model`, a weighted sum of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.feature_columns.columns import CategoricalColumn, DenseColumn, FeatureColumn, WeightSettings
from placesim.tf1.feature_columns.features import FeatureCache
from placesim.tf1.variables.partitioned import PartitionedVariable


def input_layer(
    features: dict[str, Any],
    feature_columns: Any,
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    """Dense tensors of columns, side by side in the order of names: `[batch, sizes of all columns]`."""
    columns = check_columns(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an embedding_column "
                f"or indicator_column. Given: {column}"
            )
    settings = WeightSettings(_collections(weight_collections), trainable)
    with tf.variable_scope(None, default_name="input_layer", values=list(features.values())):
        cache = FeatureCache(features)
        tensors = []
        ordered = sorted(columns, key=lambda column: column.name)
        for column in ordered:
            with tf.variable_scope(None, default_name=column.variable_scope_name) as scope:
                tensors.append(matrix_of(column, cache, settings))
                if cols_to_vars is not None:
                    cols_to_vars[column] = tf.get_collection("variables", scope=scope.name)
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = tensors[-1]
        check_batch(tensors, ordered)
        return tf.concat(tensors, 1)


def linear_model(
    features: dict[str, Any],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Any:
    """Weighted sum of columns, whose variables begin at 0: `[batch, units]`."""
    with tf.variable_scope(None, "linear_model") as scope:
        name = scope.name.rpartition("/")[2]
    columns = check_columns(feature_columns)
    settings = WeightSettings(_collections(weight_collections), trainable)
    by_scope = {}
    for column in sorted(columns, key=lambda column: column.name):
        with tf.variable_scope(None, default_name=column.variable_scope_name) as scope:
            by_scope[scope.name.rpartition("/")[2]] = column
    scoped = sorted(by_scope.items())
    for column in columns:
        if not isinstance(column, DenseColumn | CategoricalColumn):
            wrong = "Items of feature_columns must be either a _DenseColumn or _CategoricalColumn."
            raise ValueError(f"{wrong} Given: {column}")
    variables: dict[Any, Any] = {}
    with tf.name_scope(name), tf.variable_scope(name):
        cache, sums = FeatureCache(features), []
        for own_name, column in scoped:
            with tf.variable_scope(None, default_name=own_name) as scope:
                sums.append(_weighted_sum(column, cache, settings, units, sparse_combiner))
                variables[column] = tf.get_collection("variables", scope=scope.name)
        check_batch(sums, [column for _, column in scoped])
        total = tf.add_n(sums, name="weighted_sum_no_bias")
        bias = _weights("bias_weights", [units], settings)
        variables["bias"] = list(bias) if isinstance(bias, PartitionedVariable) else [bias]
        total = tf.nn.bias_add(total, bias, name="weighted_sum")
    if cols_to_vars is not None:
        cols_to_vars.update(variables)
    return total


def _weighted_sum(column: Any, cache: FeatureCache, settings: WeightSettings, units: int, combiner: str) -> Any:
    is_categorical = isinstance(column, CategoricalColumn)
    size = column.num_buckets if is_categorical else column.variable_shape.num_elements()
    weights = _weights("weights", [size, units], settings)
    if not is_categorical:
        return tf.matmul(matrix_of(column, cache, settings), weights, name="weighted_sum")
    numbers, amounts = column.sparse_tensors(cache)
    numbers = _sparse_matrix(numbers)
    amounts = None if amounts is None else _sparse_matrix(amounts)
    return tf.nn.safe_embedding_lookup_sparse(weights, numbers, sparse_weights=amounts, combiner=combiner, name="weighted_sum")


def _weights(name: str, shape: list[int], settings: WeightSettings) -> Any:
    made = tf.get_variable(name, shape=shape, initializer=tf.zeros_initializer(), trainable=settings.trainable)
    for collection in settings.collections:
        if collection != "variables":
            for part in made if isinstance(made, PartitionedVariable) else [made]:
                tf.add_to_collection(collection, part)
    return made


def matrix_of(column: Any, cache: FeatureCache, settings: WeightSettings) -> Any:
    """The column's dense tensor as a matrix with one row for each example."""
    tensor = column.dense_tensor(cache, settings)
    size = column.variable_shape.num_elements()
    return tf.reshape(tensor, shape=(tf.shape(tensor)[0], size))


def _sparse_matrix(tensor: Any) -> Any:
    return tf.sparse_reshape(tensor, [tf.shape(tensor)[0], -1])


def _collections(given: Sequence[str] | None) -> list[str]:
    """Collections of a model's variables, including the collections of global and of model variables."""
    return list(dict.fromkeys([*(given or []), "variables", "model_variables"]))


def check_columns(columns: Any) -> Any:
    """Columns of a model.  Raises ValueError for none, for other values and for two of the same name."""
    columns = [columns] if isinstance(columns, FeatureColumn) else columns
    columns = list(columns) if isinstance(columns, Iterator) else columns
    if isinstance(columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"Items of feature_columns must be a _FeatureColumn. Given (type {type(column)}): {column}.")
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    by_name: dict[str, FeatureColumn] = {}
    for column in columns:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and {by_name[column.name]}. This usually means "
                "that these columns refer to same base feature. Either one must be discarded or a duplicated but renamed item "
                "must be inserted in features dict."
            )
        by_name[column.name] = column
    return columns


def check_batch(tensors: Sequence[Any], columns: Sequence[FeatureColumn]) -> None:
    """Raise ValueError for tensors with different numbers of rows."""
    first: tuple[str, int] | None = None
    for tensor, column in zip(tensors, columns, strict=True):
        size = tensor.shape.as_list()[0]
        if size is None:
            continue
        if first is None:
            first = column.name, size
        elif size != first[1]:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({first[0]}, {column.name}): ({first[1]}, {size})"
            )
