"""The three standard streams: made usable for any text before a command runs, and silenced if writing to them fails.

If nobody reads a result (a closed pipe), the result is dropped, which is no error. If a result can't be written (a full disk, a
closed stream), that is an error. Warnings and errors that can't be written are dropped.
"""

from __future__ import annotations

import codecs
import errno
import os
import sys

from placesim.core import operating_system
from placesim.core.errors import UsageError
from placesim.core.escaping import as_json_escape

_ESCAPES = "placesim-escapes"
_UNWRITABLE = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT, errno.EFBIG)


def open_streams() -> None:
    """Make all streams usable.

    Characters missing in the encoding are escaped, and a closed stream fails only when it is used.
    """
    codecs.register_error(_ESCAPES, _escaped)
    _open_closed("stdin", 0, os.O_WRONLY, "r")  # opened for the other direction, so that reading fails
    _open_closed("stdout", 1, os.O_RDONLY, "w")
    _open_closed("stderr", 2, os.O_RDWR, "w")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            operating_system.prepare_stream(stream)
            stream.reconfigure(errors=_ESCAPES)


def _open_closed(name: str, number: int, flags: int, mode: str) -> None:
    """Replace a stream that was closed at start, so that no later file gets its descriptor."""
    if getattr(sys, name) is not None:
        return
    nowhere = os.open(os.devnull, flags)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays open


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escape the characters that an encoding lacks, in a form that is valid in JSON too."""
    assert isinstance(error, UnicodeEncodeError)
    return as_json_escape(error.object[error.start : error.end]), error.end


def write_result(content: str | bytes) -> bool:
    """Write to standard output. Returns False if its reader has gone. Raises UsageError if writing fails."""
    try:
        if isinstance(content, str):
            sys.stdout.write(content)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except OSError as error:
        check_lost_output(error)
        return False
    return True


def reader_is_gone() -> bool:
    """Whether standard output is a pipe whose reader has gone. This check writes nothing, so it may miss a case."""
    try:
        return operating_system.reader_is_gone(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def write_complaint(text: str) -> None:
    """Flush the output, and then write to standard error, if possible."""
    settle_output()
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _silence(2)


def settle_output() -> None:
    """Flush the output if possible; a failure at exit would change the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence(1)


def check_lost_output(error: OSError) -> None:
    """Handle an error of writing to standard output. Ignores the error if the reader of the pipe has gone.

    Raises UsageError for a failed write. Any other error is raised again.
    """
    is_lost = operating_system.is_reader_lost(error)
    if not is_lost and (error.errno not in _UNWRITABLE or error.filename is not None):
        raise error
    _silence(1)
    if not is_lost:
        expected = "a writable file or pipe"
        raise UsageError(f"cannot write to standard output: got '{error.strerror}', expected {expected}") from error


def _silence(number: int) -> None:
    """Discard the buffered output, so that closing it at exit prints nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
