"""`tf.gfile`: local files, with `tf.errors`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from placesim.tf1 import errors
from placesim.tf1.types.read_only import read_only

StrPath: TypeAlias = str | os.PathLike[str]
"""A path, as Python's functions accept it."""
_STATUSES: tuple[tuple[type[OSError], Any], ...] = (
    (FileNotFoundError, errors.NotFoundError),
    (FileExistsError, errors.AlreadyExistsError),
    (PermissionError, errors.PermissionDeniedError),
    (IsADirectoryError, errors.FailedPreconditionError),
    (NotADirectoryError, errors.FailedPreconditionError),
)


@contextmanager
def _tensorflow_errors(path: StrPath) -> Iterator[None]:
    """Convert errors of the operating system to TensorFlow's."""
    try:
        yield
    except OSError as error:
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), errors.UnknownError)
        raise status(None, None, f"{os.fspath(path)}; {error.strerror}") from None


class GFile:
    """A file; `rb` reads bytes, `r` text.  It is opened at first use."""

    def __init__(self, name: StrPath, mode: str = "r", encoding: str = "utf-8") -> None:
        if mode not in ("r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab", "r+b", "w+b", "a+b", "rb+", "wb+", "ab+"):
            raise errors.InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'")
        self._name, self._mode, self._encoding = name, mode, encoding
        self._opened: Any = None

    name = read_only("_name")
    mode: str = read_only("_mode")

    def _readable(self) -> Any:
        if not set("r+") & set(self._mode):
            raise errors.PermissionDeniedError(None, None, "File isn't open for reading")
        return self._file()

    def _file(self) -> Any:
        if self._opened is None:
            with _tensorflow_errors(self._name):
                encoding = None if "b" in self._mode else self._encoding
                self._opened = open(os.fspath(self._name), self._mode, encoding=encoding)  # noqa: SIM115
        return self._opened

    def read(self, n: int = -1) -> Any:
        """Read `n` characters, or the rest."""
        with _tensorflow_errors(self._name):
            return self._readable().read(n)

    def readline(self) -> Any:
        """The next line, with its line break."""
        return self._readable().readline()

    def readlines(self) -> list[Any]:
        """All lines, with their line breaks."""
        return list(self._readable())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._readable())

    def __next__(self) -> Any:
        return next(self._file())

    def write(self, file_content: object) -> None:
        """Write a string or bytes."""
        if not set("wa+") & set(self._mode):
            raise errors.PermissionDeniedError(None, None, "File isn't open for writing")
        if isinstance(file_content, bytes) and "b" not in self._mode:
            file_content = file_content.decode(self._encoding)
        elif isinstance(file_content, str) and "b" in self._mode:
            file_content = file_content.encode(self._encoding)
        self._file().write(file_content)

    def size(self) -> int:
        """The file's size in bytes."""
        return Stat(self._name).length

    def seek(self, offset: int, whence: int = 0) -> None:
        """Move to a position."""
        self._file().seek(offset, whence)

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """The position in the file."""
        return self._file().tell()  # type: ignore[no-any-return]

    def flush(self) -> None:
        """Write what is buffered to the file."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> GFile:
        if "w" in self._mode or "a" in self._mode:
            self._file()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


Open = FastGFile = GFile


class FileStatistics:
    """`length` in bytes, `mtime_nsec` since 1970, `is_directory`."""

    def __init__(self, length: int, mtime_nsec: int, is_directory: bool) -> None:
        self.length, self.mtime_nsec, self.is_directory = length, mtime_nsec, is_directory


def Exists(filename: StrPath) -> bool:  # noqa: N802 (TensorFlow's names, here and below)
    """Whether the file or directory exists."""
    return os.path.exists(os.fspath(filename))


def IsDirectory(dirname: StrPath) -> bool:  # noqa: N802
    """Whether the path is a directory."""
    return os.path.isdir(os.fspath(dirname))


def Stat(filename: StrPath) -> FileStatistics:  # noqa: N802
    """Statistics of a file."""
    with _tensorflow_errors(filename):
        found = os.stat(os.fspath(filename))
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(os.fspath(filename)))


def Glob(filename: StrPath | Sequence[StrPath]) -> list[str]:  # noqa: N802
    """The paths that match a pattern, or one of several patterns."""
    import glob

    from placesim.ops.kernels.resources.file_access import anchored

    patterns = [filename] if isinstance(filename, str | os.PathLike) else filename
    return [path for pattern in patterns for path in sorted(glob.glob(anchored(os.fspath(pattern)), include_hidden=True))]


def ListDirectory(dirname: StrPath) -> list[str]:  # noqa: N802
    """Names in a directory.  Raises `tf.errors.NotFoundError` if it is not a directory."""
    if not IsDirectory(dirname):
        raise errors.NotFoundError(None, None, f"Could not find directory {os.fspath(dirname)}")
    return os.listdir(os.fspath(dirname))


def MkDir(dirname: StrPath) -> None:  # noqa: N802
    """Make a directory."""
    with _tensorflow_errors(dirname):
        os.mkdir(os.fspath(dirname))


def MakeDirs(dirname: StrPath) -> None:  # noqa: N802
    """Make a directory and its parents, unless they exist."""
    with _tensorflow_errors(dirname):
        os.makedirs(os.fspath(dirname), exist_ok=True)


def Remove(filename: StrPath) -> None:  # noqa: N802
    """Delete a file."""
    with _tensorflow_errors(filename):
        os.remove(os.fspath(filename))


def DeleteRecursively(dirname: StrPath) -> None:  # noqa: N802
    """Delete a directory with its contents, or a file."""
    path = os.fspath(dirname)
    if not os.path.lexists(path):
        raise errors.NotFoundError(None, None, f"{path} not found")
    with _tensorflow_errors(dirname):
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def Rename(oldname: StrPath, newname: StrPath, overwrite: bool = False) -> None:  # noqa: N802
    """Rename a file.  Raises `tf.errors.AlreadyExistsError` if the new name exists."""
    _onto(oldname, newname, overwrite, os.replace)


def Copy(oldpath: StrPath, newpath: StrPath, overwrite: bool = False) -> None:  # noqa: N802
    """Copy a file.  Raises `tf.errors.AlreadyExistsError` if the new name exists."""
    _onto(oldpath, newpath, overwrite, shutil.copyfile)


def _onto(old: StrPath, new: StrPath, overwrite: bool, act: Callable[[str, str], Any]) -> None:
    if not overwrite and Exists(new):
        raise errors.AlreadyExistsError(None, None, "file already exists")
    with _tensorflow_errors(old):
        act(os.fspath(old), os.fspath(new))


def Walk(top: StrPath, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:  # noqa: N802
    """A directory and those below it, each with the names of its directories and files."""
    return iter(os.walk(os.fspath(top), topdown=in_order))
