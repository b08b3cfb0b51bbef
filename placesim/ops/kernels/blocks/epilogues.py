"""Epilogues: an op's kernel applies the next op of a fused group to each block of its output, while the block is in a cache.

The executor offers an epilogue (`runtime/executors/fusion.py`); a kernel that works in blocks may take it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from placesim.ops.kernels.kernel import Tensor

Finish = Callable[[slice], object]
"""Applies the next op to these rows of an output `[..., channels]`, which is flattened to a matrix with channels as columns."""
Begin = Callable[[Tensor], Finish]
"""An epilogue: called with the empty output, it returns the `Finish` for its rows. Of several calls, the last one counts."""

_local = threading.local()


def leave(rows: slice) -> None:
    """Do nothing: the `Finish` if no op follows."""


def nothing_follows(output: Tensor) -> Finish:
    """The epilogue if no op follows."""
    return leave


def offer(begin: Begin) -> None:
    """Offer an epilogue to the first kernel of this thread that calls `taken`; `nothing_follows` withdraws an offer."""
    _local.begin = begin


def taken() -> Begin:
    """Take the epilogue offered in this thread; the kernel must then apply it to all rows of its output."""
    begin: Begin = _local.__dict__.get("begin", nothing_follows)
    _local.begin = nothing_follows
    return begin
