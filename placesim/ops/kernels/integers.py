"""Integers as C++ computes with them, where numpy does otherwise."""

from __future__ import annotations

import numpy as np

from placesim.ops.kernels.kernel import Tensor


def truncated_quotient(dividend: Tensor, divisor: Tensor) -> Tensor:
    """The quotient of two integer tensors that broadcast, cut off towards zero; 0 for a divisor of zero, as numpy has it."""
    # numpy rounds down; the remainder has the sign of the dividend, so that without it the division is exact
    return np.asarray(np.floor_divide(dividend - np.fmod(dividend, divisor), divisor))
