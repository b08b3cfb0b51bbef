"""Gradients of reductions by segment: each row gets its segment's gradient."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import array, math
from placesim.tf1.generated import gen
from placesim.tf1.gradients.registry import GradientFunction


def _rows_of(values: Any, ids: Any) -> Any:
    return array.gather(values, ids)


def _segment_sum(op: Any, grad: Any) -> list[Any]:
    return [_rows_of(grad, op.inputs[1]), None]


def _segment_mean(op: Any, grad: Any) -> list[Any]:
    data, ids = op.inputs
    rank = array.rank(data)
    ids_shape = array.shape(ids)
    ones_shape = array.concat([ids_shape, array.ones(array.expand_dims(rank - 1, 0), dtype="int32")], 0)
    counts = math.segment_sum(array.ones(ones_shape, dtype=grad.dtype), ids)
    return [_rows_of(grad / counts, ids), None]


def _sparse_segment(grad_op: str, extra: int) -> GradientFunction:
    """Of the SparseSegment ops: one op, which needs the number of rows; `extra` inputs follow the segments."""

    def gradient(op: Any, grad: Any) -> list[Any]:
        rows = array.shape(op.inputs[0])[0]
        return [gen(grad_op)(grad, op.inputs[1], op.inputs[2], rows), None, None, *([None] * extra)]

    return gradient


def _segment_extreme(op: Any, grad: Any) -> list[Any]:
    data, ids = op.inputs
    zeros = array.zeros_like(data, dtype=data.dtype)
    chosen = math.equal(data, _rows_of(op.outputs[0], ids))
    counts = math.segment_sum(math.cast(chosen, grad.dtype), ids)
    shared = math.divide(grad, counts)
    return [array.where_v2(chosen, _rows_of(shared, ids), zeros), None]


def _segment_product(op: Any, grad: Any) -> list[Any]:
    data, ids = op.inputs
    is_zero = math.equal(data, 0)
    zeros = gen("SegmentSum")(math.cast(is_zero, "int32"), ids)
    grad = array.where_v2(math.greater(zeros, 1), array.zeros_like(grad), grad)
    without = array.where_v2(is_zero, array.ones_like(data), data)
    products_without = gen("SegmentProd")(without, ids)
    all_rows = _rows_of(op.outputs[0], ids)
    rows_without = _rows_of(products_without, ids)
    partial = array.where_v2(is_zero, rows_without, all_rows / without)
    return [_rows_of(grad, ids) * partial, None]


def _unsorted_rows(values: Any, ids: Any, ids_or_zero: Any = None, known: Any = None) -> tuple[Any, Any, Any]:
    """The rows of `values` by segment, zeros where a segment is negative; with what tells and what clips them."""
    if ids_or_zero is None:
        ids_or_zero = math.maximum(ids, array.zeros_like(ids))
    rows = array.gather(values, ids_or_zero)
    if known is None:
        known = math.greater_equal(ids, 0)
        ids_shape = array.shape(known)
        missing = array.rank(rows) - array.rank(known)
        known = array.reshape(known, array.concat([ids_shape, array.ones([missing], dtype="int32")], 0))
        known = known & array.ones_like(rows, dtype="bool")
    zeros = array.zeros_like(rows)
    return array.where_v2(known, rows, zeros), ids_or_zero, known


def _unsorted_sum(op: Any, grad: Any) -> list[Any]:
    return [_unsorted_rows(grad, op.inputs[1])[0], None, None]


def _unsorted_extreme(op: Any, grad: Any) -> list[Any]:
    data, ids, count = op.inputs
    rows, ids_or_zero, known = _unsorted_rows(op.outputs[0], ids)
    chosen = math.logical_and(math.equal(data, rows), known)
    counts = math.unsorted_segment_sum(math.cast(chosen, grad.dtype), ids, count)
    shared = math.divide(grad, counts)
    grads, _, _ = _unsorted_rows(shared, None, ids_or_zero, known)
    zeros = array.zeros_like(grads)
    return [array.where_v2(chosen, grads, zeros), None, None]


def _unsorted_product(op: Any, grad: Any) -> list[Any]:
    data, ids, count = op.inputs
    is_zero = math.equal(data, 0)
    zeros = gen("UnsortedSegmentSum")(math.cast(is_zero, "int32"), ids, count)
    grad = array.where_v2(math.greater(zeros, 1), array.zeros_like(grad), grad)
    without = array.where_v2(is_zero, array.ones_like(data), data)
    products_without = gen("UnsortedSegmentProd")(without, ids, count)
    ids_or_zero = math.maximum(ids, array.zeros_like(ids))
    all_rows = _rows_of(op.outputs[0], ids_or_zero)
    rows_without = _rows_of(products_without, ids_or_zero)
    partial = array.where_v2(is_zero, rows_without, all_rows / data)
    return [_unsorted_rows(grad, ids, ids_or_zero)[0] * partial, None, None]


GRADIENTS: dict[str, GradientFunction] = {
    "SegmentMax": _segment_extreme,
    "SegmentMean": _segment_mean,
    "SegmentMin": _segment_extreme,
    "SegmentProd": _segment_product,
    "SegmentSum": _segment_sum,
    "SparseSegmentMean": _sparse_segment("SparseSegmentMeanGrad", 0),
    "SparseSegmentMeanWithNumSegments": _sparse_segment("SparseSegmentMeanGrad", 1),
    "SparseSegmentSqrtN": _sparse_segment("SparseSegmentSqrtNGrad", 0),
    "SparseSegmentSqrtNWithNumSegments": _sparse_segment("SparseSegmentSqrtNGrad", 1),
    "SparseSegmentSum": _sparse_segment("SparseSegmentSumGrad", 0),
    "SparseSegmentSumWithNumSegments": _sparse_segment("SparseSegmentSumGrad", 1),
    "UnsortedSegmentMax": _unsorted_extreme,
    "UnsortedSegmentMin": _unsorted_extreme,
    "UnsortedSegmentProd": _unsorted_product,
    "UnsortedSegmentSum": _unsorted_sum,
}
