"""Rules for the files that a running graph may access; no other module decides this.

A running graph is an untrusted program. It may read files below its own folder and paths that its user names. It may write only
files that its user allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Self

from placesim.core.errors import PermissionDeniedError
from placesim.core.files.containment import resolve_path
from placesim.core.files.reader import describe_special_file

_SYSTEM = tuple(map(Path, ("/dev", "/proc", "/sys")))
_ORDINARY = Path("/dev/shm")  # shared memory: the only ordinary files in the system folders
"""Paths inside system folders that hold ordinary files, and are therefore allowed."""


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Files and folders, with links resolved, that a graph may read or write.

    A folder includes everything below it.  `all_files` allows all ordinary files.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    all_files: bool = False

    @classmethod
    def of(cls, reads: Iterable[str | PurePath] = (), writes: Iterable[str | PurePath] = (), all_files: bool = False) -> Self:
        """Return the access record for paths given by a user. Raises InvalidArgumentError for an invalid file name."""
        written = tuple(resolve_path(Path(path)) for path in writes)
        return cls((*(resolve_path(Path(path)) for path in reads), *written), written, all_files)

    def readable(self, name: str | Path) -> Path:
        """Return the path with links resolved. Raises PermissionDeniedError if the graph may not read it."""
        return self._allowed(name, self.reads, "read")

    def writable(self, name: str | Path) -> Path:
        """Return the path with links resolved. Raises PermissionDeniedError if the graph may not write it."""
        return self._allowed(name, self.writes, "write")

    def _allowed(self, name: str | Path, roots: Iterable[Path], verb: str) -> Path:
        path = resolve_path(Path(name))
        kind = _system_kind(path) or describe_special_file(path)
        if kind:
            raise PermissionDeniedError(f"{name}; Permission denied: a graph may {verb} files alone, and this is {kind}")
        if self.all_files or any(path.is_relative_to(root) for root in roots):
            return path
        option = f"--allow-{verb} {path.parent} or --allow-all-files allows it"
        raise PermissionDeniedError(f"{name}; Permission denied: the graph may not {verb} this file; {option}")


NO_FILES = FileAccess()


def _system_kind(path: Path) -> str:
    is_in = any(path.is_relative_to(folder) for folder in _SYSTEM) and not path.is_relative_to(_ORDINARY)
    return "the system's" if is_in else ""


def checkpoint_files(prefix: str | Path) -> list[Path]:
    """Return the files of a checkpoint by its prefix, so that the graph may read them; a directory is returned as it is."""
    path = Path(prefix)
    if path.is_dir():
        return [path]
    index = path.with_name(f"{path.name}.index")
    start = f"{path.name}.data-"
    try:
        with os.scandir(path.parent) as entries:
            return [index, *(Path(entry.path) for entry in entries if entry.name.startswith(start))]
    except OSError:
        return [index]
