"""Expensive elementwise functions, applied to parts of a tensor: each part stays in a cache, and threads share the parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from placesim.ops.kernels.blocks.work_parts import even_parts, shares
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.process.intra_op_threads import spread

PART_BYTES = 1 << 19
"""Approximate size of a part: small enough to stay in a processor's cache from pass to pass, large enough for a thread."""


def part_count(nbytes: int) -> int:
    """Number of parts for a tensor of `nbytes` bytes."""
    return shares(nbytes // PART_BYTES)


def in_parts(function: Callable[..., Any], *, has_rows: bool = False) -> Callable[..., Any]:
    """Wrap a function of one tensor that keeps shape and type: a large tensor is processed in parts, with the same result.

    The function is elementwise. With `has_rows` it works along the last axis, and gets matrices of whole rows.
    """

    @wraps(function)
    def compute(x: Tensor, **attrs: Any) -> Any:
        count = part_count(x.nbytes)
        if count < 2:
            return function(x, **attrs)
        flat = x.reshape(-1, x.shape[-1]) if has_rows else x.reshape(-1)
        output = np.empty_like(flat)

        def work(part: slice) -> None:
            output[part] = function(flat[part], **attrs)

        spread(work, list(even_parts(len(flat), count)))
        return output.reshape(x.shape)

    return compute
