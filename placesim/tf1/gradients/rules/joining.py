"""Gradients of ops that join tensors or take them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.control_flow.contexts import output_context
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")

_SLICES_UP_TO = 16
"""Joined tensors that are cut out one by one; more are split at once."""


def _shapes(tensors: Sequence[Any]) -> list[Any]:
    """The shapes: constants if all of them are, else from one op."""
    shapes = []
    for tensor in tensors:
        shape = tf.shape(tensor)
        if shape.op.type != "Const":
            return list(tf.shape_n(tensors))
        shapes.append(shape)
    return shapes


def _axis_here(grad: Tensor, axis: Tensor) -> Any:
    """The axis; a constant of another loop or branch than the gradient is made again, so that it needn't be led there."""
    if axis.op.type != "Const" or output_context(axis.op) is output_context(grad.op):
        return axis
    return constant(constant_value(axis), dtype=axis.dtype)


def _concat_parts(grad: Tensor, axis: Tensor, values: Sequence[Any]) -> list[Any]:
    if len(values) == 1:
        return [grad]
    if isinstance(grad, IndexedSlices):
        return _concat_slices(grad, axis, values)
    axis = _axis_here(grad, axis)
    positive = axis % tf.rank(values[0])
    shapes = _shapes(values)
    if len(shapes) > _SLICES_UP_TO:
        sizes = tf.squeeze(tf.slice(tf.stack(shapes, axis=1), [positive, 0], [1, -1]))
        return list(tf.split(grad, sizes, positive))
    offsets = gen("ConcatOffset")(positive, shapes)
    return [tf.slice(grad, begin, size) for begin, size in zip(offsets, shapes, strict=True)]


def _concat_slices(grad: IndexedSlices, axis: Tensor, values: Sequence[Any]) -> list[Any]:
    """Gradient of a concat whose result was gathered from."""
    positive = axis % tf.rank(values[0])
    known = constant_value(axis)
    if known is None:
        raise ValueError("Can only compute IndexedSlices gradient with statically-known concat_dim")
    if known < 0:
        rank = constant_value(tf.rank(values[0]))
        if rank is None:
            raise ValueError(
                "Can only compute IndexedSlices gradient with negative concat_dim when first value rank is statically-known."
            )
        known %= rank
    shapes = [tf.shape(value) for value in values]
    if known > 0:
        return _concat_columns(grad, positive, shapes)
    start = constant(0, dtype=grad.indices.dtype)
    parts = []
    for shape in shapes:
        size = tf.gather(shape, positive)
        if size.dtype != grad.indices.dtype:
            size = tf.cast(size, dtype=grad.indices.dtype)
        end = start + size
        given: Any = grad.indices
        inside = tf.squeeze(tf.where(tf.logical_and(given >= start, given < end)), axis=[1])
        indices = tf.gather(given, inside) - start
        parts.append(IndexedSlices(tf.gather(grad.values, inside), indices, shape))
        start = end
    return parts


def _concat_columns(grad: IndexedSlices, axis: Tensor, shapes: Sequence[Any]) -> list[Any]:
    """Every tensor has all of the rows, and of each row its columns."""
    rank = tf.shape(shapes[0])
    before = tf.zeros(tf.expand_dims(axis, 0), dtype="int32")
    after = tf.zeros(rank - axis - 1, dtype="int32")
    mask = tf.concat([before, [1], after], 0)
    begin = tf.zeros(rank, dtype="int32")
    parts = []
    for shape in shapes:
        rows = tf.slice(grad.values, begin, tf.concat([[-1], tf.slice(shape, [1], [-1])], 0))
        parts.append(IndexedSlices(rows, grad.indices, shape))
        begin = tf.add(begin, shape * mask)
    return parts


def _concat(op: Operation, grad: Tensor) -> list[Any]:
    return [None, *_concat_parts(grad, op.inputs[0], op.inputs[1:])]


def _concat_axis_last(op: Operation, grad: Tensor) -> list[Any]:
    return [*_concat_parts(grad, op.inputs[-1], op.inputs[:-1]), None]


def _pack(op: Operation, grad: Tensor) -> list[Any]:
    return list(tf.unstack(grad, num=op.get_attr("N"), axis=op.get_attr("axis")))


def _unpack(op: Operation, *grads: object) -> Any:
    return tf.stack(grads, axis=op.get_attr("axis"))


def _split(op: Operation, *grads: object) -> list[Any]:
    return [None, tf.concat(list(grads), op.inputs[0])]


def _split_by_sizes(op: Operation, *grads: object) -> list[Any]:
    return [tf.concat(list(grads), op.inputs[2]), None, None]


def _dynamic_partition(op: Operation, *grads: object) -> list[Any]:
    data, partitions = op.inputs
    shape = tf.shape(partitions)
    places = tf.reshape(tf.range(tf.reduce_prod(shape)), shape)
    partitioned = gen("DynamicPartition")(places, partitions, op.get_attr("num_partitions"))
    stitched = gen("ParallelDynamicStitch")(partitioned, list(grads))
    return [tf.reshape(stitched, tf.shape(data)), None]


def _dynamic_stitch(op: Operation, grad: Tensor) -> list[Any]:
    count = len(op.inputs) // 2
    indices = [tf.cast(index, "int32") for index in op.inputs[:count]]
    if isinstance(grad, IndexedSlices):
        rows = tf.shape(op.outputs[0])[0]
        grad = tf.unsorted_segment_sum(grad.values, grad.indices, rows)
    return [*([None] * count), *(tf.gather(grad, index) for index in indices)]


GRADIENTS: dict[str, GradientFunction] = {
    "Concat": _concat,
    "ConcatV2": _concat_axis_last,
    "DynamicPartition": _dynamic_partition,
    "DynamicStitch": _dynamic_stitch,
    "Pack": _pack,
    "ParallelDynamicStitch": _dynamic_stitch,
    "Split": _split,
    "SplitV": _split_by_sizes,
    "Unpack": _unpack,
}
