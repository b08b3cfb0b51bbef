"""A path -> a file's bytes.

Files are read, not mapped: a mapped file that another program shortens ends this one.  Nothing but an ordinary file is opened,
as a pipe would be waited for and a device need not end.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from pathlib import Path
from typing import IO, Any, BinaryIO

from placesim.core.process.free_memory import free_bytes

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_DESCRIPTOR = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
"""Open file descriptors passed to this process by its caller."""


GRAPH_BYTES = 2 << 30
"""A file that holds a graph is not read beyond this, which no message of protocol buffers exceeds."""
_PIECE = 1 << 24
_FEW_BYTES = 1 << 24
"""Read without a look at the machine's memory."""


class FileSizeError(OSError):
    """A file is larger than whoever reads it takes, or than the machine's memory."""


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


def read_file(path: str | Path, most: int = sys.maxsize) -> bytes:
    """The bytes of an ordinary file.  Raises as `open_file`, and FileSizeError as `check_size`."""
    with open_file(path) as file:
        check_size(os.fstat(file.fileno()).st_size, path, most)
        return file.read()


def check_size(size: int, path: str | Path, most: int = sys.maxsize) -> None:
    """Before so much is read: FileSizeError where that is more than `most` bytes, or than the machine has free."""
    if size > most:
        raise FileSizeError(errno.EFBIG, f"{size} bytes, expected at most {most}", str(path))
    if size > _FEW_BYTES and size > (free := free_bytes()):
        raise FileSizeError(errno.ENOMEM, f"{size} bytes, and the machine has {free} bytes free", str(path))


def file_size(path: str | Path) -> int:
    """The size of an ordinary file.  Raises as `open_file`."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def read_part(path: str | Path, offset: int, size: int) -> bytes:
    """So many bytes of an ordinary file from an offset on.  Raises as `read_file`, and ShortenedError where there are fewer."""
    found = b""
    with open_file(path) as file:
        # looked at before the memory is asked for: a size is only what some index says
        if offset + size <= os.fstat(file.fileno()).st_size:
            check_size(size, path)
            file.seek(offset)
            found = file.read(size)
    if len(found) < size:
        raise ShortenedError(errno.EIO, "the file was truncated while being read", str(path))
    return found


def read_stream_path(path: str | Path, most: int = sys.maxsize) -> bytes:
    """The bytes of an ordinary file, or of a stream that this process was started with, as `<(...)` of a shell gives it."""
    if not is_stream(path):
        return read_file(path, most)
    with open(path, "rb") as stream:
        return bytes(read_to_end(stream, path, most))


def read_to_end(stream: IO[Any], name: str | Path, most: int = sys.maxsize) -> Any:
    """All that is left in a stream of bytes or text, piece by piece.  Raises FileSizeError as `check_size`."""
    pieces = [stream.read(_PIECE)]
    size = len(pieces[0])
    while pieces[-1]:
        pieces.append(stream.read(_PIECE))
        size += len(pieces[-1])
        check_size(size, name, most)
    return pieces[0][:0].join(pieces)


def is_stream(path: str | Path) -> bool:
    """Whether a path names a pipe or a terminal that this process was handed, which can be read only once."""
    try:
        return _DESCRIPTOR.fullmatch(str(path)) is not None and not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
