"""Matrix products, split into parts that the threads of an op share.

The split depends only on the shapes, so that rounding is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from placesim.ops.kernels.blocks.constant_layouts import arranged, is_constant
from placesim.ops.kernels.blocks.epilogues import Begin, Finish, leave, nothing_follows
from placesim.ops.kernels.blocks.work_parts import even_parts, piece, shares_within
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.process.intra_op_threads import spread

PART_WORK = 1 << 23
"""Minimum multiplications in a part: a tenth of a millisecond, many times the cost of starting a part."""
PART_ELEMENTS = 1 << 18
"""Minimum elements of the output and the larger matrix in a part with less work: to move them takes as long as such work."""
PART_LENGTH = 1 << 10
"""Minimum rows or columns per part if there are more than two parts, since each part reads the whole other matrix."""
MOST_PARTS = 16
SMALL_PRODUCT = 1_000_000
"""Maximum multiplications of a product for which BLAS does not pack the matrices first."""
THIN_MATRIX = 10_000
"""Maximum elements of a right matrix for which packing the left matrix would be a large part of the work."""
COLUMNS = 1 << 6
"""Columns of a piece of a right matrix: BLAS multiplies as many at once."""
LEAST_ROWS = 1 << 2
"""Minimum rows of a product with a piece."""
COPIED_ROWS = 1 << 9
"""Minimum rows of a left matrix for which copying the right one into pieces takes less time than packing both."""
FEW_ROWS = 1 << 5
"""Number of rows or columns below which reading the large matrix dominates."""
BROAD_MATRIX = 1 << 16
"""Maximum elements of the small matrix beside a large one, so that it stays in a processor's cache."""
FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
"""Types whose small products BLAS does not pack."""
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
    is_flat = output.ndim == left.ndim == 2
    if is_flat and right.ndim == 2 and _is_turned(left, right):
        found = np.empty((right.shape[1], len(left)), output.dtype)
        multiply_into(found, right.T, left.T)
        output[...] = found.T
        finish(slice(0, len(output)))
        return
    count, axis = cut_of(output.shape, left.shape[-1], is_flat)
    if count < 2:
        multiply_part(output, left, right)
        finish(slice(0, prod(output.shape[:-1])))
        return
    pieces = None if axis == SUMMED else pieces_of(right, left, len(left))
    if pieces is not None and axis == -1 and len(left) >= FEW_ROWS and finish is not leave:
        axis = -2  # unpacked, the other matrix costs a second part little
    if axis == -output.ndim:
        _multiply_parts(output, left, right, count, axis, finish, pieces)
        return
    if axis == SUMMED:
        _add_up(output, left, right, count)
    elif pieces is not None and len(pieces) >= count:
        _multiply_some_pieces(output, left, pieces, count)
    else:
        _multiply_parts(output, left, right, count, axis, leave)
    finish(slice(0, prod(output.shape[:-1])))


def pieces_of(right: Tensor, left: Tensor, rows: int) -> Tensor | None:
    """Return a right matrix in pieces of some columns, `[pieces, summed, columns]`; None if BLAS had better multiply all of it.

    BLAS packs both operands of a large product.  Products of a few rows with a piece take less time, since it does not pack
    them.  With fewer `rows` than `COPIED_ROWS`, only a constant is worth arranging in pieces.
    """
    if right.ndim != 2 or left.ndim != 2 or right.dtype not in FLOATS or left.dtype != right.dtype:
        return None
    if rows * right.size <= SMALL_PRODUCT or left.strides[1] != left.itemsize:
        return None
    width = piece_width(right.shape[1]) or (right.shape[1] if right.size <= THIN_MATRIX else 0)
    if not width or len(right) * width * LEAST_ROWS > SMALL_PRODUCT:
        return None
    if width == right.shape[1]:
        return np.ascontiguousarray(right)[None]
    if rows < COPIED_ROWS and not is_constant(right):
        return None
    return arranged(right, "pieces", partial(_in_pieces, width=width))


def _in_pieces(right: Tensor, width: int) -> Tensor:
    return np.ascontiguousarray(right.reshape(len(right), -1, width).swapaxes(0, 1))


@lru_cache(maxsize=1024)
def piece_width(columns: int) -> int:
    """Return the number of columns of a piece; 0 if so many columns cannot be cut into equal pieces of whole vectors."""
    if columns <= 2 * COLUMNS:
        return columns
    return next((width for width in (COLUMNS, 48, 96, 32, 80, 16) if columns % width == 0), 0)


