"""Narrow floats: functions of half and bfloat16 tensors are computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from placesim.ops.kernels.kernel import Tensor

_EXPONENT = np.uint32(0x7F800000)
"""Bits of a float32's exponent; alone, they are the power of two."""
_LARGE = np.float32(1 << 15)
"""The largest power of two in half."""
_SMALLEST_NORMAL = np.float32(2.0**-14)
"""Smaller halves have the same distance from each other as those above it."""
_ROUNDING = np.float32(1.5 * (1 << 13))
"""Float32 has 13 bits more than half."""


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether the type is half or bfloat16, whose kind is V in numpy."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether the type is a real float, bfloat16 included."""
    return dtype.kind in "fV"


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which kernels sum this type: float32 for half and bfloat16, else the type itself."""
    return np.dtype(np.float32) if is_narrow(dtype) else dtype


def packet_size(dtype: np.dtype[Any]) -> int:
    """Return the number of floats that Eigen processes together with AVX: 32 bytes, but at most 8 floats."""
    return min(32 // dtype.itemsize, 8)


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the lowest finite value of a real type, as a scalar of that type."""
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min)
    return dtype.type(False) if dtype.kind == "b" else dtype.type(_finite_limits(dtype).min)


def highest(dtype: np.dtype[Any]) -> Any:
    """Return the highest finite value of a real type, as a scalar of that type."""
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).max)
    return dtype.type(True) if dtype.kind == "b" else dtype.type(_finite_limits(dtype).max)


def _finite_limits(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def rounded_to_half(values: Tensor) -> Tensor:
    """Return float32 values rounded to half, to even in a tie, as float32.

    numpy's own conversions are scalar code, several times slower. A number of 1.5 times the power of two whose last bit has the
    weight of the value's last bit in half is added and subtracted again.
    """
    powers = (values.view(np.uint32) & _EXPONENT).view(np.float32)
    if values.size and powers.max() >= _LARGE:  # it may overflow, or is not finite
        return values.astype(np.float16).astype(np.float32)
    np.maximum(powers, _SMALLEST_NORMAL, out=powers)
    powers *= _ROUNDING
    found = values + powers
    found -= powers
    return np.copysign(found, values, out=found)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with half and bfloat16 inputs computed in float32, and the result rounded back."""

    @wraps(function)
    def compute(*inputs: Tensor) -> Any:
        dtype = inputs[0].dtype
        if not is_narrow(dtype):
            return function(*inputs)
        return function(*(x.astype(np.float32) for x in inputs)).astype(dtype)

    return compute
