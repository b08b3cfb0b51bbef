"""Sparse tensors: coordinates, values and a dense shape, with the orders, groups and checks that sparse ops share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, with_rank

MAX_ELEMENTS = np.iinfo(np.int64).max
_OUT_OF_ORDER = """out of order. Many sparse ops require sorted indices.
    Use `tf.sparse.reorder` to create a correctly ordered copy.

"""


class SparseArray(NamedTuple):
    """A sparse tensor: `indices` `[entries, rank]`, `values` `[entries]`, and the dense shape."""

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]


def check_rank(tensor: Tensor, rank: int, message: str) -> None:
    """Raise InvalidArgumentError, with `message` and the tensor's shape, unless the tensor has this rank."""
    if np.ndim(tensor) != rank:
        raise InvalidArgumentError(message + format_dims(np.shape(tensor)))


def dense_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """Return dimensions as a shape. Raises InvalidArgumentError for a negative one, or more elements than an int64 counts."""
    size = 1
    for dim in dims:
        if dim < 0:
            raise InvalidArgumentError(f"Expected shape dimensions to be non-negative, got {dim}")
        if size * dim > MAX_ELEMENTS:
            # TensorFlow's multiplication returns -1 for an overflow
            raise InvalidArgumentError(f"Encountered overflow when multiplying {size} with {dim}, result: -1")
        size *= dim
    return tuple(dims)


def make_sparse_tensor(indices: Tensor, values: Tensor, dims: Tensor) -> SparseArray:
    """Return a sparse tensor of indices `[entries, rank]`, values `[entries]` and a shape `[rank]`.

    Raises InvalidArgumentError if these parts do not fit.
    """
    shape = dense_shape(dims.tolist())
    check_rank(values, 1, "vals must be a vec, but got: ")
    # TensorFlow checks the number of rows before the rank
    if indices.ndim and len(indices) != len(values):
        raise InvalidArgumentError(
            f"indices and values rows (indexing dimension) must match. (indices = {len(indices)}, values = {len(values)})"
        )
    check_rank(indices, 2, "indices must be a matrix, but got: ")
    if indices.shape[1] != len(shape):
        raise InvalidArgumentError("Order length must be SparseTensor rank.")
    return SparseArray(indices, values, shape)


def check_sizes(indices: Tensor, values: Tensor, dims: Tensor) -> None:
    """Raise InvalidArgumentError unless the ranks and lengths of a sparse tensor's parts fit."""
    for noun, tensor, rank in (("indices", indices, 2), ("values", values, 1), ("shape", dims, 1)):
        if tensor.ndim != rank:
            raise InvalidArgumentError(f"Sparse {noun} must be rank {rank} but is rank {tensor.ndim}")
    if len(indices) != len(values):
        raise InvalidArgumentError(f"Number of elements in indices ({len(indices)}) and values ({len(values)}) do not match")
    if indices.shape[1] != len(dims):
        raise InvalidArgumentError(f"Index rank ({indices.shape[1]}) and shape rank ({len(dims)}) do not match")


