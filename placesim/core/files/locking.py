"""Lock on a path for several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from placesim.core.operating_system import NO_LINK, REMOVES_OPEN_FILES, wait_for_lock


@contextmanager
def lock_path(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which need not exist, during the block; wait while another process holds it.

    The lock is a second file in the same folder, which is removed at the end. The system releases the lock of a process that
    dies. Raises OSError.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.placesim-lock")
    while True:
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
        try:
            wait_for_lock(descriptor)
            if _is_at(descriptor, beside):  # otherwise, the previous holder has removed the file
                try:
                    yield
                finally:
                    if REMOVES_OPEN_FILES:
                        beside.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)
            if not REMOVES_OPEN_FILES:
                with suppress(OSError):  # a process that waits for the lock has the file open
                    beside.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
