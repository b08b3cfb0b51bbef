"""Products of matrices, cut into parts that the threads of an op share.

The cuts depend on the shapes alone, so that the rounding is the same for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.runtime.intra_op import spread
from placesim.runtime.kernels.kernel import Tensor
from placesim.runtime.kernels.parts import even_parts

PART_WORK = 1 << 23
"""Multiplications in a part, at least: a tenth of a millisecond, many times what it costs to hand a part over."""
PART_LENGTH = 1 << 9
"""Rows or columns in a part, at least, where there are more than two: each part reads the whole of the other matrix."""
MOST_PARTS = 16
SMALL_PRODUCT = 1_000_000
"""Multiplications that BLAS does without packing the matrices first."""
THIN_MATRIX = 1 << 14
"""Elements of a matrix which is so small that packing the other one is a good part of the work."""


def product(left: Tensor, right: Tensor) -> Tensor:
    """`[..., m, k]` times `[..., k, n]`, with numpy's broadcasting of the axes before."""
    if left.ndim == right.ndim == 2:
        if left.size * right.shape[1] < 2 * PART_WORK:
            small: Tensor = left.dot(right)  # for two matrices the same as matmul, with less overhead
            return small
        shape: tuple[int, ...] = (len(left), right.shape[1])
    else:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, left.shape[-2], right.shape[-1])
    output = np.empty(shape, np.result_type(left, right))
    multiply_into(output, left, right)
    return output


def multiply_into(output: Tensor, left: Tensor, right: Tensor) -> None:
    """The same into `output`, which may lie anywhere but over the others."""
    work = output.size * left.shape[-1]
    count = min(MOST_PARTS, work // PART_WORK)
    if count < 2:
        _multiply(output, left, right)
        return
    axis = max(range(-output.ndim, -2), key=lambda a: output.shape[a], default=-2)
    if output.shape[axis] == 1 or axis == -2:
        axis = -2 if output.shape[-2] >= output.shape[-1] else -1
        count = min(count, max(2, output.shape[axis] // PART_LENGTH))
    count = 1 << (count.bit_length() - 1)

    def multiply(part: slice) -> None:
        one = left if axis == -1 else _take(left, axis, part)
        other = right if axis == -2 else _take(right, axis, part)
        _multiply(_take(output, axis, part), one, other)

    spread(multiply, list(even_parts(output.shape[axis], count)))


def _multiply(output: Tensor, left: Tensor, right: Tensor) -> None:
    """A part in one thread; many rows by a thin matrix are a row of small products."""
    if left.ndim == right.ndim == 2 and right.size <= THIN_MATRIX and right.flags.c_contiguous:
        rows = SMALL_PRODUCT // max(1, right.size)
        whole = len(left) // rows * rows
        if whole:
            np.matmul(left[:whole].reshape(-1, rows, len(right)), right, out=output[:whole].reshape(-1, rows, right.shape[1]))
            left, output = left[whole:], output[whole:]
    np.matmul(left, right, out=output)


def _take(tensor: Tensor, axis: int, part: slice) -> Tensor:
    """A part along an axis, counted from the end; the whole where the tensor is broadcast along it."""
    if tensor.ndim < -axis or tensor.shape[axis] == 1:
        return tensor
    index: tuple[Any, ...] = (..., part, *(slice(None),) * (-axis - 1))
    taken: Tensor = tensor[index]
    return taken
