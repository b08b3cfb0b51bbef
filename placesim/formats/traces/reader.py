"""Reader of measurement files, which recognises the format by the content."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from placesim.core.errors import UsageError
from placesim.core.files.reader import GRAPH_BYTES, check_size, is_stream, read_part, read_stream_path
from placesim.core.process.gc_pause import collector_paused
from placesim.formats.recognition import is_text
from placesim.formats.traces.not_measured import FORMATS, NotMeasuredError
from placesim.machine.timelines.measured_steps import Measurement

_PARSED_SIZE = 8
"""Bytes of memory that a byte of text takes once it is parsed, as measured for traces of the profiler."""
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\x00"


@collector_paused()
def read_measurement(path: str | Path) -> Measurement:
    """Read the steps in a file. Raises UsageError if it can't be read, or has no measured runs of nodes."""
    try:
        found = _read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read the measurement {path}: {reason}") from None
    except NotMeasuredError as error:
        raise UsageError(f"no measurement in {path}: {error}") from None
    if not any(step.runs for step in found.steps):
        raise UsageError(f"no measurement in {path}: got {found.format} without runs of nodes, expected at least one step")
    return found


def _read(path: str | Path) -> Measurement:
    if not is_stream(path) and _begins_with(path, _SQLITE):
        from placesim.formats.traces.nsight import read_nsight

        return read_nsight(Path(path))
    content = read_stream_path(path, GRAPH_BYTES)
    if content.startswith(_GZIP):
        content = _unpacked(content)
    if not content:
        raise NotMeasuredError(f"got an empty file, expected {FORMATS}")
    if is_text(content):
        check_size(_PARSED_SIZE * len(content), path)
    if is_text(content) and content.lstrip()[:1] in (b"{", b"["):
        from placesim.formats.traces.chrome_trace import read_chrome_trace

        return read_chrome_trace(_parsed(content))
    from placesim.formats.traces.step_stats import read_run_metadata
    from placesim.formats.traces.xplane import read_xplane

    found = read_run_metadata(content) or (None if is_text(content) else read_xplane(content))
    if found is None:
        raise NotMeasuredError(f"got another format, expected {FORMATS}")
    return found


def _begins_with(path: str | Path, head: bytes) -> bool:
    try:
        return read_part(path, 0, len(head)) == head
    except OSError:
        return False  # a shorter file; other errors occur again when the file is read


def _unpacked(content: bytes) -> bytes:
    """Return the content of a gzip file, which may be as large as a file without compression."""
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(content, GRAPH_BYTES)
    except zlib.error as error:
        raise NotMeasuredError(f"got a damaged gzip file ({error}), expected a whole one") from None
    if reader.unconsumed_tail:
        raise NotMeasuredError(f"got a gzip file with more than {GRAPH_BYTES} bytes, expected fewer")
    if not reader.eof:
        raise NotMeasuredError("got a truncated gzip file, expected a whole one")
    return found


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NotMeasuredError(f"got invalid JSON ({error}), expected a Chrome trace") from None
