"""Reader of the bytes of TensorFlow's files."""

from __future__ import annotations

from pathlib import Path

from placesim.core.errors import UsageError
from placesim.core.files.reader import GRAPH_BYTES, read_stream_path


def file_bytes(path: str | Path) -> bytes:
    """Return the content of a file. Raises UsageError if it can't be read."""
    try:
        return read_stream_path(path, GRAPH_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read '{path}': {reason}") from None
