"""Segment reductions: rows that share a segment id become one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.indices import position_text
from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, as_many_as, per_element
from placesim.ops.kernels.precision import highest, is_floating, lowest, packet_size, wide_dtype
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    concatenate,
    format_dims,
    merge_prefix,
    scalar_dim,
    subshape,
    with_rank,
    with_rank_at_least,
)
from placesim.ops.process.memory_limit import check_array

Reduce = Callable[[Tensor, Tensor], Any]
"""A function `(rows [n, ...], starts [m]) -> [m, ...]` that reduces each run of rows, from one start to the next."""


def _reduce_by(ufunc: np.ufunc) -> Reduce:
    """Return a function that reduces runs by a ufunc, half and bfloat16 in float32."""

    def reduce(rows: Tensor, starts: Tensor) -> Any:
        return ufunc.reduceat(rows.astype(wide_dtype(rows.dtype), copy=False), starts, 0).astype(rows.dtype)

    return reduce


def _reduce_to_extreme(ufunc: np.ufunc) -> Reduce:
    """Return a function that reduces runs by maximum or minimum. In a run of several rows, NaN is treated as Eigen does.

    Columns in full packets ignore NaN, and are infinite if all values are NaN. Other columns follow `_keep_extremes`.
    """
    plain = _reduce_by(ufunc)
    ignoring, beats, worst = (np.fmax, np.greater, -np.inf) if ufunc is np.maximum else (np.fmin, np.less, np.inf)

    def reduce(rows: Tensor, starts: Tensor) -> Any:
        if not (is_floating(rows.dtype) and np.isnan(rows).any()):
            return plain(rows, starts)
        flat = rows.reshape(len(rows), -1).astype(wide_dtype(rows.dtype))
        packed = flat.shape[1] - flat.shape[1] % packet_size(rows.dtype)
        result = flat[starts]
        for kept, run in zip(result, np.split(flat, starts[1:]), strict=True):
            if len(run) > 1:
                kept[:packed] = ignoring.reduce(run[:, :packed], axis=0, initial=worst)
                _keep_extremes(beats, kept[None, packed:], run[1:, packed:], np.zeros(len(run) - 1, np.intp))
        return result.reshape(len(starts), *rows.shape[1:]).astype(rows.dtype)

    return reduce


def _mean(rows: Tensor, starts: Tensor) -> Any:
    total = np.add.reduceat(rows, starts, 0, dtype=wide_dtype(rows.dtype))
    counts = np.diff(np.append(starts, len(rows))).reshape((-1,) + (1,) * (rows.ndim - 1))
    if rows.dtype.kind not in "iu":
        return (total / counts).astype(rows.dtype)
    # as C++ divides integers
    return truncated_quotient(total, counts.astype(rows.dtype))


def _starts(ids: Tensor) -> Tensor:
    """Return the starts of runs of equal ids."""
    return np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))


# --- sorted ids -----------------------------------------------------------------------------------------------------


def segment(reduce: Reduce, default: int) -> Kernel:
    """Return the table row of a reduction by sorted ids: `data [n, ...]`, `ids [n]` -> `[last id + 1, ...]`.

    An id without rows gives `default`. The kernel raises InvalidArgumentError for bad shapes, and negative or unsorted ids.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x, ids = inputs
        _check_segments(x, ids)
        if not len(ids):
            return (np.empty((0, *x.shape[1:]), x.dtype),)
        starts = _starts(ids)
        rows = _segment_rows(ids[starts])
        check_array((rows, *x.shape[1:]), x.dtype)
        result = np.full((rows, *x.shape[1:]), default, x.dtype)
        result[ids[starts]] = reduce(x, starts)
        return (result,)

    return Kernel(compute, _infer_segment, per_element(0), guess=as_many_as(1))


def _check_segments(x: Tensor, ids: Tensor) -> None:
    if not x.ndim:
        raise InvalidArgumentError("input must be at least rank 1")
    if ids.ndim != 1:
        raise InvalidArgumentError("segment_ids should be a vector.")
    if len(ids) != len(x):
        raise InvalidArgumentError("segment_ids should be the same size as dimension 0 of input.")


def _segment_rows(runs: Tensor) -> int:
    """Return the number of output rows from the ids of the runs. Raises InvalidArgumentError for the first invalid run."""
    # TensorFlow reads the last id before it checks the order
    rows = int(runs[-1]) + 1
    if rows <= 0:
        raise InvalidArgumentError("segment ids must be >= 0")
    # the first invalid run is named; if it both descends and is out of range, the message says that it descends
    falling = np.flatnonzero(runs[:-1] > runs[1:])
    outside = np.flatnonzero((runs < 0) | (runs >= rows))
    if len(falling) and not (len(outside) and outside[0] < falling[0]):
        raise InvalidArgumentError("segment ids are not increasing")
    if len(outside):
        raise InvalidArgumentError(
            f"Segment id {runs[outside[0]]} out of range [0, {rows}), possibly because 'segment_ids' input is not sorted."
        )
    return rows


