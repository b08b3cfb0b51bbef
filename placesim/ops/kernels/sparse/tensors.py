"""Sparse tensors: coordinates, values and a dense shape, with the orders, groups and checks that sparse ops share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.shapes import Dims, ShapeError, format_dims, with_rank

MAX_ELEMENTS = np.iinfo(np.int64).max
_OUT_OF_ORDER = """out of order. Many sparse ops require sorted indices.
    Use `tf.sparse.reorder` to create a correctly ordered copy.

"""


class SparseArray(NamedTuple):
    """`indices` `[entries, rank]`, `values` `[entries]`, and the dense shape."""

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]


def check_rank(tensor: Tensor, rank: int, message: str) -> None:
    """InvalidArgumentError with the message, followed by the tensor's shape, unless the tensor has this rank."""
    if np.ndim(tensor) != rank:
        raise InvalidArgumentError(message + format_dims(np.shape(tensor)))


def dense_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """Dimensions as a shape; InvalidArgumentError for a negative one, or more elements than an int64 counts."""
    size = 1
    for dim in dims:
        if dim < 0:
            raise InvalidArgumentError(f"Expected shape dimensions to be non-negative, got {dim}")
        if size * dim > MAX_ELEMENTS:
            # -1 is what TensorFlow's multiplication gives where it overflows
            raise InvalidArgumentError(f"Encountered overflow when multiplying {size} with {dim}, result: -1")
        size *= dim
    return tuple(dims)


def make_sparse_tensor(indices: Tensor, values: Tensor, dims: Tensor) -> SparseArray:
    """The parts `[entries, rank]`, `[entries]` and `[rank]` as one value; InvalidArgumentError if they do not fit."""
    shape = dense_shape(dims.tolist())
    check_rank(values, 1, "vals must be a vec, but got: ")
    # the rows are counted before the rank is looked at
    if indices.ndim and len(indices) != len(values):
        raise InvalidArgumentError(
            f"indices and values rows (indexing dimension) must match. (indices = {len(indices)}, values = {len(values)})"
        )
    check_rank(indices, 2, "indices must be a matrix, but got: ")
    if indices.shape[1] != len(shape):
        raise InvalidArgumentError("Order length must be SparseTensor rank.")
    return SparseArray(indices, values, shape)


def check_sizes(indices: Tensor, values: Tensor, dims: Tensor) -> None:
    """InvalidArgumentError if the ranks or lengths of a sparse tensor's parts do not fit together."""
    for noun, tensor, rank in (("indices", indices, 2), ("values", values, 1), ("shape", dims, 1)):
        if tensor.ndim != rank:
            raise InvalidArgumentError(f"Sparse {noun} must be rank {rank} but is rank {tensor.ndim}")
    if len(indices) != len(values):
        raise InvalidArgumentError(f"Number of elements in indices ({len(indices)}) and values ({len(values)}) do not match")
    if indices.shape[1] != len(dims):
        raise InvalidArgumentError(f"Index rank ({indices.shape[1]}) and shape rank ({len(dims)}) do not match")


def check_parts(indices: Tensor, values: Tensor, dims: Tensor) -> None:
    """As `check_sizes`, and InvalidArgumentError if a row is out of bounds; rows need no order."""
    check_sizes(indices, values, dims)
    outside = np.any((indices < 0) | (indices >= dims), axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        coordinates = ", ".join(map(str, indices[row].tolist()))
        raise InvalidArgumentError(f"Sparse index tuple indices[{row}, :] = [{coordinates}] is out of bounds")


def check_indices(indices: Tensor, shape: Sequence[int]) -> None:
    """InvalidArgumentError for the first row that is out of bounds, out of order or repeated."""
    outside = np.any((indices < 0) | (indices >= np.array(shape, np.int64)), axis=1)
    steps = compare_neighbours(indices)
    # of one row, being out of bounds is told before being out of order
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
    """`[entries - 1]`, comparing each row with the one before: 1 if greater, 0 if equal, -1 if less."""
    signs = np.sign(np.diff(indices.astype(np.int64), axis=0))
    if not signs.shape[1]:
        return np.zeros(len(signs), np.int64)
    first = np.argmax(signs != 0, axis=1)
    found: Tensor = np.take_along_axis(signs, first[:, None], axis=1)[:, 0]
    return found


def row_order(indices: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The stable permutation `[entries]` that sorts rows lexicographically, by all columns or by `axes` in that order."""
    columns = range(indices.shape[1]) if axes is None else axes
    # lexsort takes the most important key last
    keys = [indices[:, axis] for axis in reversed(columns)]
    return np.lexsort(keys) if keys else np.arange(len(indices))


def group_starts(indices: Tensor) -> Tensor:
    """Start of each run of equal rows of `[entries, columns]`."""
    if not len(indices):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(compare_neighbours(indices)) + 1))


def groups(tensor: SparseArray) -> Iterator[tuple[tuple[int, ...], SparseArray]]:
    """Runs of entries that share all coordinates but the last: these coordinates, and the entries."""
    prefixes = tensor.indices[:, :-1]
    starts = group_starts(prefixes)
    for start, end in zip(starts, np.append(starts, len(prefixes))[1:], strict=True):
        yield tuple(prefixes[start].tolist()), SparseArray(tensor.indices[start:end], tensor.values[start:end], tensor.shape)


def walk_together(one: Sequence[Any], two: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Positions in two sorted lists during a merge: the smaller element first, equal ones together.

    -1 stands for the list that waits.  Sorted lists are merged by this; others are taken as they come.
    """
    first = second = 0
    while first < len(one) or second < len(two):
        take_one = second == len(two) or (first < len(one) and one[first] <= two[second])
        take_two = first == len(one) or (second < len(two) and two[second] <= one[first])
        yield first if take_one else -1, second if take_two else -1
        first, second = first + take_one, second + take_two


def merge_rows(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Two lists of rows `[entries, rank]`, walked together: the rows met, and each one's position in either list, or -1."""
    met = np.array(list(walk_together(one.tolist(), two.tolist())), np.int64).reshape(-1, 2)
    in_one, in_two = met.T
    rows = np.concatenate((one, two))[np.where(in_one >= 0, in_one, in_two + len(one))]
    return rows, in_one, in_two


def gather_or_zero(values: Tensor, where: Tensor) -> Tensor:
    """`values[where]`, shaped as `where`, zero if the position is -1."""
    found = np.zeros(len(where), values.dtype)
    present = where >= 0
    found[present] = values[where[present]]
    return found


def merge_sparse_rank(indices: Dims, values: Dims, dims: Dims) -> int:
    """The rank of a sparse tensor (-1: unknown) from the static shapes of its parts; ShapeError if they differ."""
    rows, columns = with_rank(indices, 2)
    entries, rank = with_rank(values, 1)[0], with_rank(dims, 1)[0]
    if rows >= 0 and entries >= 0 and rows != entries:
        raise ShapeError(f"Number of elements in index ({rows}) and values ({entries}) do not match.")
    if columns >= 0 and rank >= 0 and columns != rank:
        raise ShapeError(f"Index rank ({columns}) and shape rank ({rank}) do not match.")
    return rank
