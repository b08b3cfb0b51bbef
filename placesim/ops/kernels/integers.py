"""Integer arithmetic as in C++, where numpy's differs."""

from __future__ import annotations

import numpy as np

from placesim.ops.kernels.kernel import Tensor


def truncated_quotient(dividend: Tensor, divisor: Tensor) -> Tensor:
    """Return the quotient of two integer tensors that broadcast, rounded towards zero; 0 for a zero divisor, as in numpy."""
    # numpy rounds down; the remainder has the sign of the dividend, so that without it the division is exact
    return np.asarray(np.floor_divide(dividend - np.fmod(dividend, divisor), divisor))