# --- unsorted ids ---------------------------------------------------------------------------------------------------


def unsorted_segment(ufunc: np.ufunc, initial: Callable[[np.dtype[Any]], Any]) -> Kernel:
    """Return the table row of a reduction by ids in any order: `data [*ids, ...]`, `ids`, a scalar -> `[segments, ...]`.

    Negative ids are dropped; an id without rows gives `initial`. The kernel raises InvalidArgumentError for bad shapes or ids.
    """
    reduce = _reduce_by(ufunc)
    is_extreme = ufunc in (np.maximum, np.minimum)

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x, ids, count = inputs
        _check_unsorted(x, ids, count)
        inner = x.shape[ids.ndim :]
        result = np.full((int(count), *inner), initial(x.dtype), x.dtype)
        # without data TensorFlow does not check the ids
        if not x.size:
            return (result,)
        _check_ids(ids, int(count))
        flat, rows = ids.reshape(-1), x.reshape(ids.size, *inner)
        order = np.argsort(flat, kind="stable")
        order = order[flat[order] >= 0]
        if is_extreme and is_floating(x.dtype) and np.isnan(rows).any():
            _keep_extremes(np.greater if ufunc is np.maximum else np.less, result, rows[order], flat[order])
        elif len(order):
            starts = _starts(flat[order])
            chosen = flat[order][starts]
            result[chosen] = ufunc(result[chosen], reduce(rows[order], starts))
        return (result,)

    return Kernel(compute, infer_unsorted_segments, per_element(0))


def _keep_extremes(beats: np.ufunc, result: Tensor, rows: Tensor, ids: Tensor) -> None:
    """Update the result row by row: the row's value replaces a value of the result that does not beat it, or that is NaN."""
    for row, index in zip(rows, ids, strict=True):
        result[index] = np.where(beats(result[index], row), result[index], row)


def _check_unsorted(x: Tensor, ids: Tensor, count: Tensor) -> None:
    if count.ndim:
        raise InvalidArgumentError(f"num_segments should be a scalar, not shape {format_dims(count.shape)}")
    if x.shape[: ids.ndim] != ids.shape:
        shapes = f"data.shape = {format_dims(x.shape)} does not start with segment_ids.shape = {format_dims(ids.shape)}"
        raise InvalidArgumentError(shapes)
    if count < 0:
        raise InvalidArgumentError(f"Input num_segments == {int(count)} must not be negative.")


def _check_ids(ids: Tensor, count: int) -> None:
    outside = ids.reshape(-1) >= count  # negative ids are dropped, not refused
    if outside.any():
        bad = int(outside.argmax())
        found = int(ids.reshape(-1)[bad])
        raise InvalidArgumentError(f"segment_ids{position_text(ids.shape, bad)} = {found} is out of range [0, {count})")


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_segment(context: ShapeContext) -> Sequence[Dims]:
    data = with_rank_at_least(context.shapes[0], 1)
    with_rank(context.shapes[1], 1)
    return (concatenate((-1,), subshape(data, 1)),)


def infer_unsorted_segments(context: ShapeContext) -> Sequence[Dims]:
    """Return `[segments, ...]` for `data [*ids, ...]`, `ids` and a scalar number of segments."""
    data, ids, count = context.shapes
    with_rank(count, 0)
    if ids is None:
        return (None,)
    data, _ = merge_prefix(data, ids)
    return (concatenate((scalar_dim(context, 2),), subshape(data, len(ids))),)


TABLE: Table = {
    "SegmentSum": segment(_reduce_by(np.add), default=0),
    "SegmentMean": segment(_mean, default=0),
    "SegmentProd": segment(_reduce_by(np.multiply), default=1),
    "SegmentMax": segment(_reduce_to_extreme(np.maximum), default=0),
    "SegmentMin": segment(_reduce_to_extreme(np.minimum), default=0),
    "UnsortedSegmentSum": unsorted_segment(np.add, initial=lambda dtype: 0),
    "UnsortedSegmentProd": unsorted_segment(np.multiply, initial=lambda dtype: 1),
    # the lowest and the highest finite number, not infinity, even for floats
    "UnsortedSegmentMax": unsorted_segment(np.maximum, initial=lowest),
    "UnsortedSegmentMin": unsorted_segment(np.minimum, initial=highest),
}
