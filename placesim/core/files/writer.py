"""Writer of files: each gets a temporary name, and all are renamed when all are complete.

If writing fails (full disk, interrupt), the old files remain and no temporary file is left.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from placesim.core.errors import UsageError
from placesim.core.operating_system import replace_file

_NEW_FILE_MODE = 0o666


PIECE_LETTERS = 1 << 16
"""Number of characters that `join_pieces` joins to one piece; writing many small pieces would take longer."""


def join_pieces(pieces: Iterable[str]) -> Iterator[str]:
    """Join the pieces of a text to larger pieces, which saves calls."""
    some: list[str] = []
    letters = 0
    for piece in pieces:
        some.append(piece)
        letters += len(piece)
        if letters >= PIECE_LETTERS:
            yield "".join(some)
            some, letters = [], 0
    if some:
        yield "".join(some)


class WholeFiles:
    """Files that appear together when the `with` block ends, or not at all if it raises.

    Files are renamed in the given order. Special files (`/dev/stdout`, a pipe) are written directly. All methods and the end of
    the block raise OSError.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._written: list[tuple[Path, Path]] = []
        self._moved: list[tuple[Path, Path]] = []
        self._folders: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._open.close()
                self._rename()
                self._folders.clear()
            else:
                with suppress(OSError):  # the remaining bytes would fail again
                    self._open.close()
        finally:
            self._clear()

    def open(self, path: Path, makes_folders: bool = False) -> BinaryIO:
        """Open a file for writing; the end of the block closes it.

        If the path is a link, its target is written and the link stays.
        """
        target = Path(os.path.realpath(path))
        if makes_folders:
            self._make_folders(target.parent)
        mode = _mode_of(target)
        if mode is not None and not stat.S_ISREG(mode):
            return self._open.enter_context(target.open("wb"))
        beside = target.with_name(f".placesim-{os.urandom(8).hex()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE_MODE)
        self._written.append((beside, target))
        file = self._open.enter_context(os.fdopen(descriptor, "wb"))
        if mode is not None:
            os.chmod(descriptor if os.chmod in os.supports_fd else beside, stat.S_IMODE(mode))
        return file

    def write(self, path: Path, pieces: Iterable[bytes], makes_folders: bool = False) -> None:
        """Write a file from pieces of bytes."""
        file = self.open(path, makes_folders)
        for piece in pieces:
            file.write(piece)
        file.flush()  # an error names the file that caused it

    def move(self, source: Path, target: Path) -> None:
        """Rename a file when the block ends, before the written files get their names."""
        self._moved.append((source, target))

    def _make_folders(self, folder: Path) -> None:
        missing = []
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            self._folders.append(path)

    def _rename(self) -> None:
        done: list[tuple[Path, Path]] = []
        try:
            for source, target in self._moved:
                replace_file(source, target)
                done.append((source, target))
            for beside, target in self._written:
                replace_file(beside, target)
        except OSError:
            for source, target in reversed(done):
                with suppress(OSError):
                    replace_file(target, source)
            raise

    def _clear(self) -> None:
        for beside, _ in self._written:
            with suppress(OSError):
                beside.unlink()
        for folder in reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()


def unwritable(path: Path | None, error: Exception) -> UsageError:
    """Return the error for a file that can't be written."""
    if isinstance(error, FileNotFoundError) and path is not None and not path.parent.exists():
        return UsageError(f"cannot write {path}: got no folder {path.parent}, expected a path in an existing folder")
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"cannot write {path}: got '{reason}', expected a writable path")


def check_writable(path: Path, makes_folders: bool = False) -> None:
    """Raise UsageError for an output file that can't be written."""
    try:
        if path.exists() and not path.is_file():
            return  # a pipe must not be opened twice
        with WholeFiles() as files:
            files.open(path, makes_folders)
            raise _WriteTrialEnd
    except _WriteTrialEnd:
        return
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from error


class _WriteTrialEnd(Exception):
    """Ends the trial of `check_writable` before the temporary file replaces the real one."""


def _mode_of(target: Path) -> int | None:
    """Return the mode of an existing file, None if there is none. Raises OSError for a directory or a read-only file."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    wrong = errno.EISDIR if stat.S_ISDIR(mode) else 0 if os.access(target, os.W_OK) else errno.EACCES
    if wrong:
        raise OSError(wrong, os.strerror(wrong), str(target))
    return mode


def write_whole(path: Path, content: bytes, makes_folders: bool = False) -> None:
    """Write one file completely, or leave the old file unchanged. Raises OSError."""
    with WholeFiles() as files:
        files.write(path, (content,), makes_folders)
