"""Integer arithmetic as in C++, where numpy's differs."""

from __future__ import annotations

import numpy as np

from placesim.ops.kernels.kernel import Tensor


def truncated_quotient(dividend: Tensor, divisor: Tensor) -> Tensor:
    """Return the quotient of two integer tensors that broadcast, rounded towards zero. A zero divisor gives 0, as in numpy."""
    # numpy rounds down, so the remainder is subtracted first: then the division is exact
    return np.asarray(np.floor_divide(dividend - np.fmod(dividend, divisor), divisor))
