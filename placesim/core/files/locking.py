"""Lock on a path for several processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_path(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which need not exist, during the block; wait while another process holds it.

    The lock is a second file in the same folder, which is removed at the end. The system releases the lock of a process that
    dies. Raises OSError.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.placesim-lock")
    while True:
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, beside):  # otherwise, the previous holder has removed the file
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
