"""Denormal floats become zero in arithmetic, as in TensorFlow's threads.

The processor does this: two bits of its floating point control register are set for the current thread through libm. If the
register cannot be reached (another processor or C library), denormals are kept, and nothing else changes.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from placesim.core.operating_system import has_glibc

_LAYOUT = {
    # machine: (size of fenv_t, offset of the register, bits: flush results, treat operands as zero)
    "x86_64": (32, 28, 0x8040),
    "aarch64": (8, 0, 1 << 24),
}


@lru_cache(maxsize=1)
def _libm() -> ctypes.PyDLL | None:
    if not has_glibc() or platform.machine() not in _LAYOUT:
        return None
    for dtype in (np.float16, np.float32, np.float64):
        str(np.finfo(dtype))  # numpy caches these, and would warn if it computed them while denormals are flushed
    return ctypes.PyDLL("libm.so.6")


def is_denormal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a mask of the denormal numbers among floats or doubles of any shape.

    It uses their bits, since arithmetic that flushes denormals treats them as zero.
    """
    fraction = {4: 23, 8: 52}[x.dtype.itemsize]
    unsigned = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape) << 1
    return np.asarray((unsigned != 0) & (unsigned >> (fraction + 1) == 0))


def flush_denormals() -> Callable[[], None]:
    """Flush denormals to zero in this thread's arithmetic from now on; return a function that ends this."""
    libm = _libm()
    if libm is None:
        return lambda: None
    size, offset, bits = _LAYOUT[platform.machine()]
    before = (ctypes.c_char * size)()
    libm.fegetenv(ctypes.byref(before))
    changed = (ctypes.c_char * size).from_buffer_copy(before)
    register = ctypes.c_uint32.from_buffer(changed, offset)
    register.value |= bits
    libm.fesetenv(ctypes.byref(changed))
    return lambda: libm.fesetenv(ctypes.byref(before))


@contextmanager
def flushing_denormals() -> Iterator[None]:
    """Return a context in which this thread flushes denormals to zero, and numpy gives no floating point warnings."""
    with np.errstate(all="ignore"):
        restore = flush_denormals()
        try:
            yield
        finally:
            restore()
