"""A file's bytes, for those who read TensorFlow's files by their path."""

from __future__ import annotations

from pathlib import Path

from placesim.core.errors import UsageError
from placesim.core.files.reader import GRAPH_BYTES, read_stream_path


def file_bytes(path: str | Path) -> bytes:
    """The content of a file.  Raises UsageError if it cannot be read."""
    try:
        return read_stream_path(path, GRAPH_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read '{path}': {reason}") from None
