"""Partly known shapes at run time, which tensor arrays and tensor lists keep for their elements."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Shape
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.shapes import Dims


def show_partial(dims: Dims) -> str:
    """Return a shape as text: `[?,3]`, or `<unknown>` for an unknown rank."""
    return str(Shape(dims))


def is_compatible(one: Dims, two: Dims) -> bool:
    """Whether a tensor can have both shapes."""
    if one is None or two is None:
        return True
    return len(one) == len(two) and all(a == b or a < 0 or b < 0 for a, b in zip(one, two, strict=True))


def merge_partial(one: Dims, two: Dims) -> Dims:
    """Return the common shape of two partial shapes. Raises InvalidArgumentError if they conflict."""
    if one is None or two is None:
        return two if one is None else one
    if len(one) != len(two):
        raise InvalidArgumentError(f"PartialTensorShape: Incompatible ranks during merge: {len(one)} vs. {len(two)}")
    if not is_compatible(one, two):
        raise InvalidArgumentError(
            f"PartialTensorShape: Incompatible shapes during merge: {show_partial(one)} vs. {show_partial(two)}"
        )
    return tuple(b if a < 0 else a for a, b in zip(one, two, strict=True))


def merge_shapes(dims: Dims, tensors: Iterable[Tensor | None]) -> Dims:
    """Return the common shape of `dims` and all tensors that are not None. Raises InvalidArgumentError if they conflict."""
    for tensor in tensors:
        if tensor is not None:
            dims = merge_partial(dims, np.shape(tensor))
    return dims


def partial_shape_of(tensor: Tensor) -> Dims:
    """Return the shape that a tensor gives: `[rank]` dimensions, -1 if unknown, or the scalar -1 for an unknown rank.

    Raises InvalidArgumentError for another scalar, a rank above 1, or a dimension below -1.
    """
    tensor = np.asarray(tensor)
    if not tensor.ndim:
        if int(tensor) == -1:
            return None
        raise InvalidArgumentError("The only valid scalar shape tensor is the fully unknown shape specified as -1.")
    if tensor.ndim > 1:
        raise InvalidArgumentError(f"Shape must be at most rank 1 but is rank {tensor.ndim}")
    dims = tuple(map(int, tensor))
    for dim in dims:
        if dim < -1:
            raise InvalidArgumentError(f"Dimension {dim} must be >= -1")
    return dims
