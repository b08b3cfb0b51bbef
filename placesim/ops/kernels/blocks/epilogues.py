"""Epilogues of ops: the next op of a fused group, applied by the op's kernel to each block of its output as soon as it is
written.

The block is in the cache of the thread that made it.  Who runs the kernel offers what follows (`runtime/executors/fusion.py`);
a kernel that works in blocks takes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placesim.ops.kernels.kernel import Tensor

Finish = Callable[[slice], object]
"""Does what follows to these rows of an output `[..., channels]`, taken as a matrix of rows of channels."""
Begin = Callable[[Tensor], Finish]
"""Called with an output before any part of it is finished; of several calls, the last is for the kernel's result."""

_local = threading.local()


def leave(rows: slice) -> None:
    """Do nothing, if no op follows."""


def nothing_follows(output: Tensor) -> Finish:
    """Epilogue of a kernel without an offered one."""
    return leave


@contextmanager
def offered(begin: Begin) -> Iterator[None]:
    """Context in which the first kernel of this thread that asks may take the epilogue."""
    _local.begin = begin
    try:
        yield
    finally:
        _local.begin = nothing_follows


def taken() -> Begin:
    """Epilogue offered in this thread: a kernel that takes it returns an output with all rows finished."""
    begin: Begin = _local.__dict__.get("begin", nothing_follows)
    _local.begin = nothing_follows
    return begin
