"""Lock on a path that several processes share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_path(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which need not exist; waits while another process holds it.  Raises OSError.

    The lock is a file beside it that the holder removes; the system frees the lock of a process that dies.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.placesim-lock")
    while True:
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, beside):  # else the holder before has removed it
                try:
                    yield
                finally:
                    beside.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
