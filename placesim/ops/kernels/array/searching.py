"""TopK, NthElement, LowerBound and UpperBound, which search sorted rows, and the rows that are nearest to others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import INT32, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, along
from placesim.ops.kernels.precision import is_floating, packet_size, wide_dtype
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    infer_by,
    replace_dim,
    scalar_dim,
    subshape,
    with_rank,
    with_rank_at_least,
)


def find_largest(tensor: Tensor, count: int, index_type: DataType) -> tuple[Tensor, Tensor]:
    """`[..., n]` -> (the `count` largest elements of each row in descending order, their positions); the sort is stable."""
    size = tensor.shape[-1]
    # reversing the row before and after a stable ascending sort gives a stable descending sort
    order = (size - 1 - np.argsort(tensor[..., ::-1], axis=-1, kind="stable"))[..., ::-1][..., :count]
    return np.take_along_axis(tensor, order, -1), order.astype(index_type.numpy)


def _find_best(tensor: Tensor, index_type: DataType) -> tuple[Tensor, Tensor]:
    """(the largest element of each row of floats, its first position); the row's first element if Eigen's maximum is a NaN.

    Eigen ignores NaN within whole packets. In the remaining elements, a NaN replaces the largest element, and the next element
    replaces the NaN.
    """
    row = tensor.astype(wide_dtype(tensor.dtype))
    packed = row.shape[-1] - row.shape[-1] % packet_size(tensor.dtype)
    best = np.full((*row.shape[:-1], 1), -np.inf, row.dtype)
    for column in range(packed, row.shape[-1]):
        best = np.where(best > row[..., [column]], best, row[..., [column]])
    if packed:
        best_packed = np.fmax.reduce(row[..., :packed], axis=-1, keepdims=True, initial=-np.inf)
        best = np.where(best_packed > best, best_packed, best)
    # nothing equals a NaN, so argmax then gives the first position
    place = (row == best).argmax(axis=-1, keepdims=True)
    return np.take_along_axis(tensor, place, -1), place.astype(index_type.numpy)


class _Candidate(NamedTuple):
    """An element of a row, ordered by value; of equal values the later is smaller. A NaN compares as equal to each value."""

    value: Any
    place: int

    def __lt__(self, other: _Candidate) -> bool:  # type: ignore[override]
        if self.value < other.value or other.value < self.value:
            return bool(self.value < other.value)
        return other.place < self.place


def _find_by_heap(tensor: Tensor, count: int, index_type: DataType, is_sorted: bool) -> tuple[Tensor, Tensor]:
    """(the `count` largest elements of each row, their positions), sorted if `is_sorted`, else as they lie in the heap."""
    rows = tensor.reshape(-1, tensor.shape[-1])
    heaps = [_collect(row.tolist(), count) for row in rows]
    if is_sorted:
        heaps = [[heappop(heap) for _ in range(count)][::-1] for heap in heaps]
    places = [candidate.place for heap in heaps for candidate in heap]
    order = np.array(places, index_type.numpy).reshape(*tensor.shape[:-1], count)
    return np.take_along_axis(tensor, order, -1), order


def _collect(row: Sequence[Any], count: int) -> list[_Candidate]:
    """A heap of a row's `count` largest elements.

    It starts with the first `count + 1` elements, except the smallest of them. Each larger element then replaces the smallest.
    """
    candidates = map(_Candidate, row, range(len(row)))
    heap = list(islice(candidates, count + 1))
    heapify(heap)
    heappop(heap)
    for candidate in candidates:
        if heap[0] < candidate:
            heappop(heap)
            heappush(heap, candidate)
    return heap


def top_k(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """TopKV2: (`[..., n]`, a scalar k) -> (the k largest elements of each row, their positions), both `[..., k]`.

    Raises InvalidArgumentError for a scalar input, and a k that is not a scalar, is negative or is larger than the rows.
    """
    tensor, k = inputs
    if k.ndim:
        raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(k)}")
    if k < 0:
        raise InvalidArgumentError(f"Need k >= 0, got {int(k)}")
    if not tensor.ndim:
        raise InvalidArgumentError(f"input must be >= 1-D, got shape {shape_text(tensor)}")
    if tensor.shape[-1] < k:
        raise InvalidArgumentError(f"input must have at least k columns. Had {tensor.shape[-1]}, needed {int(k)}")
    has_nan = is_floating(tensor.dtype) and np.isnan(tensor).any()
    if k == 1 and has_nan:
        return _find_best(tensor, attrs["index_type"])
    # TensorFlow sorts if k is the row's size, and takes the maximum if k is 1. Otherwise it keeps a heap, whose order shows if
    # the result is not sorted, or if NaN makes comparisons inconsistent
    if 1 < k < tensor.shape[-1] and (has_nan or not attrs["sorted"]):
        return _find_by_heap(tensor, int(k), attrs["index_type"], attrs["sorted"])
    return find_largest(tensor, int(k), attrs["index_type"])


def approximate_top_k(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ApproxTopK: (the k largest or smallest elements along an axis, their positions); exact, as TensorFlow is on a CPU.

    Raises InvalidArgumentError for an axis out of range.
    """
    (tensor,) = inputs
    axis = attrs["reduction_dimension"]
    if not -tensor.ndim <= axis < tensor.ndim:
        raise InvalidArgumentError(f"reduction_dimension must be in [-{tensor.ndim}, {tensor.ndim}), but got {axis}")
    # the smallest elements are the largest of the negated tensor
    sign = 1 if attrs["is_max_k"] else -1
    values, positions = find_largest(sign * np.moveaxis(tensor, axis, -1), attrs["k"], INT32)
    return np.moveaxis(sign * values, -1, axis), np.moveaxis(positions, -1, axis)


