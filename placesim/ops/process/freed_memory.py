"""Reuse of freed tensor memory: the process keeps it for the next step.

glibc's malloc gives every large block back to the system as soon as it is freed.  The next one of that size is then new: the
system clears it, and maps it page by page as it is first written, which takes about as long as the kernel that fills it.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
KEPT_BYTES = 1 << 30
"""Free memory kept at the end of the heap, and the largest block; twice this fits an int."""


@cache
def _malloc() -> Any:
    """The C library, if its malloc is glibc's."""
    return ctypes.CDLL(None) if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ()) else None


@cache
def keep_freed_memory() -> None:
    """From now on blocks of up to `KEPT_BYTES` that this process frees stay with it; nothing, with another C library."""
    if (malloc := _malloc()) is not None:
        malloc.mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        malloc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


def give_back() -> None:
    """Hands all that is free to the system, before somebody looks how much is in use."""
    if (malloc := _malloc()) is not None:
        malloc.malloc_trim(0)
