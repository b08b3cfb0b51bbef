"""Comparisons, logic and bits of two tensors that broadcast together."""

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
    """The row of Equal or NotEqual of two tensors that broadcast; InvalidArgumentError if they do not.

    Without `incompatible_shape_error` shapes that do not fit give one scalar, `when_incompatible`, instead.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x, y = inputs
        if not attrs["incompatible_shape_error"] and broadcast_dims(x.shape, y.shape) is None:
            # shapes that do not fit make the tensors unequal as a whole
            return (np.array(when_incompatible),)
        check_broadcast(x, y)
        return (np.asarray(function(x, y), bool),)

    return Kernel(compute, _infer_equality, one_per_output, direct=function, memory=binary_memory)


def _approximately_equal(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Two tensors of one shape; InvalidArgumentError for shapes that differ, which do not broadcast here."""
    x, y = inputs
    if x.shape != y.shape:
        shapes = f"x shape: {format_dims(x.shape)}. y shape: {format_dims(y.shape)}"
        raise InvalidArgumentError(f"x and y must be of the same shape. {shapes}")
    # strictly less, so that a tolerance of zero finds nothing equal
    return (np.abs(x - y) < x.dtype.type(attrs["tolerance"]),)


def shift(function: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Shift of integers, broadcast, by an amount clamped to the type's bits, beyond which C leaves it undefined."""

    def compute(x: Tensor, y: Tensor) -> Any:
        return function(x, np.clip(y, y.dtype.type(0), y.dtype.type(8 * x.dtype.itemsize - 1)))

    return compute


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_equality(context: ShapeContext) -> Sequence[Dims]:
    one, two = context.shapes
    if context.attrs["incompatible_shape_error"] or one is None or two is None:
        return (broadcast(one, two),)
    return (_broadcast_or_scalar(one, two),)


def _broadcast_or_scalar(one: tuple[int, ...], two: tuple[int, ...]) -> Dims:
    """The broadcast shape; a scalar where it cannot be, unknown where an unknown dimension may or may not fit."""
    rank = max(len(one), len(two))
    dims: list[int] = []
    for a, b in zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(two)) + two, strict=True):
        if a == 1 or b == 1:
            dims.append(b if a == 1 else a)
        elif a < 0 and b < 0:
            dims.append(-1)
        # it may be that dimension or a misfit, which would make the result a scalar
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
