"""Gradients of gather ops: IndexedSlices if whole rows of a table were read."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.gradients.rules.variables import variable_shape
from placesim.tf1.gradients.slices import dense
from placesim.tf1.graphs.default_graph_scopes import colocate_with
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


def _rows(grad: Tensor, indices: Tensor, table_shape: Tensor, is_resource: bool = False) -> IndexedSlices:
    """Gradient of a table read at `indices`.  The gradient of a resource becomes dense inside `tf.reshape`'s scope."""
    count = tf.expand_dims(tf.size(indices), 0)
    values_shape = tf.concat([count, table_shape[1:]], 0)
    values = tf.reshape(grad if is_resource else dense(grad), values_shape)
    return IndexedSlices(values, tf.reshape(indices, count), table_shape)


def _gather(op: Operation, grad: Tensor) -> list[Any]:
    table, indices = op.inputs
    # the shape of a table on a parameter server is read there, without moving the table
    with colocate_with(table):
        table_shape = tf.shape(table)
    return [_rows(grad, indices, table_shape), None]


def _gather_along_axis(op: Any, grad: Tensor) -> list[Any]:
    table, indices, axis = op.inputs
    with colocate_with(table):
        table_shape = tf.shape(table)
    batch_dims = int(op.get_attr("batch_dims"))
    known_axis = constant_value(axis)
    if batch_dims < 0:
        batch_dims += indices.shape.rank
    # only whole rows can be slices
    if known_axis is not None and known_axis == 0:
        return [_rows(grad, indices, table_shape), None, None]
    tf.expand_dims(tf.size(indices), 0)  # TensorFlow makes these nodes, and reads them nowhere
    outer_shape = table_shape[:axis]
    inner_shape = table_shape[axis:][1:]
    values_shape = tf.concat([outer_shape, [-1], inner_shape], 0)
    values_rank, axis_rank = tf.size(values_shape), tf.size(outer_shape)
    # Transpose the axis to the front of the non-batch dimensions, sum there, and transpose back.
    outer_batches = tf.range(batch_dims)
    batch_axes = tf.range(batch_dims, axis_rank)
    inner_axes = tf.range(axis_rank + 1, values_rank)
    values = tf.reshape(dense(grad), values_shape)
    to_front = tf.concat([outer_batches, [axis_rank], batch_axes, inner_axes], 0)
    values = tf.transpose(values, to_front)
    front_shape = tf.gather(table_shape, to_front)
    summed = _sum_rows(front_shape, values, indices, batch_dims, table_shape[axis])
    back = tf.concat([outer_batches, batch_axes + 1, [batch_dims], inner_axes], 0)
    return [tf.reshape(tf.transpose(summed, back), tf.shape(table)), None, None]


def _sum_rows(table_shape: object, values: Tensor, indices: Tensor, batch_dims: int, rows: object) -> Any:
    """Sums of the values that were read from the same row, in each batch."""
    count = tf.expand_dims(tf.size(indices), 0)
    if batch_dims:
        values_shape = tf.shape(values)
        outer_shape = values_shape[:batch_dims]
        inner_shape = values_shape[batch_dims:][1:]
        batches = tf.reduce_prod(outer_shape, [0])
        flat_shape = tf.concat([[-1], inner_shape], 0)
        rows = rows * batches
        indices = _batch_indices(table_shape, indices, batch_dims)
        values = tf.reshape(values, flat_shape)
    indices = tf.reshape(indices, count)
    summed = tf.unsorted_segment_sum(values, indices, rows)
    if batch_dims:
        summed = tf.reshape(summed, tf.concat([outer_shape, flat_shape], 0))
    return summed


def _batch_indices(table_shape: object, indices: Tensor, batch_dims: int) -> Any:
    """Change indices into the rows of each batch to indices into the rows of all batches, one batch after another."""
    dtype = indices.dtype.base_dtype
    sizes = tf.cast(table_shape, dtype)
    stride = tf.ones((), dtype=dtype)
    for dim in range(batch_dims, 0, -1):
        size = sizes[dim - 1]
        stride *= sizes[dim]
        steps = tf.range(tf.zeros((), dtype=dtype), size, tf.ones((), dtype=dtype)) * stride
        before = tf.tile([1], [dim - 1])
        steps_shape = tf.concat([before, [size], tf.tile([1], [tf.rank(indices) - dim])], 0)
        indices += tf.reshape(steps, steps_shape)
    return indices


def _gather_nd(op: Operation, grad: Tensor) -> list[Any]:
    table, indices = op.inputs
    return [_scattered(grad, indices, tf.shape(table, out_type=indices.dtype)), None]


def _scattered(grad: Tensor, indices: Tensor, table_shape: Tensor) -> Any:
    sizes = None if indices.shape.rank is None else indices.shape.as_list()
    if sizes is not None and len(sizes) == 2 and sizes[-1] == 1:
        return IndexedSlices(grad, tf.squeeze(indices, axis=-1), table_shape)
    return tf.scatter_nd(indices, grad, table_shape)


def _resource_gather(op: Operation, grad: Tensor) -> list[Any]:
    handle, indices = op.inputs
    return [_rows(grad, indices, variable_shape(handle), is_resource=True), None]


def _resource_gather_nd(op: Operation, grad: Tensor) -> list[Any]:
    handle, indices = op.inputs
    return [_scattered(grad, indices, variable_shape(handle, indices.dtype)), None]


GRADIENTS: dict[str, GradientFunction] = {
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "GatherV2": _gather_along_axis,
    "ResourceGather": _resource_gather,
    "ResourceGatherNd": _resource_gather_nd,
}
