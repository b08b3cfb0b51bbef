"""Sums, means and square-root means of selected rows, segment by segment, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import CostModel, SliceAccess
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, as_many_as, elements_of_rows
from placesim.ops.kernels.memory_rules import allocates
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    ShapeFunction,
    check_scalars,
    concatenate,
    format_dims,
    merge,
    subshape,
    with_rank,
    with_rank_at_least,
)
from placesim.ops.process.memory_limit import check_array

_Divisor = Callable[[Tensor], Tensor] | None
"""A function of the number of rows in each segment, whose result divides the segment's sum; None leaves the sum."""


def _count(counts: Tensor) -> Tensor:
    return counts


# --- shape functions ------------------------------------------------------------------------------------------------


def _check_shapes(context: ShapeContext) -> Dims:
    """Check the inputs' shapes, and return the shape of a row of the data."""
    data = with_rank_at_least(context.shapes[0], 1)
    indices, segment_ids = with_rank(context.shapes[1], 1), with_rank(context.shapes[2], 1)
    check_scalars(context, 3)
    merge(indices, segment_ids)
    return subshape(data, 1)


def _check_gradient_shapes(context: ShapeContext) -> Dims:
    """As `_check_shapes`, for a gradient, but the vectors are compared before the scalar is checked."""
    data = with_rank_at_least(context.shapes[0], 1)
    merge(context.shapes[2], with_rank(context.shapes[1], 1))
    with_rank(context.shapes[3], 0)
    return subshape(data, 1)


def _infer_segments(context: ShapeContext) -> Sequence[Dims]:
    return (concatenate((-1,), _check_shapes(context)),)


def _build_infer_counted(noun: str, check: Callable[[ShapeContext], Dims]) -> ShapeFunction:
    """Return a shape function for an output whose number of rows is input 3."""

    def infer_counted(context: ShapeContext) -> Sequence[Dims]:
        row = check(context)
        count = context.scalar_value(3)
        if count is not None and count < 0:
            raise ShapeError(f"Cannot specify a negative value for {noun}")
        return (concatenate((-1 if count is None else count,), row),)

    return infer_counted


def _infer_sparse_gradient(context: ShapeContext) -> Sequence[Dims]:
    return concatenate((-1,), _check_gradient_shapes(context)), (-1,)


# --- kernels --------------------------------------------------------------------------------------------------------


