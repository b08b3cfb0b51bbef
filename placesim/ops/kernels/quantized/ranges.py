"""Quantized integers and the float range that they represent: conversions, and the range of a product.

A quantized type has `2**bits` steps; its lowest value represents a range's minimum, its highest the maximum.
"""

from __future__ import annotations

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.kernel import Tensor

Float = np.float32 | float
LOWEST_FLOAT, HIGHEST_FLOAT = np.float32(-2147483648.0), np.float32(2147483520.0)
"""The floats nearest to int32's limits that can be cast to int32."""


def limits_of(dtype: DataType) -> tuple[int, int]:
    """Return the lowest and the highest value of a quantized type."""
    facts = np.iinfo(dtype.numpy)
    return int(facts.min), int(facts.max)


def step_count(dtype: DataType) -> int:
    """Return the number of values of the type."""
    return 1 << (8 * dtype.size)


def round_away(x: Tensor) -> Tensor:
    """Round to the nearest integers, halves away from zero, as C's `round`; any shape."""
    # not `trunc(x + 0.5)`, whose sum would round 0.49999997 up
    whole = np.trunc(x)
    rounded: Tensor = whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype)
    return rounded


def cast_to_integer(x: Tensor, dtype: DataType) -> Tensor:
    """Cast floats by way of int32 as the processor does; a value out of range, or NaN, becomes int32's lowest value."""
    fits = (x >= LOWEST_FLOAT) & (x < -LOWEST_FLOAT)
    return np.where(fits, x, LOWEST_FLOAT).astype(np.int64).astype(np.int32).astype(dtype.numpy)


def read_bound(tensor: Tensor, name: str) -> np.float32:
    """Return a bound of a range. Raises InvalidArgumentError unless it is a scalar."""
    if np.ndim(tensor) != 0:
        raise InvalidArgumentError(f"`{name}` must be rank 0 but is rank {np.ndim(tensor)}")
    return np.float32(tensor)


def quantize_unclamped(value: Tensor | Float, low: np.float32, high: np.float32, dtype: DataType) -> Tensor:
    """Convert values of any shape to int64 steps of a range, which may exceed the type's limits."""
    lowest = limits_of(dtype)[0]
    value = np.asarray(value, np.float32).astype(np.float64)
    # a range of one value has one step
    if low == high:
        return np.full(value.shape, lowest, np.int64)
    steps = step_count(dtype)
    scale = np.float64(steps) / (np.float64(high - low) * (steps / (steps - 1.0)))
    # as in TensorFlow, value and start are rounded separately, so that zero in the range is a step
    rounded = round_away(value * scale) - round_away(np.asarray(np.float64(low) * scale))
    return rounded.astype(np.int64) + lowest


def quantize(value: Tensor | Float, low: np.float32, high: np.float32, dtype: DataType) -> Tensor:
    """Convert values of any shape to steps of a range, limited to the type."""
    return np.clip(quantize_unclamped(value, low, high, dtype), *limits_of(dtype)).astype(dtype.numpy)


def dequantize(value: Tensor, low: np.float32, high: np.float32, dtype: DataType) -> Tensor:
    """Convert steps of any shape to float32 values."""
    value = np.asarray(value)
    if low == high:
        return np.full(value.shape, low, np.float32)
    steps = step_count(dtype)
    scale = np.float64(high - low) * (steps / (steps - 1.0)) / steps
    offset = value.astype(np.float64) - limits_of(dtype)[0]
    # the start is a multiple of the step's size in float, the offset a multiple of its size in double
    single = np.float64(np.float32(scale))
    start = round_away(np.asarray(np.float64(low) / single)) * single
    return (start + offset * scale).astype(np.float32)


def quantize_in_floats(value: Tensor, low: np.float32, high: np.float32, dtype: DataType) -> Tensor:
    """As `quantize`, in float32 arithmetic, as TensorFlow does for whole tensors; results may differ by a step."""
    lowest, highest = map(np.float32, limits_of(dtype))
    scale = np.float32(0.0 if low == high else (step_count(dtype) - 1.0) / np.float64(high - low))
    start = round_away(np.asarray(low * scale))
    steps = round_away(value * scale) - (start - lowest)
    # int32's limits are not exact in float
    steps = np.minimum(np.maximum(steps, max(lowest, LOWEST_FLOAT)), min(highest, HIGHEST_FLOAT))
    return cast_to_integer(steps, dtype)


def dequantize_in_floats(value: Tensor, low: np.float32, high: np.float32, dtype: DataType) -> Tensor:
    """As `dequantize`, in float32 arithmetic, as TensorFlow does for whole tensors."""
    scale = np.float32(np.float64(high - low) / (step_count(dtype) - 1.0))
    start = low if low == high else round_away(np.asarray(low / scale)) * scale
    return (start - np.float32(limits_of(dtype)[0]) * scale) + value.astype(np.float32) * scale


def step_size(low: np.float32, high: np.float32, dtype: DataType) -> np.float32:
    """Return the size of one step of a range."""
    lowest, highest = limits_of(dtype)
    return np.float32((high - low) / np.float32(highest - lowest))


def product_range(one: np.float32, two: np.float32, dtype: DataType) -> tuple[np.float32, np.float32]:
    """Return the range of a product in `dtype` from its factors' step sizes."""
    lowest, highest = limits_of(dtype)
    step = np.float32(one * two)
    return np.float32(step * np.float32(lowest)), np.float32(step * np.float32(highest))
