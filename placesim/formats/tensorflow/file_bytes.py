"""A file's bytes without reading them: large files are mapped into memory, so that constants can be views of them."""

from __future__ import annotations

import mmap
from pathlib import Path

from placesim.errors import UsageError

_MAPPED_BYTES = 1 << 16


def file_bytes(path: str | Path) -> bytes | memoryview:
    """The content of a file.  Raises UsageError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            if not file.seekable():  # a pipe has no size
                return file.read()
            size = file.seek(0, 2)
            if size >= _MAPPED_BYTES:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            file.seek(0)
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read '{path}': {reason}") from None