def _build_reduce(divisor: _Divisor) -> Callable[[Sequence[Tensor], Attrs], Sequence[Tensor]]:
    """Return the kernel `output[s] = sum of data[indices[i]] for i with segment_ids[i] == s`, perhaps divided; 0 for no rows.

    Data are `[rows, ...]`, indices and ids `[chosen]`, the output `[segments, ...]`; input 3 may be the number of segments.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        data, indices, segment_ids = inputs[:3]
        rows = _count_rows(inputs)
        # half precision is summed in float and rounded once
        dtype = wide_dtype(data.dtype)
        check_array((rows, *data.shape[1:]), data.dtype)
        output = np.zeros((rows, *data.shape[1:]), dtype)
        if len(indices):
            starts = np.concatenate(([0], np.flatnonzero(np.diff(segment_ids)) + 1))
            _check_segments(data, indices, segment_ids, starts, rows)
            sums = np.add.reduceat(data[indices].astype(dtype, copy=False), starts, axis=0, dtype=dtype)
            if divisor:
                counts = np.diff(np.append(starts, len(indices)))
                sums /= divisor(counts).astype(dtype).reshape(-1, *[1] * (data.ndim - 1))
            output[segment_ids[starts]] = sums
        return (output.astype(data.dtype, copy=False),)

    return compute


def _count_rows(inputs: Sequence[Tensor]) -> int:
    """Return the number of output rows: `num_segments`, or enough for the last id."""
    data, indices, segment_ids, *counts = inputs
    rows = 0
    for count in counts:
        if count.ndim != 0:
            raise InvalidArgumentError(f"num_segments should be a scalar, not shape {format_dims(count.shape)}")
        rows = int(count)
        if rows < 0:
            raise InvalidArgumentError("segment ids must be >= 0")
    _check_vectors(indices, segment_ids)
    _check_lengths(indices, segment_ids)
    if data.ndim < 1:
        raise InvalidArgumentError("Shape must be at least rank 1")
    # ids are assumed to be sorted
    needed = int(segment_ids[-1]) + 1 if len(segment_ids) else 0
    if counts:
        if rows < needed:
            raise InvalidArgumentError("segment ids must be < num_segments")
    else:
        rows = needed
    if rows <= 0 and (rows != 0 or len(indices)):
        raise InvalidArgumentError("segment ids must be >= 0")
    return rows


def _check_vectors(indices: Tensor, segment_ids: Tensor) -> None:
    if indices.ndim != 1:
        raise InvalidArgumentError("indices should be a vector.")
    if segment_ids.ndim != 1:
        raise InvalidArgumentError("segment_ids should be a vector.")


def _check_lengths(indices: Tensor, segment_ids: Tensor) -> None:
    if len(indices) != len(segment_ids):
        raise InvalidArgumentError("segment_ids and indices should have same size.")


def _check_segments(data: Tensor, indices: Tensor, segment_ids: Tensor, starts: Tensor, rows: int) -> None:
    """Raise InvalidArgumentError for the first wrong segment, checked in this order: a lower next id, its id, its indices."""
    ids = segment_ids[starts]
    decreasing = np.append(np.diff(ids) < 0, False)
    outside = (ids < 0) | (ids >= rows)
    bad_index = (indices < 0) | (indices >= len(data))
    wrong = decreasing | outside | np.logical_or.reduceat(bad_index, starts)
    if not wrong.any():
        return
    segment = int(np.argmax(wrong))
    if decreasing[segment]:
        raise InvalidArgumentError("segment ids are not increasing")
    if outside[segment]:
        raise InvalidArgumentError(
            f"Segment id {ids[segment]} out of range [0, {rows}), possibly because 'segment_ids' input is not sorted."
        )
    position = int(starts[segment] + np.argmax(bad_index[starts[segment] :]))
    raise InvalidArgumentError(f"Bad: indices[{position}] == {indices[position]} out of range [0, {len(data)})")


def _build_dense_gradient(divisor: _Divisor) -> Callable[[Sequence[Tensor], Attrs], Sequence[Tensor]]:
    """Return the kernel `output[indices[i]] += gradient[segment_ids[i]]`, perhaps divided, with `output_dim0` rows."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        gradient, indices, segment_ids, _ = inputs
        rows = _count_gradient_rows(inputs, "output_dim0")
        if rows:
            _check_last_segment(gradient, segment_ids)
            # for a mean, all segments are counted, and so checked, before indices
            if divisor:
                _check_entries((("Segment id", segment_ids, len(gradient)),))
            _check_entries((("Index", indices, rows), ("Segment id", segment_ids, len(gradient))))
        return (_scatter_gradient(gradient, indices, segment_ids, rows, divisor),)

    return compute


