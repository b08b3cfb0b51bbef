"""Requantization to a given range, or to the range that the values use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import QINT32, QUINT8, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output
from placesim.ops.kernels.quantized.ranges import dequantize, dequantize_in_floats, limits_of, quantize_in_floats, read_bound
from placesim.ops.kernels.shapes import infer_by

_Range = tuple[np.float32, np.float32]


def requantize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Convert steps to another range; return steps and range. The inputs are steps and the bounds of both ranges.

    Raises InvalidArgumentError for a bound that is not a scalar, a new range above zero, and new bounds out of order.
    """
    value, *bounds = inputs
    names = ("input_min", "input_max", "requested_output_min", "requested_output_max")
    low, high, new_low, new_high = map(read_bound, bounds, names)
    # also refuses NaN
    if not new_low <= 0:
        raise InvalidArgumentError(f"requested_output_min must be <= 0, but got {new_low:g}")
    if not new_high >= new_low:
        raise InvalidArgumentError(
            f"requested_output_max must be >= requested_output_min, but got {new_high:g} and {new_low:g}"
        )
    output = _change_range(value, (low, high), (new_low, new_high), attrs["Tinput"], attrs["out_type"])
    return output, np.asarray(new_low), np.asarray(new_high)


def _change_range(value: Tensor, old: _Range, new: _Range, source: DataType, target: DataType) -> Tensor:
    # TensorFlow has a faster method for these types, which rounds differently
    if source is QINT32 and target is QUINT8:
        return _change_range_in_fixed_point(value, old, new)
    return quantize_in_floats(dequantize_in_floats(value, *old, source), *new, target)


def _change_range_in_fixed_point(value: Tensor, old: _Range, new: _Range) -> Tensor:
    """Convert 32-bit steps to 8 bits by fixed-point arithmetic with 16 fractional bits."""
    one = 1 << 16
    size, new_size = old[1] - old[0], new[1] - new[0]
    if new_size == 0:
        return np.zeros(value.shape, np.uint8)
    scale = _as_int64(255.0 * one * np.float64(size) / np.float64(new_size))
    middle = np.float32(np.float64(old[0] + old[1]) / 2.0)
    shift = _as_int64(np.float64(middle * np.float32(255.0 / np.float64(new_size)) * np.float32(one)))
    start = _as_int64(one * (np.float64(new[0]) * 255.0) / np.float64(new_size))
    fixed = (value.astype(np.int64) * scale >> 32) + (shift - start + np.int64(one // 2))
    clamped: Tensor = np.clip(fixed >> 16, 0, 255)
    return clamped.astype(np.uint8)


def _as_int64(value: np.float64) -> np.int64:
    """Convert to an integer as a processor does: a number out of range, or NaN, becomes the lowest one."""
    return np.int64(value) if abs(value) < 2.0**63 else np.int64(-(2**63))


def find_range(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the bounds, scalars, of the range that the steps use; the lower bound is at most zero.

    The inputs are steps and their range's bounds, of which the first elements count. Raises InvalidArgumentError for an empty
    bound.
    """
    value, low, high = inputs
    if low.size == 0:
        raise InvalidArgumentError("Input min must not be empty.")
    if high.size == 0:
        raise InvalidArgumentError("Input max must not be empty.")
    used = _used_range(value, low.reshape(-1)[0], high.reshape(-1)[0], attrs["Tinput"])
    return np.asarray(used[0]), np.asarray(used[1])


def shrink_range(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Convert steps to the range that they use, in a smaller type; return steps and range.

    The inputs are steps and bounds of their range. Raises InvalidArgumentError for a bound that is not a scalar.
    """
    value, low, high = inputs
    old = read_bound(low, "input_min"), read_bound(high, "input_max")
    used = _used_range(value, *old, attrs["Tinput"])
    output = _change_range(value, old, used, attrs["Tinput"], attrs["out_type"])
    return output, np.asarray(used[0]), np.asarray(used[1])


def _used_range(value: Tensor, low: np.float32, high: np.float32, dtype: DataType) -> _Range:
    lowest, highest = limits_of(dtype)
    # without steps the range goes from its upper to its lower bound
    ends = np.array([value.min(initial=highest), value.max(initial=lowest)])
    first, last = dequantize(ends, low, high, dtype)
    return min(np.float32(0), first), last


TABLE: Table = {
    "QuantizeDownAndShrinkRange": Kernel(shrink_range, infer_by("x, []... -> x, [], []"), one_per_output),
    "RequantizationRange": Kernel(find_range, infer_by("*, [], [] -> [], []")),
    "Requantize": Kernel(requantize, infer_by("x, []... -> x, [], []"), one_per_output),
}
