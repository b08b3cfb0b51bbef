"""A path -> a file's bytes.

Files are read, not mapped: a mapped file that another program shortens ends this one.  Nothing but an ordinary file is opened,
as a pipe would be waited for and a device need not end.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_DESCRIPTOR = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
"""Open file descriptors passed to this process by its caller."""


class NoFileError(OSError):
    """A path names something that is there and no file; `strerror` says what."""


class ShortenedError(OSError):
    """A file has become shorter while it was read."""


def open_file(path: str | Path) -> BinaryIO:
    """An ordinary file, open for reading.  Raises OSError; NoFileError for a pipe, a socket or a device."""
    _check_kind(path, os.stat(path).st_mode)
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  # the caller's to close
    try:
        _check_kind(path, os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _open_at_once(path: str, flags: int) -> int:
    """Not waiting, should a pipe have taken the file's place since it was looked at."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_kind(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise NoFileError(errno.EINVAL, f"{_kind(mode)}, not a file", str(path))


def describe_special_file(path: Path) -> str:
    """Kind of a path that is neither a file nor a directory, such as `a pipe`; empty for those and for a missing path."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else _kind(mode)


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def read_file(path: str | Path) -> bytes:
    """The bytes of an ordinary file.  Raises as `open_file`."""
    with open_file(path) as file:
        return file.read()


def read_part(path: str | Path, offset: int, size: int) -> bytes:
    """So many bytes of an ordinary file from an offset on.  Raises as `open_file`, and ShortenedError where there are fewer."""
    found = b""
    with open_file(path) as file:
        # looked at before the memory is asked for: a size is only what some index says
        if offset + size <= os.fstat(file.fileno()).st_size:
            file.seek(offset)
            found = file.read(size)
    if len(found) < size:
        raise ShortenedError(errno.EIO, "the file was truncated while being read", str(path))
    return found


def read_stream_path(path: str | Path) -> bytes:
    """The bytes of an ordinary file, or of a stream that this process was started with, as `<(...)` of a shell gives it."""
    if not is_stream(path):
        return read_file(path)
    with open(path, "rb") as stream:
        return stream.read()


def is_stream(path: str | Path) -> bool:
    """Whether a path names a pipe or a terminal that this process was handed, which can be read only once."""
    try:
        return _DESCRIPTOR.fullmatch(str(path)) is not None and not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