def check_parts(indices: Tensor, values: Tensor, dims: Tensor) -> None:
    """As `check_sizes`, and raise InvalidArgumentError for a row out of range; rows may be in any order."""
    check_sizes(indices, values, dims)
    outside = np.any((indices < 0) | (indices >= dims), axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        coordinates = ", ".join(map(str, indices[row].tolist()))
        raise InvalidArgumentError(f"Sparse index tuple indices[{row}, :] = [{coordinates}] is out of bounds")


def check_indices(indices: Tensor, shape: Sequence[int]) -> None:
    """Raise InvalidArgumentError for the first row that is out of range, out of order or repeated."""
    outside = np.any((indices < 0) | (indices >= np.array(shape, np.int64)), axis=1)
    steps = compare_neighbours(indices)
    # a row that is both out of range and out of order is reported as out of range
    wrong = outside.copy()
    wrong[1:] |= steps <= 0
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    text = f"indices[{row}] = [{','.join(map(str, indices[row].tolist()))}]"
    if outside[row]:
        raise InvalidArgumentError(f"{text} is out of bounds: need 0 <= index < [{','.join(map(str, shape))}]")
    raise InvalidArgumentError(f"{text} is {_OUT_OF_ORDER if steps[row - 1] < 0 else 'repeated'}")


def compare_neighbours(indices: Tensor) -> Tensor:
    """Compare each row with the previous one, as `[entries - 1]`: 1 if greater, 0 if equal, -1 if less."""
    signs = np.sign(np.diff(indices.astype(np.int64), axis=0))
    if not signs.shape[1]:
        return np.zeros(len(signs), np.int64)
    first = np.argmax(signs != 0, axis=1)
    found: Tensor = np.take_along_axis(signs, first[:, None], axis=1)[:, 0]
    return found


def row_order(indices: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return the stable permutation `[entries]` that sorts rows by all columns, or by the columns `axes` in their order."""
    columns = range(indices.shape[1]) if axes is None else axes
    # the last key of lexsort is the most significant one
    keys = [indices[:, axis] for axis in reversed(columns)]
    return np.lexsort(keys) if keys else np.arange(len(indices))


def group_starts(indices: Tensor) -> Tensor:
    """Return the start of each run of equal rows of `[entries, columns]`."""
    if not len(indices):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(compare_neighbours(indices)) + 1))


def groups(tensor: SparseArray) -> Iterator[tuple[tuple[int, ...], SparseArray]]:
    """Yield the runs of entries that share all coordinates but the last: these coordinates, and the entries."""
    prefixes = tensor.indices[:, :-1]
    starts = group_starts(prefixes)
    for start, end in zip(starts, np.append(starts, len(prefixes))[1:], strict=True):
        yield tuple(prefixes[start].tolist()), SparseArray(tensor.indices[start:end], tensor.values[start:end], tensor.shape)


def walk_together(one: Sequence[Any], two: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Merge two sorted lists: yield a pair of positions for each element, -1 for a list without it.

    Unsorted lists are merged in the same way: the smaller of the two next elements is first.
    """
    first = second = 0
    while first < len(one) or second < len(two):
        take_one = second == len(two) or (first < len(one) and one[first] <= two[second])
        take_two = first == len(one) or (second < len(two) and two[second] <= one[first])
        yield first if take_one else -1, second if take_two else -1
        first, second = first + take_one, second + take_two


def part_dims(context: ShapeContext) -> tuple[tuple[int, ...], ...]:
    """Return the static shapes of inputs 0 to 2, a sparse tensor's parts. Raises ShapeError for other ranks."""
    return tuple(with_rank(dims, rank) for dims, rank in zip(context.shapes, (2, 1, 1), strict=False))


def pair_groups(one: SparseArray, two: SparseArray) -> Iterator[tuple[tuple[int, ...], SparseArray | None, SparseArray | None]]:
    """Yield the merged `groups` of two sparse tensors: coordinates, and each tensor's entries there, or None."""
    left, right = list(groups(one)), list(groups(two))
    for first, second in walk_together([group for group, _ in left], [group for group, _ in right]):
        group = left[first][0] if first >= 0 else right[second][0]
        yield group, left[first][1] if first >= 0 else None, right[second][1] if second >= 0 else None


def merge_rows(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge two lists of rows `[entries, rank]`; return the rows, and each row's position in either list, or -1."""
    met = np.array(list(walk_together(one.tolist(), two.tolist())), np.int64).reshape(-1, 2)
    in_one, in_two = met.T
    rows = np.concatenate((one, two))[np.where(in_one >= 0, in_one, in_two + len(one))]
    return rows, in_one, in_two


def gather_or_zero(values: Tensor, where: Tensor) -> Tensor:
    """Return `values[where]`, but zero for the position -1."""
    found = np.zeros(len(where), values.dtype)
    present = where >= 0
    found[present] = values[where[present]]
    return found


def merge_sparse_rank(indices: Dims, values: Dims, dims: Dims) -> int:
    """Return a sparse tensor's rank (-1 if unknown) from its parts' static shapes. Raises ShapeError if they do not fit."""
    rows, columns = with_rank(indices, 2)
    entries, rank = with_rank(values, 1)[0], with_rank(dims, 1)[0]
    if rows >= 0 and entries >= 0 and rows != entries:
        raise ShapeError(f"Number of elements in index ({rows}) and values ({entries}) do not match.")
    if columns >= 0 and rank >= 0 and columns != rank:
        raise ShapeError(f"Index rank ({columns}) and shape rank ({rank}) do not match.")
    return rank
