"""Diag and DiagPart: diagonals of tensors of even rank, which are the elements whose index has two equal halves.

Source: TensorFlow's `diag_op.cc` and the ops' shape functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, concatenate, format_dims, merge_dim, with_rank_at_least


def compute_diag(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Diag: a tensor of shape s -> a tensor of shape s + s with these elements on the diagonal, else zeros.

    Raises InvalidArgumentError for a scalar.
    """
    (diagonal,) = inputs
    if not diagonal.ndim:
        raise InvalidArgumentError("Input must be at least rank 1, got 0")
    output = np.zeros((diagonal.size, diagonal.size), diagonal.dtype)
    np.fill_diagonal(output, diagonal.reshape(-1))
    return (output.reshape(diagonal.shape * 2),)


def compute_diag_part(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """DiagPart: a tensor of shape s + s -> its diagonal, of shape s.

    Raises InvalidArgumentError for an odd rank, or a shape with different halves.
    """
    (tensor,) = inputs
    half, odd = divmod(tensor.ndim, 2)
    if odd:
        raise InvalidArgumentError(  # the blanks are TensorFlow's
            f"The rank of the tensor should be {' ' * 40} even and positive, got shape {format_dims(tensor.shape)}"
        )
    for axis in range(half):
        if tensor.shape[axis] != tensor.shape[axis + half]:
            raise InvalidArgumentError(
                f"Invalid shape {format_dims(tensor.shape)}: dimensions {axis} and {axis + half} do not match."
            )
    side = prod(tensor.shape[:half])
    return (tensor.reshape(side, side).diagonal().copy().reshape(tensor.shape[:half]),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_diag(context: ShapeContext) -> tuple[Dims]:
    dims = with_rank_at_least(context.shapes[0], 1)
    return (concatenate(dims, dims),)


def _infer_diag_part(context: ShapeContext) -> tuple[Dims]:
    dims = context.shapes[0]
    if dims is None:
        return (None,)
    if len(dims) % 2 or not dims:
        raise ShapeError(f"Input must have even and non-zero rank, input rank is {len(dims)}")
    half = len(dims) // 2
    return (tuple(map(merge_dim, dims[:half], dims[half:])),)


TABLE: Table = {
    "Diag": Kernel(compute_diag, _infer_diag),
    "DiagPart": Kernel(compute_diag_part, _infer_diag_part),
}
