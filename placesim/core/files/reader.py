"""Reader of ordinary files.

Files are not memory-mapped, because this process would crash if another program shortened a mapped file. Only ordinary files
are opened, as a pipe may block and a device may have no end.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from pathlib import Path
from typing import IO, Any, BinaryIO

from placesim.core.operating_system import NON_BLOCKING, free_bytes

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_DESCRIPTOR = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
"""Open file descriptors passed to this process by its caller."""


GRAPH_BYTES = 2 << 30
"""Maximum size of a graph's file, which is also the maximum of a protocol-buffer message."""
_PIECE = 1 << 24
_FEW_BYTES = 1 << 24
"""Files up to this size are read without checking free memory."""


class FileSizeError(OSError):
    """A file is larger than the caller's limit or the machine's free memory."""


class NoFileError(OSError):
    """A path names something other than a file; `strerror` names its kind."""


class ShortenedError(OSError):
    """A file became shorter while it was read."""


def open_file(path: str | Path) -> BinaryIO:
    """Open an ordinary file for reading. Raises OSError; NoFileError for a pipe, a socket or a device."""
    _check_kind(path, os.stat(path).st_mode)
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  # the caller's to close
    try:
        _check_kind(path, os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _open_at_once(path: str, flags: int) -> int:
    """Open without blocking, in case a pipe has replaced the file since the check."""
    return os.open(path, flags | NON_BLOCKING)


def _check_kind(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise NoFileError(errno.EINVAL, f"{_kind(mode)}, not a file", str(path))


def describe_special_file(path: Path) -> str:
    """Return the kind of a path that is neither a file nor a directory, such as `a pipe`.

    The result is empty for a file, a directory and a missing path.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else _kind(mode)


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def read_file(path: str | Path, most: int = sys.maxsize) -> bytes:
    """Return the bytes of an ordinary file. Raises the errors of `open_file`, and FileSizeError as `check_size` does."""
    with open_file(path) as file:
        check_size(os.fstat(file.fileno()).st_size, path, most)
        return file.read()


def check_size(size: int, path: str | Path, most: int = sys.maxsize) -> None:
    """Raise FileSizeError if `size` exceeds `most` or the machine's free memory. Called before a file is read."""
    if size > most:
        raise FileSizeError(errno.EFBIG, f"{size} bytes, expected at most {most}", str(path))
    if size > _FEW_BYTES and size > (free := free_bytes()):
        raise FileSizeError(errno.ENOMEM, f"{size} bytes, and the machine has {free} bytes free", str(path))


def file_size(path: str | Path) -> int:
    """Return the size of an ordinary file in bytes. Raises the errors of `open_file`."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def read_part(path: str | Path, offset: int, size: int) -> bytes:
    """Read `size` bytes of an ordinary file, starting at `offset`.

    Raises the errors of `read_file`, and ShortenedError if the file has fewer bytes.
    """
    found = b""
    with open_file(path) as file:
        # checked before the memory is allocated, since the size may come from an untrusted index
        if offset + size <= os.fstat(file.fileno()).st_size:
            check_size(size, path)
            file.seek(offset)
            found = file.read(size)
    if len(found) < size:
        raise ShortenedError(errno.EIO, "the file was truncated while being read", str(path))
    return found


def read_stream_path(path: str | Path, most: int = sys.maxsize) -> bytes:
    """Return the bytes of an ordinary file, or of a stream that this process inherited, such as a shell's `<(...)`."""
    if not is_stream(path):
        return read_file(path, most)
    with open(path, "rb") as stream:
        return bytes(read_to_end(stream, path, most))


def read_to_end(stream: IO[Any], name: str | Path, most: int = sys.maxsize) -> Any:
    """Read the rest of a stream of bytes or text, piece by piece. Raises FileSizeError like `check_size`."""
    pieces = [stream.read(_PIECE)]
    size = len(pieces[0])
    while pieces[-1]:
        pieces.append(stream.read(_PIECE))
        size += len(pieces[-1])
        check_size(size, name, most)
    return pieces[0][:0].join(pieces)


def is_stream(path: str | Path) -> bool:
    """Whether a path names an inherited pipe or terminal, which can be read only once."""
    try:
        return _DESCRIPTOR.fullmatch(str(path)) is not None and not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
