"""Batches of matrices: input checks, shape functions and costs that decompositions and solvers share.

Source: TensorFlow's `linalg_ops_common.cc` for rules and error texts, `linalg_ops.cc` for shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Flops, Tensor, elements
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import Dims, ShapeContext, merge_dim, subshape, with_rank_at_least


def check_batches(*inputs: Tensor) -> None:
    """Raises InvalidArgumentError unless all have the same rank, of 2 or more, and the same batch dimensions."""
    first = inputs[0]
    if first.ndim < 2:
        raise InvalidArgumentError(f"Input tensor 0 must have rank >= 2, got {first.ndim}")
    for other in inputs[1:]:
        if other.ndim != first.ndim:
            raise InvalidArgumentError("All input tensors must have the same rank.")
        if other.shape[:-2] != first.shape[:-2]:
            raise InvalidArgumentError("All input tensors must have the same outer dimensions.")


def check_square(matrix: Tensor) -> None:
    """Raise InvalidArgumentError unless the shape is `[..., n, n]`."""
    check_batches(matrix)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidArgumentError("Input matrix must be square.")


def widen(tensor: Tensor) -> Tensor:
    """Convert half and bfloat16 to float, as TensorFlow does for decompositions; other types are unchanged."""
    return tensor.astype(wide_dtype(tensor.dtype), copy=False)


def one_by_one(function: Callable[[Tensor], Tensor], matrices: Tensor) -> Tensor:
    """Apply a function to each matrix of `[..., n, n]`; it must keep the matrix's shape."""
    outputs = np.empty_like(matrices)
    for index in np.ndindex(matrices.shape[:-2]):
        outputs[index] = function(matrices[index])
    return outputs


# --- shape functions, costs and memory ------------------------------------------------------------------------------


def square(dims: Dims) -> Dims:
    """The shape with its last two dimensions merged. Raises ShapeError if they differ or the rank is below 2."""
    dims = with_rank_at_least(dims, 2)
    if dims is None:
        return None
    side = merge_dim(dims[-2], dims[-1])
    return (*dims[:-2], side, side)


def smaller(one: int, two: int) -> int:
    """The smaller of two dimensions; -1 if one is unknown and the other is not 0."""
    if 0 in (one, two):
        return 0
    return -1 if one < 0 or two < 0 else min(one, two)


def infer_square(context: ShapeContext) -> tuple[Dims]:
    """Static shape of the first input, which must be a batch of square matrices."""
    return (square(context.shapes[0]),)


def infer_batch(context: ShapeContext, outputs: int = 1) -> tuple[Dims, ...]:
    """`[..., n, n]` -> `[...]`: each output has one number for each matrix of the first input."""
    dims = with_rank_at_least(context.shapes[0], 2)
    if dims is not None:
        # this order determines the order in the error
        merge_dim(dims[-1], dims[-2])
    return (subshape(dims, 0, -2),) * outputs


def build_infer_nothing(outputs: int) -> Callable[[ShapeContext], tuple[Dims, ...]]:
    """Build the shape function of an old op: the shapes of its outputs are unknown."""

    def infer(context: ShapeContext) -> tuple[Dims, ...]:
        return (None,) * outputs

    return infer


def cubic(factor: float) -> Flops:
    """`factor * n^3` for each matrix `[n, n]` of the first input."""

    def flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
        (dims,) = inputs[:1]
        return int(factor * elements(dims) * (dims or (0,))[-1])

    return flops


def decomposition_memory(memory: KernelMemory) -> None:
    """Each output reuses the first input that fits and that no earlier output reuses.

    Most kernels of batches of matrices do so, but MatrixSolve and similar kernels allocate.
    """
    inputs = range(len(memory.inputs))
    for output in range(len(memory.outputs)):
        memory.forward(output, *inputs)
