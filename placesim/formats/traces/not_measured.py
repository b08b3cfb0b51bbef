"""Error for a file that is not a usable measurement."""

from __future__ import annotations

FORMATS = (
    "a RunMetadata of TensorFlow, a Chrome trace of its timeline or profiler, the profiler's .xplane.pb, or an SQLite export "
    "of Nsight Systems"
)


class NotMeasuredError(Exception):
    """Raised by the reader of a format for a file of this format that lacks required data; the text says which data."""
