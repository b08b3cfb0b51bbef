"""Comparisons, logic and bitwise functions of two tensors that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.broadcasting import binary, binary_memory, check_broadcast
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output
from placesim.ops.kernels.shape_operands import broadcast_dims
from placesim.ops.kernels.shapes import Dims, ShapeContext, broadcast, format_dims, merged


def equality(function: Callable[[Tensor, Tensor], Any], when_incompatible: bool) -> Kernel:
    """Return the table row of Equal or NotEqual. Its kernel raises InvalidArgumentError for shapes that do not broadcast.

    Without attr `incompatible_shape_error`, the kernel returns the scalar `when_incompatible` for such shapes.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x, y = inputs
        if not attrs["incompatible_shape_error"] and broadcast_dims(x.shape, y.shape) is None:
            return (np.array(when_incompatible),)
        check_broadcast(x, y)
        return (np.asarray(function(x, y), bool),)

    return Kernel(compute, _infer_equality, one_per_output, direct=function, memory=binary_memory)


def _approximately_equal(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Compare tensors of one shape. Raises InvalidArgumentError for unequal shapes, which do not broadcast here."""
    x, y = inputs
    if x.shape != y.shape:
        shapes = f"x shape: {format_dims(x.shape)}. y shape: {format_dims(y.shape)}"
        raise InvalidArgumentError(f"x and y must be of the same shape. {shapes}")
    # strictly less, so that a tolerance of zero finds nothing equal
    return (np.abs(x - y) < x.dtype.type(attrs["tolerance"]),)


def shift(function: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Return `function`, a shift of integers, with the amount limited to the type's bits; a larger amount is undefined in C."""

    def compute(x: Tensor, y: Tensor) -> Any:
        return function(x, np.clip(y, y.dtype.type(0), y.dtype.type(8 * x.dtype.itemsize - 1)))

    return compute


def _infer_equality(context: ShapeContext) -> Sequence[Dims]:
    one, two = context.shapes
    if context.attrs["incompatible_shape_error"] or one is None or two is None:
        return (broadcast(one, two),)
    return (_broadcast_or_scalar(one, two),)


def _broadcast_or_scalar(one: tuple[int, ...], two: tuple[int, ...]) -> Dims:
    """Return the broadcast shape; a scalar if shapes do not fit, an unknown shape if unknown dimensions decide."""
    rank = max(len(one), len(two))
    dims: list[int] = []
    for a, b in zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(two)) + two, strict=True):
        if a == 1 or b == 1:
            dims.append(b if a == 1 else a)
        elif a < 0 and b < 0:
            dims.append(-1)
        elif a < 0 or b < 0:
            return None
        elif a != b:
            return ()
        else:
            dims.append(a)
    return tuple(dims)


TABLE: Table = {
    "Equal": equality(np.equal, when_incompatible=False),
    "NotEqual": equality(np.not_equal, when_incompatible=True),
    "ApproximateEqual": Kernel(_approximately_equal, merged, one_per_output),
    "Less": binary(np.less),
    "LessEqual": binary(np.less_equal),
    "Greater": binary(np.greater),
    "GreaterEqual": binary(np.greater_equal),
    "LogicalAnd": binary(np.logical_and),
    "LogicalOr": binary(np.logical_or),
    "BitwiseAnd": binary(np.bitwise_and),
    "BitwiseOr": binary(np.bitwise_or),
    "BitwiseXor": binary(np.bitwise_xor),
    "LeftShift": binary(shift(np.left_shift)),
    "RightShift": binary(shift(np.right_shift)),
}
