"""Gradients of ops that join or split tensors."""

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
"""Up to this number of joined tensors, each gradient is made by a Slice; for more tensors, one SplitV makes all."""


def _shapes(tensors: Sequence[Any]) -> list[Any]:
    """Shapes of tensors: constants if all are static, else outputs of one ShapeN."""
    shapes = []
    for tensor in tensors:
        shape = tf.shape(tensor)
        if shape.op.type != "Const":
            return list(tf.shape_n(tensors))
        shapes.append(shape)
    return shapes


def _axis_here(grad: Tensor, axis: Tensor) -> Any:
    """The axis. If it is a constant in another loop or branch than the gradient, a copy of it."""
    if axis.op.type != "Const" or output_context(axis.op) is output_context(grad.op):
        return axis
    return constant(constant_value(axis), dtype=axis.dtype)


def _concat_parts(grad: Tensor, axis: Tensor, values: Sequence[Any]) -> list[Any]:
    # TensorFlow makes no nodes for a degenerate concat
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
    """Parts of a gradient that is IndexedSlices of the joined tensor."""
    positive = axis % tf.rank(values[0])
    known = constant_value(axis)
    if known is None:
        raise ValueError("Can only compute IndexedSlices gradient with statically-known concat_dim")
    # the numbers of the slices' rows need the axis from the front
    if known < 0:
        rank = constant_value(tf.rank(values[0]))
        if rank is None:
            raise ValueError(
                "Can only compute IndexedSlices gradient with negative concat_dim when first value rank is statically-known."
            )
        known = known % rank  # not in place: this is the array of a Const
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
    """Parts of a gradient along an axis other than 0: each part has all indices, and a slice of the values."""
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
    "Concat": lambda op, grad: [None, *_concat_parts(grad, op.inputs[0], op.inputs[1:])],
    "ConcatV2": lambda op, grad: [*_concat_parts(grad, op.inputs[-1], op.inputs[:-1]), None],
    "DynamicPartition": _dynamic_partition,
    "DynamicStitch": _dynamic_stitch,
    "Pack": lambda op, grad: list(tf.unstack(grad, num=op.get_attr("N"), axis=op.get_attr("axis"))),
    "ParallelDynamicStitch": _dynamic_stitch,
    "Split": lambda op, *grads: [None, tf.concat(list(grads), op.inputs[0])],
    "SplitV": lambda op, *grads: [tf.concat(list(grads), op.inputs[2]), None, None],
    "Unpack": lambda op, *grads: tf.stack(grads, axis=op.get_attr("axis")),
}
