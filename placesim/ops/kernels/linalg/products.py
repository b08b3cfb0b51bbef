"""Matrix products, split into parts that the threads of an op share.

The split depends only on the shapes, so that rounding is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.ops.kernels.blocks.epilogues import Begin, Finish, leave, nothing_follows
from placesim.ops.kernels.blocks.work_parts import even_parts, piece, shares_within
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.process.intra_op_threads import spread

PART_WORK = 1 << 23
"""Minimum multiplications in a part: a tenth of a millisecond, many times the cost of starting a part."""
PART_LENGTH = 1 << 10
"""Minimum rows or columns per part if there are more than two parts, since each part reads the whole other matrix."""
MOST_PARTS = 16
SMALL_PRODUCT = 1_000_000
"""Maximum multiplications of a product for which BLAS does not pack the matrices first."""
THIN_MATRIX = 10_000
"""Maximum elements of a right matrix for which packing the left matrix would be a large part of the work."""
FEW_TERMS = 1 << 5
"""Number of summed terms below which writing a large output dominates: BLAS clears, reads and writes it when packing."""
FEW_ROWS = 1 << 5
"""Number of rows or columns below which reading the large matrix dominates."""
BROAD_MATRIX = 1 << 16
"""Maximum elements of the small matrix beside a large one, so that it stays in a processor's cache."""
SUMMED = 0
"""Stands for the summed axis of a product; other axes are counted from the end, as negative numbers."""
THIN_OUTPUT = 10_000
"""Maximum elements of an output that is computed as a sum of small products."""


def product(left: Tensor, right: Tensor, begin: Begin = nothing_follows) -> Tensor:
    """`[..., m, k]` times `[..., k, n]`, with batch axes broadcast.

    `begin` is an epilogue. It is applied only if the product is split along its first axis.
    """
    if left.ndim == right.ndim == 2:
        if left.size * right.shape[1] < 2 * PART_WORK:
            small: Tensor = left.dot(right)  # for two matrices the same as matmul, with less overhead
            return small
        shape: tuple[int, ...] = (len(left), right.shape[1])
    else:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, left.shape[-2], right.shape[-1])
    output = np.empty(shape, np.result_type(left, right))
    count, axis = cut_of(shape, left.shape[-1], output.ndim == left.ndim == 2)
    multiply_into(output, left, right, begin(output) if count > 1 and axis == -output.ndim else leave)
    return output


def multiply_into(output: Tensor, left: Tensor, right: Tensor, finish: Finish = leave) -> None:
    """Write the product to `output`, which must not overlap the operands; `finish` gets each row once, in slices."""
    if output.ndim == left.ndim == right.ndim == 2 and _is_turned(left, right):
        found = np.empty((right.shape[1], len(left)), output.dtype)
        multiply_into(found, right.T, left.T)
        output[...] = found.T
        finish(slice(0, len(output)))
        return
    count, axis = cut_of(output.shape, left.shape[-1], output.ndim == left.ndim == 2)
    if count > 1 and axis == -output.ndim:
        _multiply_parts(output, left, right, count, axis, finish)
        return
    if count < 2:
        multiply_part(output, left, right)
    elif axis == SUMMED:
        _add_up(output, left, right, count)
    else:
        _multiply_parts(output, left, right, count, axis, leave)
    finish(slice(0, prod(output.shape[:-1])))


def cut_of(shape: Sequence[int], depth: int, is_flat: bool) -> tuple[int, int]:
    """(number of parts, axis) for splitting a product `[..., rows, columns]`, whose elements are sums of `depth` terms.

    The axis is counted from the end, or is `SUMMED`.  `is_flat` means that the product and its left side are matrices.
    """
    elements = prod(shape)
    count = min(MOST_PARTS, elements * depth // PART_WORK)
    if count < 2:
        return 1, SUMMED
    if is_flat and _is_thin(elements, depth):
        return shares_within(count), SUMMED
    # the longest batch axis, or without one the rows or columns, for which each part reads the whole other matrix
    axis = max(range(-len(shape), -2), key=lambda a: shape[a], default=-2)
    if shape[axis] == 1 or axis == -2:
        axis = -2 if 2 * shape[-2] >= shape[-1] else -1  # rows are preferred, since they are contiguous
        count = min(count, max(2, shape[axis] // PART_LENGTH))
    return min(shares_within(count), shape[axis]), axis


def _is_turned(left: Tensor, right: Tensor) -> bool:
    """Whether the left matrix has a few rows, and the right one is large and column-major, so that transposing is faster."""
    return len(left) <= FEW_ROWS < len(right) and left.size <= BROAD_MATRIX < right.size and right.strides[0] < right.strides[1]


def _is_thin(elements: int, depth: int) -> bool:
    return 0 < elements <= THIN_OUTPUT < SMALL_PRODUCT < elements * depth


def _multiply_parts(output: Tensor, left: Tensor, right: Tensor, count: int, axis: int, finish: Finish) -> None:
    """Compute a product in `count` parts along an output axis; `finish` must do nothing unless `axis` is the first axis."""
    rows = prod(output.shape[1:-1])

    def multiply(part: slice) -> None:
        one = left if axis == -1 else _take(left, axis, part)
        other = right if axis == -2 else _take(right, axis, part)
        multiply_part(_take(output, axis, part), one, other)
        finish(slice(part.start * rows, part.stop * rows))

    spread(multiply, list(even_parts(output.shape[axis], count)))


def _add_up(output: Tensor, left: Tensor, right: Tensor, count: int) -> None:
    """Compute a product in `count` parts along the summed axis, and add the parts."""
    sums = np.empty((count, *output.shape), output.dtype)
    cuts = list(even_parts(len(right), count))

    def multiply(number: int) -> None:
        multiply_part(sums[number], left[:, cuts[number]], right[cuts[number]])

    spread(multiply, range(count))
    np.sum(sums, axis=0, dtype=output.dtype, out=output)


def multiply_part(output: Tensor, left: Tensor, right: Tensor) -> None:
    """Compute a part in one thread, as several small products if one matrix is long and the other thin."""
    if output.ndim == left.ndim == 2 and _is_thin(output.size, left.shape[1]):
        length = piece(len(right), SMALL_PRODUCT // output.size)
        whole = len(right) // length * length
        pieces = left[:, :whole].reshape(len(left), -1, length).swapaxes(0, 1)
        np.matmul(pieces, right[:whole].reshape(-1, length, right.shape[1])).sum(axis=0, dtype=output.dtype, out=output)
        if whole < len(right):
            output += np.matmul(left[:, whole:], right[whole:])
        return
    thin = BROAD_MATRIX if len(right) <= FEW_TERMS or output.shape[-1] <= FEW_ROWS else THIN_MATRIX
    if left.ndim == right.ndim == 2 and right.size <= thin and output.size * len(right) > SMALL_PRODUCT:
        length, right = piece(len(left), max(1, SMALL_PRODUCT // right.size)), np.ascontiguousarray(right)
        whole = len(left) // length * length
        np.matmul(left[:whole].reshape(-1, length, len(right)), right, out=output[:whole].reshape(-1, length, right.shape[1]))
        if whole == len(left):
            return
        left, output = left[whole:], output[whole:]
    np.matmul(left, right, out=output)


def _take(tensor: Tensor, axis: int, part: slice) -> Tensor:
    """A part of a tensor along an axis, counted from the end; the whole tensor if the axis is broadcast."""
    if tensor.ndim < -axis or tensor.shape[axis] == 1:
        return tensor
    index: tuple[Any, ...] = (..., part, *(slice(None),) * (-axis - 1))
    taken: Tensor = tensor[index]
    return taken
