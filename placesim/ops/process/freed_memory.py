"""Reuse of freed tensor memory: the process keeps it for the next step.

glibc's malloc returns every large block to the system as soon as it is freed. The next block of that size is new: the system
zeroes it and maps it page by page on first write. That takes about as long as the kernel that fills it.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
KEPT_BYTES = 1 << 30
"""Bytes of free memory kept at the end of the heap, and of the largest block kept; twice this fits into an int."""


@cache
def _malloc() -> Any:
    """Return the C library if its malloc is glibc's, else None."""
    return ctypes.CDLL(None) if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ()) else None


@cache
def keep_freed_memory() -> None:
    """Keep freed blocks of up to `KEPT_BYTES` in this process from now on; does nothing with another C library."""
    if (malloc := _malloc()) is not None:
        malloc.mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        malloc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


def give_back() -> None:
    """Return all free memory to the system, before the memory in use is measured."""
    if (malloc := _malloc()) is not None:
        malloc.malloc_trim(0)
