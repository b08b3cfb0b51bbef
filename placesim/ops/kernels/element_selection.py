"""Choice between the elements of two tensors, without a branch for each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.ops.kernels.kernel import Tensor

_FEW = 256
"""Below this number of elements, the time depends on the number of numpy calls."""
_BITS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def choose(condition: Tensor, x: Tensor, y: Tensor) -> Any:
    """Return `x` where the condition holds, and `y` elsewhere. All three broadcast; `x` and `y` have one dtype.

    The result is bit-equal to that of `np.where`. But `np.where` branches at each element, and takes ten times as long if the
    processor can't predict the condition (such as the sign of a layer's output).
    """
    dtype = x.dtype
    bits = _BITS.get(dtype.itemsize)
    if condition.size < _FEW or bits is None or dtype != y.dtype or dtype.hasobject:
        return np.where(condition, x, y)
    ones = np.negative(condition.view(np.int8)).astype(bits, copy=False)  # all bits set where the condition holds
    left, right = x.view(bits), y.view(bits)
    return np.asarray(((left ^ right) & ones) ^ right).view(dtype)
