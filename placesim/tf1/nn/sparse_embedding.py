"""Embedding rows by sparse ids, combined per example."""

from __future__ import annotations

from typing import Any

from placesim.tf1.app.logging import warn
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.nn.embedding import is_resource, table_parts
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")

_COMBINERS = {"mean": "SparseSegmentMean", "sum": "SparseSegmentSum", "sqrtn": "SparseSegmentSqrtN"}
"""Combiner -> op that combines rows without weights."""


def embedding_lookup_sparse(
    params: TensorLike,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: object = None,
) -> Any:
    """Combine the embedding rows of each row of ids, with weights."""
    if combiner is None:
        warn('The default value of combiner will change from "mean" to "sqrtn" after 2016/11/01.')
        combiner = "mean"
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    tables = table_parts(params)
    if not tables:
        raise ValueError("Length of params is currently 0. Need at least one param.")
    _check_sparse(sp_ids, sp_weights)
    with name_scope(name, "embedding_lookup_sparse", [*tables, sp_ids]) as scope:
        rows = sp_ids.indices[:, 0]
        ids = sp_ids.values
        is_gathered_at_once = max_norm is None and sp_weights is None and not is_resource(tables[0])
        if len(tables) == 1 and is_gathered_at_once and (table := convert_to_tensor(tables[0])).device == rows.device:
            return gen(_COMBINERS[combiner])(table, ids, rows, sparse_gradient=True, name=scope)
        ids, places = tf.unique(ids)
        found = tf.nn.embedding_lookup(tables, ids, partition_strategy=partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            return gen(_COMBINERS[combiner])(found, places, rows, name=scope)
        if rows.dtype != tf.int32:
            rows = tf.cast(rows, tf.int32)
        found = tf.gather(found, places)
        dtype = found.dtype
        if not dtypes.is_half(dtype):
            return _weighted(found, sp_weights.values, rows, combiner, scope)
        # Half precision is summed in float32.
        return tf.cast(_weighted(tf.cast(found, tf.float32), sp_weights.values, rows, combiner, scope), dtype)


def _check_sparse(ids: TensorLike, weights: TensorLike) -> None:
    if not isinstance(ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(ids)}")
    if weights is None:
        return
    if not isinstance(weights, SparseTensor):
        raise TypeError(f"sp_weights must be either None or SparseTensor,got {type(weights)}")
    ids.values.shape.assert_is_compatible_with(weights.values.shape)
    ids.indices.shape.assert_is_compatible_with(weights.indices.shape)
    ids.dense_shape.shape.assert_is_compatible_with(weights.dense_shape.shape)


def _weighted(found: Any, weights: Any, rows: object, combiner: str, name: str) -> Any:
    """Sum of weighted rows in each segment; `mean` divides it by the weights' sum, and `sqrtn` by their L2 norm."""
    if weights.dtype != found.dtype:
        weights = tf.cast(weights, found.dtype)
    width = tf.expand_dims(tf.rank(found) - 1, 0)
    known = weights.shape
    sizes, ones = tf.shape(weights), tf.ones(width, dtype=tf.int32)
    weights = tf.reshape(weights, tf.concat([sizes, ones], 0))
    if found.shape.rank is not None:
        weights.set_shape(known.concatenate([1] * (found.shape.rank - 1)))
    found *= weights
    if combiner == "sum":
        return tf.segment_sum(found, rows, name=name)
    total = tf.segment_sum(found, rows)
    if combiner == "mean":
        return tf.div_no_nan(total, tf.segment_sum(weights, rows), name=name)
    squares = tf.segment_sum(tf.pow(weights, 2), rows)
    return tf.div_no_nan(total, tf.sqrt(squares), name=name)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: TensorLike | None = None,
) -> Any:
    """`embedding_lookup_sparse` for ids of any rank, possibly missing or invalid; rows without ids give zeros."""
    tables = [] if embedding_weights is None else table_parts(embedding_weights)
    if not tables:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    dtype = None if sparse_weights is None else sparse_weights.dtype
    tables = [_as_table(table, dtype) for table in tables]
    with name_scope(name, "embedding_lookup", [*tables, sparse_ids, sparse_weights]) as scope:
        shape = sparse_ids.dense_shape
        known = shape.shape.as_list()[0] if shape.shape.rank is not None else None
        rank = tf.size(shape) if known is None else known
        ids = tf.sparse_reshape(sparse_ids, [tf.reduce_prod(tf.slice(shape, [0], [rank - 1])), tf.gather(shape, rank - 1)])
        weights = sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        ids, weights = _valid(ids, weights, combiner)
        ids, is_empty = tf.sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = tf.sparse_fill_empty_rows(weights, 1.0)
        result = embedding_lookup_sparse(
            tables, ids, weights, partition_strategy, None if default_id is None else scope, combiner, max_norm
        )
        if default_id is None:
            mask = tf.tile(tf.reshape(is_empty, [-1, 1]), tf.stack([1, tf.shape(result)[1]]))
            result = tf.where(mask, tf.zeros_like(result), result, name=scope)
        outer = tf.slice(tf.cast(shape, tf.int32), [0], [rank - 1])
        found = tf.reshape(result, tf.concat([outer, tf.slice(tf.shape(result), [1], [-1])], 0))
        if known is not None:
            found.set_shape(TensorShape([None] * (known - 1)).concatenate(result.shape[1:]))
        return found


def _as_table(table: Any, dtype: DTypeLike | None) -> Any:
    is_kept = is_resource(table) and dtype in (None, table.dtype)
    return table if is_kept else convert_to_tensor(table, dtype=dtype)


def _valid(ids: Any, weights: Any, combiner: str) -> tuple[Any, Any]:
    """Remove negative ids with their weights; unless the combiner is `sum`, also weights of 0 or less with their ids."""
    valid = tf.greater_equal(ids.values, 0)
    if weights is not None:
        valid = tf.logical_and(valid, tf.ones_like(weights.values, dtype=tf.bool))
    ids, weights = _retained(ids, weights, valid)
    if combiner != "sum" and weights is not None:
        ids, weights = _retained(ids, weights, tf.greater(weights.values, 0))
    return ids, weights


def _retained(ids: TensorLike, weights: TensorLike, which: object) -> tuple[Any, Any]:
    return tf.sparse_retain(ids, which), None if weights is None else tf.sparse_retain(weights, which)