def multiply_pieces(output: Tensor, left: Tensor, pieces: Tensor) -> None:
    """Write the product of `[..., rows, summed]` and pieces `[..., pieces, summed, columns]` to `[..., rows, outputs]`."""
    count, depth, width = pieces.shape[-3:]
    rows = left.shape[-2]
    few = piece(rows, max(1, SMALL_PRODUCT // (depth * width)))
    whole = rows - rows % few
    for part, length in ((slice(0, whole), few), (slice(whole, rows), rows - whole)):
        if length:
            by_rows = left[..., part, :].reshape(*left.shape[:-2], -1, 1, length, depth)
            found = output[..., part, :].reshape(*output.shape[:-2], -1, length, count, width).swapaxes(-3, -2)
            np.matmul(by_rows, pieces[..., None, :, :, :], out=found)


def cut_of(shape: Sequence[int], depth: int, is_flat: bool) -> tuple[int, int]:
    """(number of parts, axis) for splitting a product `[..., rows, columns]`, whose elements are sums of `depth` terms.

    The axis is counted from the end, or is `SUMMED`.  `is_flat` means that the product and its left side are matrices.
    """
    elements = prod(shape)
    count = min(MOST_PARTS, elements * depth // PART_WORK)
    is_thin = is_flat and _is_thin(elements, depth)
    if count < 2 and is_flat and not is_thin and is_shared(shape[0], depth, shape[1]):
        count = 2
    if count < 2:
        return 1, SUMMED
    if is_thin:
        return shares_within(count), SUMMED
    # the longest batch axis, or without one the rows or columns, for which each part reads the whole other matrix
    axis = max(range(-len(shape), -2), key=lambda a: shape[a], default=-2)
    if shape[axis] == 1 or axis == -2:
        axis = -2 if 2 * shape[-2] >= shape[-1] else -1  # rows are preferred, since they are contiguous
        count = min(count, max(2, shape[axis] // PART_LENGTH))
    return min(shares_within(count), shape[axis]), axis


def is_shared(rows: int, depth: int, columns: int) -> bool:
    """Whether two threads should share a product of matrices: it multiplies much, or its parts move much."""
    outputs = rows * columns
    return outputs * depth >= 2 * PART_WORK or outputs + max(rows, columns) * depth >= 2 * PART_ELEMENTS


def _is_turned(left: Tensor, right: Tensor) -> bool:
    """Whether the left matrix has a few rows, and the right one is large and column-major, so that transposing is faster."""
    return len(left) <= FEW_ROWS < len(right) and left.size <= BROAD_MATRIX < right.size and right.strides[0] < right.strides[1]


def _is_thin(elements: int, depth: int) -> bool:
    return 0 < elements <= THIN_OUTPUT < SMALL_PRODUCT < elements * depth


def _multiply_parts(
    output: Tensor, left: Tensor, right: Tensor, count: int, axis: int, finish: Finish, pieces: Tensor | None = None
) -> None:
    """Compute a product in `count` parts along an output axis; `finish` must do nothing unless `axis` is the first axis."""
    rows = prod(output.shape[1:-1])

    def multiply(part: slice) -> None:
        one = left if axis == -1 else _take(left, axis, part)
        other = right if axis == -2 else _take(right, axis, part)
        multiply_part(_take(output, axis, part), one, other, pieces)
        finish(slice(part.start * rows, part.stop * rows))

    spread(multiply, list(even_parts(output.shape[axis], count)))


def _multiply_some_pieces(output: Tensor, left: Tensor, pieces: Tensor, count: int) -> None:
    """Compute a product in `count` parts along the pieces of the right matrix."""
    width = pieces.shape[2]

    def multiply(part: slice) -> None:
        multiply_pieces(output[:, part.start * width : part.stop * width], left, pieces[part])

    spread(multiply, list(even_parts(len(pieces), count)))


def _add_up(output: Tensor, left: Tensor, right: Tensor, count: int) -> None:
    """Compute a product in `count` parts along the summed axis, and add the parts."""
    sums = np.empty((count, *output.shape), output.dtype)
    cuts = list(even_parts(len(right), count))

    def multiply(number: int) -> None:
        multiply_part(sums[number], left[:, cuts[number]], right[cuts[number]])

    spread(multiply, range(count))
    np.sum(sums, axis=0, dtype=output.dtype, out=output)


def multiply_part(output: Tensor, left: Tensor, right: Tensor, pieces: Tensor | None = None) -> None:
    """Compute a part in one thread, as several small products if one matrix is long and the other thin.

    `pieces` are the right matrix in pieces; see `pieces_of`.
    """
    if output.ndim == left.ndim == 2 and _is_thin(output.size, left.shape[1]):
        length = piece(len(right), SMALL_PRODUCT // output.size)
        whole = len(right) // length * length
        parts = left[:, :whole].reshape(len(left), -1, length).swapaxes(0, 1)
        np.matmul(parts, right[:whole].reshape(-1, length, right.shape[1])).sum(axis=0, dtype=output.dtype, out=output)
        if whole < len(right):
            output += np.matmul(left[:, whole:], right[whole:])
        return
    if pieces is None:
        pieces = pieces_of(right, left, len(left))
    if pieces is None:
        np.matmul(left, right, out=output)
    else:
        multiply_pieces(output, left, pieces)


def _take(tensor: Tensor, axis: int, part: slice) -> Tensor:
    """A part of a tensor along an axis, counted from the end; the whole tensor if the axis is broadcast."""
    if tensor.ndim < -axis or tensor.shape[axis] == 1:
        return tensor
    index: tuple[Any, ...] = (..., part, *(slice(None),) * (-axis - 1))
    taken: Tensor = tensor[index]
    return taken