def _build_sparse_gradient(divisor: _Divisor) -> Callable[[Sequence[Tensor], Attrs], Sequence[Tensor]]:
    """As `_build_dense_gradient`, but the kernel returns the rows that have a gradient, and their sorted indices."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        gradient, indices, segment_ids, _ = inputs
        rows = _count_gradient_rows(inputs, "dense_output_dim0")
        if not rows:
            return gradient[:0], indices[:0]
        _check_last_segment(gradient, segment_ids)
        _check_entries((("Index", indices, rows), ("Segment id", segment_ids, len(gradient))))
        unique, inverse = np.unique(indices, return_inverse=True)
        return _scatter_gradient(gradient, inverse.reshape(-1), segment_ids, len(unique), divisor), unique

    return compute


def _scatter_gradient(gradient: Tensor, indices: Tensor, segment_ids: Tensor, rows: int, divisor: _Divisor) -> Tensor:
    dtype = wide_dtype(gradient.dtype)
    check_array((rows, *gradient.shape[1:]), gradient.dtype)
    output = np.zeros((rows, *gradient.shape[1:]), dtype)
    if rows and len(indices):
        scaled = gradient.astype(dtype, copy=False)
        if divisor:
            # a segment without rows divides by 1
            counts = np.maximum(np.bincount(segment_ids, minlength=len(gradient)), 1)
            scaled = scaled / divisor(counts).astype(dtype).reshape(-1, *[1] * (gradient.ndim - 1))
        np.add.at(output, indices, scaled[segment_ids])
    return output.astype(gradient.dtype, copy=False)


def _count_gradient_rows(inputs: Sequence[Tensor], noun: str) -> int:
    """Return the number of rows of the reduced input."""
    gradient, indices, segment_ids, dim0 = inputs
    _check_vectors(indices, segment_ids)
    if dim0.ndim != 0:
        raise InvalidArgumentError(f"{noun} should be a scalar.")
    _check_lengths(indices, segment_ids)
    if gradient.ndim == 0:
        # TensorFlow's message for a missing dimension
        raise InvalidArgumentError("Index must be less than 0, got 0")
    rows = int(dim0)
    if rows < 0:
        raise InvalidArgumentError(f"Expected a non-negative size, got {rows}")
    return rows


def _check_last_segment(gradient: Tensor, segment_ids: Tensor) -> None:
    if len(segment_ids) and int(segment_ids[-1]) >= len(gradient):
        raise InvalidArgumentError("Invalid number of segments")


def _check_entries(limits: Sequence[tuple[str, Tensor, int]]) -> None:
    """Raise InvalidArgumentError for the first position at which a vector's entry is not below its limit."""
    outside = np.array([(vector < 0) | (vector >= limit) for _, vector, limit in limits])
    if outside.any():
        position = int(np.argmax(outside.any(axis=0)))
        noun, vector, limit = limits[int(np.argmax(outside[:, position]))]
        raise InvalidArgumentError(f"{noun} {vector[position]} out of range [0, {limit}).")


_READS_ROWS = CostModel("gather", access=SliceAccess(elements_of_rows))


def _build_reduction(divisor: _Divisor) -> Kernel:
    return Kernel(_build_reduce(divisor), _infer_segments, elements_of_rows, cost=_READS_ROWS, guess=as_many_as(2))


def _build_counted_reduction(divisor: _Divisor) -> Kernel:
    infer = _build_infer_counted("num_segments", _check_shapes)
    return Kernel(_build_reduce(divisor), infer, elements_of_rows, cost=_READS_ROWS)


def _build_gradient(divisor: _Divisor) -> Kernel:
    infer = _build_infer_counted("output_dim0", _check_gradient_shapes)
    return Kernel(_build_dense_gradient(divisor), infer, elements_of_rows)


def _build_gradient_v2(divisor: _Divisor) -> Kernel:
    return Kernel(
        _build_sparse_gradient(divisor),
        _infer_sparse_gradient,
        elements_of_rows,
        memory=allocates(1, 0),
        guess=as_many_as(1),
    )


TABLE: Table = {
    "SparseSegmentSum": _build_reduction(None),
    "SparseSegmentSumWithNumSegments": _build_counted_reduction(None),
    "SparseSegmentSumGrad": _build_gradient(None),
    "SparseSegmentSumGradV2": _build_gradient_v2(None),
    "SparseSegmentMean": _build_reduction(_count),
    "SparseSegmentMeanWithNumSegments": _build_counted_reduction(_count),
    "SparseSegmentMeanGrad": _build_gradient(_count),
    "SparseSegmentMeanGradV2": _build_gradient_v2(_count),
    "SparseSegmentSqrtN": _build_reduction(np.sqrt),
    "SparseSegmentSqrtNWithNumSegments": _build_counted_reduction(np.sqrt),
    "SparseSegmentSqrtNGrad": _build_gradient(np.sqrt),
    "SparseSegmentSqrtNGradV2": _build_gradient_v2(np.sqrt),
}
