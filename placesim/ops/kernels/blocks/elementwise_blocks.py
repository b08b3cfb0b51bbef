"""Functions that do much for each element, in parts of a tensor: passes stay in a cache, and threads share the parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from placesim.ops.kernels.blocks.work_parts import even_parts, shares
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.process.intra_op_threads import spread

PART_BYTES = 1 << 19
"""Of a part, about: what a pass writes is still in a processor's cache in the next one, and threads are worth waking."""


def part_count(nbytes: int) -> int:
    """Number of parts for a tensor of `nbytes` bytes."""
    return shares(nbytes // PART_BYTES)


def in_parts(function: Callable[..., Any], *, has_rows: bool = False) -> Callable[..., Any]:
    """The function of one tensor, which keeps its shape and type, with large tensors cut into parts; to the bit the same.

    It is elementwise; one that `has_rows` takes the last axis as a whole, and gets matrices.
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
