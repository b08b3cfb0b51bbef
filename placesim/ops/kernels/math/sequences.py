"""Sequences made from scalars (Range, LinSpace), and the cross product of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import FailedPreconditionError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements, one_per_output
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    merge,
    with_rank,
    with_rank_at_least,
    with_value,
)

RANGE_NAMES = ("start", "limit", "delta")
LINE_NAMES = ("start", "stop", "num")


def _format_number(value: Any) -> str:
    """Return a number as C++ streams print it: six digits of a float."""
    return f"{float(value):g}" if value.dtype.kind in "fV" else str(int(value))


def _check_scalar(name: str, value: Tensor, or_one_element: bool = False) -> None:
    if value.ndim and not (or_one_element and value.shape == (1,)):
        raise InvalidArgumentError(f"{name} must be a scalar, not shape {format_dims(value.shape)}")


# --- Range ----------------------------------------------------------------------------------------------------------


def _range(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return the numbers from `start` to `limit` by `delta`, `[ceil((limit - start) / delta)]`."""
    for name, value in zip(RANGE_NAMES, inputs, strict=True):
        # old graphs give Range vectors of one element
        _check_scalar(name, value, or_one_element=True)
    start, limit, delta = (value.reshape(())[()] for value in inputs)
    if delta == 0:
        raise InvalidArgumentError(f"Requires delta != 0: {_format_number(delta)}")
    if not (start <= limit if delta > 0 else start >= limit):
        raise InvalidArgumentError(_wrong_direction(start, limit, delta))
    steps = np.arange(_range_size(start, limit, delta)).astype(start.dtype)
    return (start + steps * delta,)


def _wrong_direction(start: Any, limit: Any, delta: Any) -> str:
    rule = "start <= limit when delta > 0" if delta > 0 else "start >= limit when delta < 0"
    return f"Requires {rule}: {_format_number(start)}/{_format_number(limit)}"


def _range_size(start: Any, limit: Any, delta: Any) -> int:
    """Return the number of elements. Raises InvalidArgumentError for more than an int64 can count."""
    if start.dtype.kind in "iu":
        return -(-abs(int(limit) - int(start)) // abs(int(delta)))
    # the division's rounding in the floats' own type decides whether there is a last element
    size = abs(float((limit - start) / delta))
    if not size <= np.iinfo(np.int64).max:
        raise InvalidArgumentError(f"Requires ((limit - start) / delta) <= {np.iinfo(np.int64).max}")
    return math.ceil(size)


# --- LinSpace -------------------------------------------------------------------------------------------------------


def _line(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return `num` numbers from `start` to `stop`, both included. Raises InvalidArgumentError for num below 1."""
    for name, value in zip(LINE_NAMES, inputs, strict=True):
        _check_scalar(name, value)
    start, stop, count = inputs[0], inputs[1], int(inputs[2])
    if count <= 0:
        raise InvalidArgumentError(f"Requires num > 0: {count}")
    if count == 1:
        return (np.reshape(start, 1),)
    dtype = start.dtype.type
    step = (stop - start) / dtype(count - 1)
    result = start + step * np.arange(count).astype(dtype)
    # exactly stop, without the steps' rounding
    result[-1] = stop
    return (result,)


# --- Cross ----------------------------------------------------------------------------------------------------------


def _cross(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return the cross products of vectors `[..., 3]`. Raises FailedPreconditionError for vectors of another length."""
    a, b = inputs
    if a.shape != b.shape:
        shapes = f"{format_dims(a.shape)} vs. {format_dims(b.shape)}"
        raise InvalidArgumentError(f"Both inputs must be of same shape: {shapes}")
    if not a.ndim:
        raise InvalidArgumentError(f"Input must be at least 1D{format_dims(a.shape)}")
    if a.shape[-1] != 3:
        raise FailedPreconditionError("Cross-products are only defined for 3-element vectors.")
    next_axis, last_axis = [1, 2, 0], [2, 0, 1]
    return (a[..., next_axis] * b[..., last_axis] - a[..., last_axis] * b[..., next_axis],)


# --- shape functions ------------------------------------------------------------------------------------------------


def _scalar_shapes(context: ShapeContext, names: Sequence[str]) -> None:
    for name, dims in zip(names, context.shapes, strict=True):
        try:
            with_rank(dims, 0)
        except ShapeError as error:
            raise ShapeError(f"{error.message}\n\t for '{name}'") from None


def _infer_range(context: ShapeContext) -> Sequence[Dims]:
    _scalar_shapes(context, RANGE_NAMES)
    values = [context.value(index) for index in range(3)]
    if any(value is None for value in values):
        return ((-1,),)
    # TensorFlow's shape function does not support half, although its kernel does
    if context.attrs["Tidx"].name == "half":
        raise ShapeError(f"Unsupported dtype{context.attrs['Tidx'].number}")
    start, limit, delta = (value[()] for value in values if value is not None)
    if delta == 0:
        raise ShapeError("Requires delta != 0")
    if start > limit if delta > 0 else delta < 0 and start < limit:
        raise ShapeError(_wrong_direction(start, limit, delta))
    if np.isnan((limit - start) / delta):
        return ((int(np.iinfo(np.int64).min),),)  # as C++ converts it
    try:
        return ((_range_size(start, limit, delta),),)
    except InvalidArgumentError as error:
        raise ShapeError(error.message) from None


def _infer_line(context: ShapeContext) -> Sequence[Dims]:
    _scalar_shapes(context, LINE_NAMES)
    count = context.scalar_value(2)
    if count is not None and count <= 0:
        raise ShapeError(f"Requires num > 0: {count}")
    return ((-1 if count is None else count,),)


def _infer_cross(context: ShapeContext) -> Sequence[Dims]:
    one, two = (with_rank_at_least(dims, 1) for dims in context.shapes)
    dims = merge(one, two)
    if dims is not None:
        with_value(dims[-1], 3)
    return (dims,)


TABLE: Table = {
    "Range": Kernel(_range, _infer_range, traits=Trait.SPELLS_SIZE),
    "LinSpace": Kernel(_line, _infer_line, one_per_output, traits=Trait.SPELLS_SIZE),
    "Cross": Kernel(_cross, _infer_cross, lambda inputs, outputs, attrs: 3 * elements(outputs[0])),
}
