"""Reused buffers of each thread, since allocating memory for each block of work would cost more than the work."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.ops.kernels.kernel import Tensor

LARGEST_KEPT_BYTES = 1 << 26
"""Larger buffers are not kept for reuse."""

_local = threading.local()


def scratch(name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
    """Uninitialised array in this thread's buffer `name`, valid until the next request for that name."""
    size = prod(shape) * dtype.itemsize
    if size > LARGEST_KEPT_BYTES:
        return np.empty(shape, dtype)
    buffer = _local.__dict__.get(name)
    # a buffer that is too small is replaced, so it grows to the largest size requested
    if buffer is None or buffer.nbytes < size:
        buffer = _local.__dict__[name] = np.empty(size, np.uint8)
    found: Tensor = buffer[:size].view(dtype).reshape(shape)
    return found


def padded_scratch(shape: Sequence[int], inside: Sequence[slice], dtype: np.dtype[Any]) -> Tensor:
    """Array that is zero outside of `inside`; the caller fills all of `inside`. Valid until the next call in this thread.

    `inside` has a slice for each axis but the last, and no margin along the first.  Most calls repeat the previous arguments,
    and need not clear the margins.
    """
    region = scratch("padded", shape, dtype)
    layout = [*shape, dtype, *inside]
    if _local.__dict__.get("layout") == layout and region.nbytes <= LARGEST_KEPT_BYTES:
        return region
    # only the margins are cleared, since the caller writes all elements inside
    for axis, part in enumerate(inside[1:], 1):
        everywhere = (slice(None),) * axis
        region[(*everywhere, slice(0, part.start))] = 0
        region[(*everywhere, slice(part.stop, None))] = 0
    _local.layout = layout
    return region
