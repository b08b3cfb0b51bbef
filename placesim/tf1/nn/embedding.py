"""Lookup of embedding rows by ids, in a table or its shards."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import colocate_with, name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike, is_ragged
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant, convert_to_tensor

tf = namespace("")


def embedding_lookup(
    params: TensorLike,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: object = None,
) -> Any:
    """Rows `ids` of a table, or of a table that consists of several shards."""
    if params is None:
        raise ValueError("params must be specified")
    if is_ragged(ids):
        with name_scope(name, "embedding_lookup_ragged"):
            rows = embedding_lookup(params, ids.flat_values, partition_strategy, None, validate_indices, max_norm)
            return ids.with_flat_values(rows)
    tables = table_parts(params)
    if not tables:
        raise ValueError("Length of params is currently 0. Need at least one param.")
    with name_scope(name, "embedding_lookup", [*tables, ids]) as scope:
        if not any(is_resource(table) for table in tables):
            tables = [convert_to_tensor(table, name=f"params_{i}") for i, table in enumerate(tables)]
        ids = convert_to_tensor(ids, name="ids")
        if len(tables) == 1:
            with colocate_with(_node_of(tables[0])):
                rows = _clipped(tf.gather(tables[0], ids, name=scope), ids, max_norm)
            return tf.identity(rows)
        return _stitched(tables, ids, partition_strategy, max_norm, scope)


def table_parts(params: Any) -> list[Any]:
    """Shards of a table that is given as one, as a list of shards, or as a partitioned variable."""
    is_split = isinstance(params, list | tuple) or hasattr(params, "_get_variable_list") or hasattr(params, "partitions")
    return list(params) if is_split else [params]


def is_resource(table: object) -> bool:
    """Whether a table is a resource variable."""
    is_distributed = getattr(table, "is_distributed_variable", False)
    return not is_distributed and getattr(table, "handle", None) is not None and not isinstance(table, Tensor)


def _node_of(table: Any) -> Any:
    return table.handle if is_resource(table) else table


def _stitched(tables: list[Any], ids: Tensor, strategy: str, max_norm: object, name: str) -> Any:
    """Look up each id in its shard, and stitch the rows together in the order of the ids."""
    flat = tf.reshape(ids, [-1])
    places = tf.range(tf.size(flat))
    count = len(tables)
    if strategy == "mod":
        part_of = flat % count
        own_ids = flat // count
    elif strategy == "div":
        part_of, own_ids = _divided(tables, flat)
    else:
        raise ValueError(f"Unrecognized partition strategy: {strategy}.Must be one of either `mod` or `div`.")
    part_of = tf.cast(part_of, "int32")
    ids_of_part = tf.dynamic_partition(own_ids, part_of, count)
    places_of_part = tf.dynamic_partition(places, part_of, count)
    rows = []
    for table, own in zip(tables, ids_of_part, strict=True):
        with colocate_with(_node_of(table)):
            rows.append(tf.gather(table, own))
    result = tf.raw_ops.ParallelDynamicStitch(indices=places_of_part, data=rows, name=name)
    element = tables[0].shape[1:]
    for table in tables[1:]:
        element = element.merge_with(table.shape[1:])
    if element.is_fully_defined():
        element_shape: Any = element
    else:
        with colocate_with(_node_of(tables[0])):
            element_shape = tf.shape(tables[0])[1:]
    result = tf.reshape(result, tf.concat([tf.shape(ids), element_shape], 0))
    result.set_shape(ids.shape.concatenate(element))
    return _clipped(result, ids, max_norm)


def _divided(tables: list[Any], flat: Any) -> tuple[Any, Any]:
    """Shard and row of each id for contiguous shards (strategy `div`)."""
    sizes: list[Any] = [table.shape.as_list()[0] if table.shape.rank else None for table in tables]
    if None not in sizes:
        total = constant(sum(sizes), flat.dtype)
    else:
        known = []
        for table, size in zip(tables, sizes, strict=True):
            if size is not None:
                known.append(size)
            else:
                with colocate_with(_node_of(table)):
                    known.append(tf.shape(table)[0])
        total = tf.reduce_sum(tf.cast(tf.stack(known), flat.dtype))
    rows: Any = total
    count = len(tables)
    each = rows // count
    extras = rows % count
    part_of = tf.maximum(flat // (each + 1), (flat - extras) // each)
    return part_of, tf.where(part_of < extras, flat % (each + 1), (flat - extras) % each)


def _clipped(rows: Tensor, ids: Tensor, max_norm: object) -> Any:
    if max_norm is None:
        return rows
    if ids.shape.rank is not None and rows.shape.rank is not None:
        axes: Any = list(range(ids.shape.rank, rows.shape.rank))
    else:
        axes = tf.range(tf.rank(ids), tf.rank(rows))
    return tf.clip_by_norm(rows, max_norm, axes=axes)
