"""The executions that created and held each buffer, derived from a recorder's data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placesim.machine.memory.buffer_sources import JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder

BEFORE = -1
"""Marks a buffer that existed when the step began."""


class Lifetime(NamedTuple):
    """A buffer in a step, of `size` allocated bytes.

    `made` is the index in the step of the execution that created it, or BEFORE. The buffer is freed when that execution and all
    `holders` have ended; without holders, at the end of the step, unless it `is_kept` longer.
    """

    size: int
    made: int
    holders: tuple[int, ...] | None
    is_kept: bool


def lifetimes(recorder: ExecutionRecorder) -> dict[str, list[Lifetime]]:
    """Return all buffers of the last recorded step, by device, in order of creation."""
    last = _Step(recorder.steps[-1], recorder.moments[-1])
    readers: dict[Buffer, list[int]] = {}
    for buffer, node, moment in recorder.reads:
        if last.first <= moment <= last.end:
            readers.setdefault(buffer, []).append(last.execution_of(node, moment))
    return {device: list(_lifetimes(journal, last, readers)) for device, journal in recorder.journals.items()}


class _Step:
    def __init__(self, executions: Sequence[Execution], first: int) -> None:
        self._executions = executions
        self.first = first
        self.end = first + len(executions)

    def execution_of(self, node: str, moment: int) -> int:
        """Return the execution in which a node used memory: the one running at the moment, or just reported."""
        number = moment - self.first
        # what nobody reads is given back when the execution has been told of, and so is what a call's functions gave
        return number if moment < self.end and self._name(number) == node else max(BEFORE, number - 1)

    def _name(self, number: int) -> str:
        site = self._executions[number].site
        return "" if site is None else site.name


def _lifetimes(journal: Sequence[JournalEntry], step: _Step, readers: dict[Buffer, list[int]]) -> Iterator[Lifetime]:
    freed = {entry.buffer: entry for entry in journal if not entry.is_made}
    for buffer, is_made, node, moment in journal:
        if not is_made or moment > step.end:
            continue
        end = freed.get(buffer)
        if end is not None and end.moment < step.first:
            continue
        made = BEFORE if moment < step.first else step.execution_of(node, moment)
        # the moment after the last is that in which a step gives back all that is left
        is_kept = end is None or end.moment > step.end + 1
        if end is None or end.moment > step.end:
            yield Lifetime(buffer.allocated, made, None, is_kept)
        else:
            holders = (*readers.get(buffer, ()), max(0, step.execution_of(end.node, end.moment)))
            yield Lifetime(buffer.allocated, made, tuple(dict.fromkeys(holders)), False)
