"""Reuse of freed tensor memory: the process keeps it for the next step.

glibc's malloc returns each large block to the system when it is freed. For the next block of this size, the system zeroes and
maps each page on the first write. This takes about as long as the kernel that fills the block. Only malloc's first arena keeps
blocks of any size; other threads usually have arenas of their own, so threads that start later must share the first one.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from placesim.core.operating_system import has_glibc

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""
KEPT_BYTES = 1 << 30
"""Maximum bytes of free memory at the end of the heap, and of a freed block that is kept; twice this fits into an int."""


@cache
def _malloc() -> Any:
    """Return the C library if its malloc is glibc's, else None."""
    return ctypes.CDLL(None) if has_glibc() else None


@cache
def keep_freed_memory() -> None:
    """Keep freed blocks of up to `KEPT_BYTES` in this process from now on; does nothing with another C library."""
    if (malloc := _malloc()) is not None:
        malloc.mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        malloc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        malloc.mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return all free memory to the system, before the memory in use is measured."""
    if (malloc := _malloc()) is not None:
        malloc.malloc_trim(0)
