"""Floats to quantized integers (QuantizeV2) and back (Dequantize)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import BFLOAT16, DataType
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output
from placesim.ops.kernels.quantized.ranges import (
    cast_to_integer,
    dequantize_in_floats,
    limits_of,
    quantize_in_floats,
    round_away,
)
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, merge_dim, rank_of, with_rank, with_rank_at_least

# --- QuantizeV2 -----------------------------------------------------------------------------------------------------


def quantize_tensor(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Quantize floats; return their steps, in the floats' shape, and the range that the steps stand for.

    The inputs are floats, lower and upper bounds: of one range, or one for each slice along attr `axis`. Raises
    InvalidArgumentError for invalid bounds or rounding; UnimplementedError for mode MIN_FIRST along an axis.
    """
    value, lows, highs = inputs
    axis, mode = attrs["axis"], attrs["mode"]
    if attrs["round_mode"] == "HALF_TO_EVEN" and mode != "SCALED":
        raise InvalidArgumentError(f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{mode}'.")
    _check_quantize_ranges(value, lows, highs, axis)
    slices = value.shape[axis] if axis > -1 else 1
    if slices == 1:
        output, low, high = _quantize_slice(value, lows.reshape(-1)[0], highs.reshape(-1)[0], attrs)
        return output, np.asarray(low), np.asarray(high)
    if mode == "MIN_FIRST":
        raise UnimplementedError("MIN_FIRST mode is not implemented for Quantize with axis != -1.")
    output = np.empty(value.shape, attrs["T"].numpy)
    found_lows, found_highs = np.empty_like(lows), np.empty_like(highs)
    for number in range(slices):
        where = (slice(None),) * axis + (number,)
        output[where], found_lows[number], found_highs[number] = _quantize_slice(
            value[where], lows[number], highs[number], attrs
        )
    return output, found_lows, found_highs


def _check_quantize_ranges(value: Tensor, lows: Tensor, highs: Tensor, axis: int) -> None:
    if axis < 0:
        for name, bound in (("min_range", lows), ("max_range", highs)):
            if bound.size != 1:
                raise InvalidArgumentError(
                    f"If axis is not specified, {name} must contain a single float element, "
                    f"but it contains {bound.size} elements"
                )
        return
    if value.ndim <= axis:
        raise InvalidArgumentError(
            "Axis is on a zero-based index, so its value must always be less than number of input's dims, "
            f"but given axis value was {axis} and input's dims was {value.ndim}"
        )
    for name, bound in (("min_range", lows), ("max_range", highs)):
        rule = (
            f"If axis is specified, {name} must be a 1-D tensor whose size matches the axis dimension "
            f"of the input and output tensors, but {name}"
        )
        if bound.ndim != 1:
            raise InvalidArgumentError(f"{rule} dims are {bound.ndim}")
        if len(bound) != value.shape[axis]:
            raise InvalidArgumentError(
                f"{rule} is a 1-D tensor of size {len(bound)} and input's axis dimension is of size {value.shape[axis]}"
            )


def _quantize_slice(value: Tensor, low: np.float32, high: np.float32, attrs: Attrs) -> tuple[Tensor, Any, Any]:
    """Quantize in one range, which is extended to include zero and to a minimum size."""
    if high < low:
        raise InvalidArgumentError("input_max_range must be larger than input_min_range.")
    # for NaN the order of operands matters: `max` returns the second operand only if it is larger
    zero = np.float32(0)
    largest = max(abs(low), abs(high))
    least = max(np.float32(1), largest) * np.float32(attrs["ensure_minimum_range"])
    low = min(zero, low)
    enough = max(high, np.float32(low + least))
    high = max(zero, enough)
    if attrs["mode"] == "MIN_COMBINED":
        return _quantize_combined(value, low, high, attrs["T"]), low, high
    if attrs["mode"] == "MIN_FIRST":
        return quantize_in_floats(value, low, high, attrs["T"]), low, high
    return _quantize_scaled(value, low, high, attrs)


def _clamp(value: Tensor, low: np.float32, high: np.float32) -> Tensor:
    clamped: Tensor = np.maximum(np.minimum(value, high), low)
    return clamped


def _quantize_combined(value: Tensor, low: np.float32, high: np.float32, dtype: DataType) -> Tensor:
    lowest, highest = limits_of(dtype)
    scale = np.float32(np.float64(highest - lowest) / np.float64(high - low))
    steps = (_clamp(value, low, high) - low) * scale
    # unsigned steps round halves up, signed ones away from zero
    if lowest == 0:
        return cast_to_integer(steps + np.float32(0.5), dtype)
    return cast_to_integer(round_away(steps - _half_range(dtype)), dtype)


def _half_range(dtype: DataType) -> np.float32:
    """Return the offset that centres the steps of a signed type."""
    lowest, highest = limits_of(dtype)
    return np.float32(0 if lowest == 0 else (highest - lowest + 1) / 2)


def _quantize_scaled(value: Tensor, low: np.float32, high: np.float32, attrs: Attrs) -> tuple[Tensor, Any, Any]:
    """Quantize so that zero stays zero; the side that needs larger steps determines the scale."""
    lowest, highest = limits_of(attrs["T"])
    first, last = np.float32(lowest + attrs["narrow_range"]), np.float32(highest)
    largest = np.finfo(np.float32).max
    scale = min(first / low if first * low > 0 else largest, last / high if last * high > 0 else largest)
    low, high = np.float32(first / scale), np.float32(last / scale)
    steps = _clamp(value, low, high) * scale
    rounded = np.rint(steps) if attrs["round_mode"] == "HALF_TO_EVEN" else round_away(steps)
    return cast_to_integer(rounded, attrs["T"]), low, high


# --- Dequantize -----------------------------------------------------------------------------------------------------


def dequantize_tensor(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Convert steps to floats, in one range or in one for each slice along attr `axis`; inputs: steps, lower and upper bounds.

    Raises InvalidArgumentError for inputs or attrs that do not fit; UnimplementedError for mode MIN_FIRST along an axis.
    """
    value, lows, highs = inputs
    axis, mode = attrs["axis"], attrs["mode"]
    if attrs["dtype"] is BFLOAT16 and mode != "MIN_COMBINED":
        raise InvalidArgumentError(f"When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '{mode}'")
    if axis >= value.ndim:
        raise InvalidArgumentError(f"Axis must be less than input dimension({value.ndim}), got {axis}")
    slices = value.shape[axis] if axis > -1 else 1
    for name, bound in (("input_min_tensor", lows), ("input_max_tensor", highs)):
        if bound.size != slices:
            raise InvalidArgumentError(
                f"{name} must have as many elements as input on the dequantization axis ({axis}), "
                f"got {bound.size}, expected {slices}"
            )
    # a single slice is treated like no axis
    if slices != 1 and mode == "MIN_FIRST":
        raise UnimplementedError("MIN_FIRST mode is not implemented for Dequantize with axis != -1.")
    shape = (slices, *[1] * (value.ndim - axis - 1)) if slices != 1 else ()
    found = _dequantize_steps(value, lows.reshape(shape), highs.reshape(shape), attrs)
    return (found.astype(attrs["dtype"].numpy, copy=False),)


def _dequantize_steps(value: Tensor, low: Tensor, high: Tensor, attrs: Attrs) -> Tensor:
    dtype = attrs["T"]
    lowest, highest = limits_of(dtype)
    steps = value.astype(np.float32)
    if attrs["mode"] == "MIN_COMBINED":
        scale = (high - low) / np.float32(highest - lowest)
        return (steps + _half_range(dtype)) * scale + low
    if attrs["mode"] == "MIN_FIRST":
        return dequantize_in_floats(value, np.float32(low), np.float32(high), dtype)
    from_high = high / np.float32(highest)
    # unsigned steps ignore the lower bound
    if lowest == 0:
        return steps * from_high
    return steps * np.maximum(low / np.float32(lowest + attrs["narrow_range"]), from_high)


# --- shape functions ------------------------------------------------------------------------------------------------


def check_axis(context: ShapeContext) -> None:
    """Raise ShapeError for attr `axis` below -1; -1 means no axis."""
    axis = context.attrs["axis"]
    if axis < -1:
        raise ShapeError(f"axis should be at least -1, got {axis}")


def bound_dims(context: ShapeContext, index: int) -> tuple[int, ...]:
    """Return the shape of a bound of the range: a scalar, or a vector along the axis."""
    return with_rank(context.shapes[index], 0 if context.attrs["axis"] == -1 else 1)


def merge_slices(context: ShapeContext, bound: Sequence[int]) -> None:
    """Raise ShapeError if a bound of the range is not as long as the axis."""
    axis = context.attrs["axis"]
    if axis != -1:
        value = with_rank_at_least(context.shapes[0], axis + 1)
        merge_dim(bound[0], -1 if value is None else value[axis])


def _infer_quantize(context: ShapeContext) -> Sequence[Dims]:
    check_axis(context)
    _, bound = bound_dims(context, 1), bound_dims(context, 2)
    merge_slices(context, bound)
    return context.shapes[0], bound, bound


def _infer_dequantize(context: ShapeContext) -> Sequence[Dims]:
    check_axis(context)
    # TensorFlow treats an unknown rank as -1, so that every axis is too large
    axis, rank = context.attrs["axis"], rank_of(context.shapes[0])
    known = -1 if rank is None else rank
    if axis > known:
        raise ShapeError(f"Axis must be less than input dimension({known}), got {axis}")
    return _infer_quantize(context)[:1]


TABLE: Table = {
    "Dequantize": Kernel(dequantize_tensor, _infer_dequantize, one_per_output),
    "QuantizeV2": Kernel(quantize_tensor, _infer_quantize, one_per_output),
}