def find_nth(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """NthElement: (rows `[..., size]`, scalar n) -> the n-th smallest element of each row, or with `reverse` the n-th largest.

    n starts at 0; the result is `[...]`. Raises InvalidArgumentError for a scalar input, and for an n that is not a scalar or
    is out of range.
    """
    tensor, n = inputs
    if n.ndim:
        raise InvalidArgumentError(f"N must be scalar but has rank {n.ndim}")
    if n < 0:
        raise InvalidArgumentError(f"n must be non-negative but is {int(n)}")
    if not tensor.ndim:
        raise InvalidArgumentError(f"Input must be at least rank 1 but is rank {tensor.ndim}")
    size = tensor.shape[-1]
    if size <= n:
        raise InvalidArgumentError(f"Input must have last dimension > n = {int(n)}")
    place = size - 1 - int(n) if attrs["reverse"] else int(n)
    return (np.sort(tensor, axis=-1)[..., place],)


def find_bound(inputs: Sequence[Tensor], attrs: Attrs, side: str) -> Sequence[Tensor]:
    """LowerBound, UpperBound: (sorted rows `[batch, n]`, values `[batch, m]`) -> each value's insertion position in its row.

    `side` puts a value before (`left`) or after (`right`) equal elements. Raises InvalidArgumentError for other ranks or
    different batches.
    """
    for name, tensor in zip(("sorted_inputs", "values"), inputs, strict=True):
        if tensor.ndim != 2:
            raise InvalidArgumentError(f"Shape must be rank 2 but is rank {tensor.ndim} for `{name}` argument")
    rows, values = inputs
    if rows.shape[0] != values.shape[0]:
        raise InvalidArgumentError("Leading dim_size of both tensors must match.")
    result = np.zeros(values.shape, attrs["out_type"].numpy)
    for found, row, wanted in zip(result, rows, values, strict=True):
        found[...] = np.searchsorted(row, wanted, side)  # type: ignore[call-overload]
    return (result,)


def find_nearest(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """NearestNeighbors: (points `[n, size]`, centers `[m, size]`, a scalar k) -> (the k nearest centers, squared distances).

    Both are `[n, min(k, m)]`. Raises InvalidArgumentError for other ranks, different sizes, no points and a negative k.
    """
    points, centers, k = inputs
    for rank, name, tensor in ((2, "points", points), (2, "centers", centers), (0, "k", k)):
        if tensor.ndim != rank:
            raise InvalidArgumentError(f"Input {name} should be a {'matrix' if rank else 'scalar'}.")
    if points.shape[1] != centers.shape[1]:
        sizes = f"{points.shape[1]} vs {centers.shape[1]}"
        raise InvalidArgumentError(f"Expected point_dimensions == center_dimensions: {sizes}.")
    if not len(points):
        raise InvalidArgumentError("Expected points.rows() > 0.")
    if k < 0:  # TensorFlow crashes
        raise InvalidArgumentError(f"Need k >= 0, got {int(k)}")
    half = [np.square(rows).sum(axis=1) / np.float32(2) for rows in (points, centers)]
    found = half[1] - points @ centers.T
    nearest = np.argsort(found, axis=1, kind="stable")[:, : int(k)]
    distances = 2 * (np.take_along_axis(found, nearest, axis=1) + half[0][:, None])
    return nearest, distances


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_top_k(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.shapes[0], 1)
    k = scalar_dim(context, 1)
    if dims is None:
        return (None, None)
    if 0 <= dims[-1] < k:
        raise ShapeError(f"input must have last dimension >= k = {k} but is {dims[-1]}")
    return ((*dims[:-1], k),) * 2


def _infer_approximate_top_k(context: ShapeContext) -> Sequence[Dims]:
    dims, given, k = context.shapes[0], context.attrs["reduction_dimension"], context.attrs["k"]
    rank = -1 if dims is None else len(dims)
    axis = given + rank if given < 0 else given
    if dims is None or not 0 <= axis < rank:
        raise ShapeError(f"Invalid reduction dimension: {given}. Must be within the range of [{-rank}, {rank - 1}]")
    if dims[axis] < k:
        raise ShapeError(f"input must have last dimension >= k = {k} but was {dims[axis]}")
    return (replace_dim(dims, axis, k),) * 2


def _infer_nth(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.shapes[0], 1)
    n = scalar_dim(context, 1)
    if dims is not None and 0 <= dims[-1] <= n:
        raise ShapeError(f"Input must have last dimension > n = {n} but is {dims[-1]}")
    return (subshape(dims, 0, -1),)


def _infer_bound(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.shapes:
        with_rank(dims, 2)
    return (context.shapes[1],)


TABLE: Table = {
    "TopKV2": Kernel(top_k, _infer_top_k, mixes=along(-1)),
    "ApproxTopK": Kernel(approximate_top_k, _infer_approximate_top_k),
    "NthElement": Kernel(find_nth, _infer_nth),
    "NearestNeighbors": Kernel(find_nearest, infer_by("-> *, *")),
    "LowerBound": Kernel(partial(find_bound, side="left"), _infer_bound),
    "UpperBound": Kernel(partial(find_bound, side="right"), _infer_bound),
}
