"""The checkpoints `PREFIX-STEP` that a run writes, and the `checkpoint` file that lists the complete ones.

The `checkpoint` file is written last, so it never lists a checkpoint that was half written when the process died. Source:
TensorFlow's `Saver`, which names, lists and deletes checkpoints in the same way.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from placesim.core.checkpoints.checkpoint import data_path, index_path
from placesim.core.checkpoints.checkpoint_state import STATE_FILE, listed_checkpoints, write_state
from placesim.core.errors import UsageError

_FOUND = re.compile(r"(?P<prefix>.+)-(?P<step>\d{1,18})", re.DOTALL)


class Member(NamedTuple):
    """A checkpoint of a series: the prefix of its files, and the number of steps done when it was written."""

    prefix: Path
    step: int


class Series:
    """The checkpoints with one prefix. At most `keep` of the checkpoints that it wrote or found remain (0: all)."""

    def __init__(self, prefix: Path, keep: int) -> None:
        self._prefix = prefix
        self._keep = keep
        self._members: list[Member] = []

    def prepare(self) -> None:
        """Create the folder. Raises UsageError if nothing can be written there, and the errors of `listed_checkpoints`."""
        try:
            self._prefix.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(self._prefix.parent, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise _unwritable(self._prefix, error) from None
        self._listed()

    def resume(self) -> Member | None:
        """Return the newest complete checkpoint, from which the series continues; None if there is none.

        Raises the errors of `listed_checkpoints`.
        """
        self._members = [member for member in map(self._member, self._listed()) if member is not None and _is_there(member)]
        self._members.sort(key=lambda member: member.step)
        return self._members[-1] if self._members else None

    def add(self, step: int, write: Callable[[str], None]) -> Member:
        """Write a checkpoint with `write`, list it in the state file, and delete the oldest.

        Raises UsageError if a file can't be written.
        """
        member = Member(self._prefix.with_name(f"{self._prefix.name}-{step}"), step)
        try:
            write(str(member.prefix))
            others = [name for name in self._listed() if self._member(name) is None]
            self._members = [*(known for known in self._members if known.step != step), member]
            count = len(self._members) - self._keep if self._keep else 0
            old, self._members = self._members[: max(0, count)], self._members[max(0, count) :]
            write_state(self._prefix.parent, [*others, *(known.prefix.name for known in self._members)])
        except OSError as error:
            raise _unwritable(member.prefix, error) from None
        for known in old:
            for path in (index_path(known.prefix), data_path(known.prefix, 0, 1)):
                with suppress(OSError):  # a file that can't be deleted does no harm
                    path.unlink()
        return member

    def _listed(self) -> tuple[str, ...]:
        folder = self._prefix.parent
        return listed_checkpoints(folder) if (folder / STATE_FILE).exists() else ()

    def _member(self, name: str) -> Member | None:
        """Return the checkpoint with that name in the state file; None if it belongs to another series."""
        found = _FOUND.fullmatch(Path(name).name)
        if found is None or found["prefix"] != self._prefix.name:
            return None
        return Member(self._prefix.with_name(Path(name).name), int(found["step"]))


def _is_there(member: Member) -> bool:
    return index_path(member.prefix).is_file() and data_path(member.prefix, 0, 1).is_file()


def _unwritable(path: Path, error: OSError) -> UsageError:
    reason = error.strerror or str(error)
    return UsageError(f"cannot write checkpoint {path}: got '{reason}', expected a writable path")
