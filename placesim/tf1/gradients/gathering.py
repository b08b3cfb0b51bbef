"""Gradients of gathers: the rows that were read, as IndexedSlices where whole rows of a table were."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import array, math
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.gradients.slices import dense
from placesim.tf1.scopes import colocate_with
from placesim.tf1.sparse_values import IndexedSlices
from placesim.tf1.constant_values import constant_value


def _rows(grad: Any, indices: Any, table_shape: Any) -> IndexedSlices:
    """The gradient of a table whose rows `indices` were read."""
    count = array.expand_dims(array.size(indices), 0)
    values_shape = array.concat([count, table_shape[1:]], 0)
    values = array.reshape(dense(grad), values_shape)
    return IndexedSlices(values, array.reshape(indices, count), table_shape)


def _gather(op: Any, grad: Any) -> list[Any]:
    table, indices = op.inputs
    with colocate_with(table):
        table_shape = array.shape(table)
    return [_rows(grad, indices, table_shape), None]


def _gather_along_axis(op: Any, grad: Any) -> list[Any]:
    table, indices, axis = op.inputs
    with colocate_with(table):
        table_shape = array.shape(table)
    batch_dims = int(op.get_attr("batch_dims"))
    known_axis = constant_value(axis)
    if batch_dims < 0:
        batch_dims += indices.shape.rank
    if known_axis is not None and known_axis == 0:
        return [_rows(grad, indices, table_shape), None, None]
    array.expand_dims(array.size(indices), 0)
    outer_shape = table_shape[:axis]
    inner_shape = table_shape[axis:][1:]
    values_shape = array.concat([outer_shape, [-1], inner_shape], 0)
    values_rank, axis_rank = array.size(values_shape), array.size(outer_shape)
    # The axis is brought to the front of what is not a batch, summed there, and brought back.
    outer_batches = math.range(batch_dims)
    batch_axes = math.range(batch_dims, axis_rank)
    inner_axes = math.range(axis_rank + 1, values_rank)
    values = array.reshape(dense(grad), values_shape)
    to_front = array.concat([outer_batches, [axis_rank], batch_axes, inner_axes], 0)
    values = array.transpose(values, to_front)
    front_shape = array.gather(table_shape, to_front)
    summed = _sum_rows(front_shape, values, indices, batch_dims, table_shape[axis])
    back = array.concat([outer_batches, batch_axes + 1, [batch_dims], inner_axes], 0)
    table_grad = array.transpose(summed, back)
    return [array.reshape(table_grad, array.shape(table)), None, None]


def _sum_rows(table_shape: Any, values: Any, indices: Any, batch_dims: int, rows: Any) -> Any:
    """The values summed by the row that they were read from, for each batch on its own."""
    count = array.expand_dims(array.size(indices), 0)
    if batch_dims:
        values_shape = array.shape(values)
        outer_shape = values_shape[:batch_dims]
        inner_shape = values_shape[batch_dims:][1:]
        batches = math.reduce_prod(outer_shape, [0])
        flat_shape = array.concat([[-1], inner_shape], 0)
        rows = rows * batches
        indices = _batch_indices(table_shape, indices, batch_dims)
        values = array.reshape(values, flat_shape)
    indices = array.reshape(indices, count)
    summed = math.unsorted_segment_sum(values, indices, rows)
    if batch_dims:
        summed = array.reshape(summed, array.concat([outer_shape, flat_shape], 0))
    return summed


def _batch_indices(table_shape: Any, indices: Any, batch_dims: int) -> Any:
    """The indices into the table whose batches are laid one after another."""
    dtype = indices.dtype.base_dtype
    sizes = math.cast(table_shape, dtype)
    stride = array.ones((), dtype=dtype)
    for dim in range(batch_dims, 0, -1):
        size = sizes[dim - 1]
        stride *= sizes[dim]
        steps = math.range(array.zeros((), dtype=dtype), size, array.ones((), dtype=dtype)) * stride
        before = array.tile([1], [dim - 1])
        steps_shape = array.concat([before, [size], array.tile([1], [array.rank(indices) - dim])], 0)
        indices += array.reshape(steps, steps_shape)
    return indices


def _gather_nd(op: Any, grad: Any) -> list[Any]:
    table, indices = op.inputs
    return [_scattered(grad, indices, array.shape(table, out_type=indices.dtype)), None]


def _scattered(grad: Any, indices: Any, table_shape: Any) -> Any:
    sizes = None if indices.shape.rank is None else indices.shape.as_list()
    if sizes is not None and len(sizes) == 2 and sizes[-1] == 1:
        return IndexedSlices(grad, array.squeeze(indices, axis=-1), table_shape)
    return array.scatter_nd(indices, grad, table_shape)


def _resource_gather(op: Any, grad: Any) -> list[Any]:
    handle, indices = op.inputs
    return [_rows(grad, indices, variable_shape(handle)), None]


def _resource_gather_nd(op: Any, grad: Any) -> list[Any]:
    handle, indices = op.inputs
    return [_scattered(grad, indices, variable_shape(handle, indices.dtype)), None]


GRADIENTS: dict[str, GradientFunction] = {
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "GatherV2": _gather_along_axis,
    "ResourceGather": _resource_gather,
    "ResourceGatherNd": _resource_gather_nd,
}
