"""Gradients of reductions by segment: each row gets its segment's gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


def _segment_mean(op: Operation, grad: Tensor) -> list[Any]:
    data, ids = op.inputs
    rank = tf.rank(data)
    ids_shape = tf.shape(ids)
    ones_shape = tf.concat([ids_shape, tf.ones(tf.expand_dims(rank - 1, 0), dtype="int32")], 0)
    counts = tf.segment_sum(tf.ones(ones_shape, dtype=grad.dtype), ids)
    return [tf.gather(grad / counts, ids), None]


def _sparse_segment(grad_op: str, extra: int, op: Operation, grad: Tensor) -> list[Any]:
    """Gradient of a SparseSegment op, which has `extra` inputs after the segment ids.

    It makes one op, which also needs the number of rows.
    """
    shape = tf.shape(op.inputs[0])
    parts = grad, op.inputs[1], op.inputs[2], shape[0]
    if op.get_attr("sparse_gradient"):
        values, indices = gen(grad_op + "V2")(*parts)
        found: Any = IndexedSlices(values, indices, shape)
    else:
        found = gen(grad_op)(*parts)
    return [found, None, None, *([None] * extra)]


def _segment_extreme(op: Operation, grad: Tensor) -> list[Any]:
    data, ids = op.inputs
    zeros = tf.zeros_like(data, dtype=data.dtype)
    chosen = tf.equal(data, tf.gather(op.outputs[0], ids))
    counts = tf.segment_sum(tf.cast(chosen, grad.dtype), ids)
    shared = tf.divide(grad, counts)
    return [tf.where_v2(chosen, tf.gather(shared, ids), zeros), None]


def _without_zeros(family: str, data: Tensor, grad: Tensor, *segments: object) -> tuple[Any, Any, Any, Any]:
    """Mask of zeros in the data, the data with zeros replaced by ones, the gradient, and the products of the changed data.

    The gradient becomes zero for a segment with several zeros, since the product of all other elements is zero there.
    """
    is_zero = tf.equal(data, 0)
    how_many = gen(family + "Sum")(tf.cast(is_zero, "int32"), *segments)
    grad = tf.where_v2(tf.greater(how_many, 1), tf.zeros_like(grad), grad)
    filled = tf.where_v2(is_zero, tf.ones_like(data), data)
    return is_zero, filled, grad, gen(family + "Prod")(filled, *segments)


def _segment_product(op: Operation, grad: Tensor) -> list[Any]:
    data, ids = op.inputs
    is_zero, without, grad, products_without = _without_zeros("Segment", data, grad, ids)
    all_rows = tf.gather(op.outputs[0], ids)
    rows_without = tf.gather(products_without, ids)
    partial = tf.where_v2(is_zero, rows_without, all_rows / without)
    return [tf.gather(grad, ids) * partial, None]


def _unsorted_rows(
    values: Tensor, ids: Tensor | None, ids_or_zero: object = None, known: object = None
) -> tuple[Any, Any, Any]:
    """Row of `values` for each id (zeros for a negative id), the ids with 0 for negative ones, and the mask of the others."""
    if ids_or_zero is None:
        ids_or_zero = tf.maximum(ids, tf.zeros_like(ids))
    # a Gather refuses a negative id, so it reads row 0, which is masked below
    rows = tf.gather(values, ids_or_zero)
    if known is None:
        known = tf.greater_equal(ids, 0)
        ids_shape = tf.shape(known)
        missing = tf.rank(rows) - tf.rank(known)
        known = tf.reshape(known, tf.concat([ids_shape, tf.ones([missing], dtype="int32")], 0))
        known = known & tf.ones_like(rows, dtype="bool")
    return tf.where_v2(known, rows, tf.zeros_like(rows)), ids_or_zero, known


def _unsorted_sum(op: Operation, grad: Tensor) -> list[Any]:
    return [_unsorted_rows(grad, op.inputs[1])[0], None, None]


def _unsorted_extreme(op: Operation, grad: Tensor) -> list[Any]:
    data, ids, count = op.inputs
    rows, ids_or_zero, known = _unsorted_rows(op.outputs[0], ids)
    chosen = tf.logical_and(tf.equal(data, rows), known)
    counts = tf.unsorted_segment_sum(tf.cast(chosen, grad.dtype), ids, count)
    shared = tf.divide(grad, counts)
    grads, _, _ = _unsorted_rows(shared, None, ids_or_zero, known)
    return [tf.where_v2(chosen, grads, tf.zeros_like(grads)), None, None]


def _unsorted_product(op: Operation, grad: Tensor) -> list[Any]:
    data, ids, count = op.inputs
    is_zero, _, grad, products_without = _without_zeros("UnsortedSegment", data, grad, ids, count)
    ids_or_zero = tf.maximum(ids, tf.zeros_like(ids))
    all_rows = tf.gather(op.outputs[0], ids_or_zero)
    rows_without = tf.gather(products_without, ids_or_zero)
    partial = tf.where_v2(is_zero, rows_without, all_rows / data)
    return [_unsorted_rows(grad, ids, ids_or_zero)[0] * partial, None, None]


GRADIENTS: dict[str, GradientFunction] = {
    "SegmentMax": _segment_extreme,
    "SegmentMean": _segment_mean,
    "SegmentMin": _segment_extreme,
    "SegmentProd": _segment_product,
    "SegmentSum": lambda op, grad: [tf.gather(grad, op.inputs[1]), None],
    "SparseSegmentMean": partial(_sparse_segment, "SparseSegmentMeanGrad", 0),
    "SparseSegmentMeanWithNumSegments": partial(_sparse_segment, "SparseSegmentMeanGrad", 1),
    "SparseSegmentSqrtN": partial(_sparse_segment, "SparseSegmentSqrtNGrad", 0),
    "SparseSegmentSqrtNWithNumSegments": partial(_sparse_segment, "SparseSegmentSqrtNGrad", 1),
    "SparseSegmentSum": partial(_sparse_segment, "SparseSegmentSumGrad", 0),
    "SparseSegmentSumWithNumSegments": partial(_sparse_segment, "SparseSegmentSumGrad", 1),
    "UnsortedSegmentMax": _unsorted_extreme,
    "UnsortedSegmentMin": _unsorted_extreme,
    "UnsortedSegmentProd": _unsorted_product,
    "UnsortedSegmentSum": _unsorted_sum,
}
