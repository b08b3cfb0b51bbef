"""Lifetimes of buffers in a recorded step: the executions that allocated and held each buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placesim.machine.memory.buffer_sources import JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder

BEFORE = -1
"""Value of `made` for a buffer that no execution of the step allocated, because it existed before the step."""


class Lifetime(NamedTuple):
    """A buffer in a step, of `size` allocated bytes.

    `made` is the number of the execution that allocated it, or BEFORE. The buffer is freed when that execution and all
    `holders` have ended. If `holders` is None, it is freed at the end of the step, or later if it `is_kept`.
    """

    size: int
    made: int
    holders: tuple[int, ...] | None
    is_kept: bool


def lifetimes(recorder: ExecutionRecorder) -> dict[str, list[Lifetime]]:
    """Return the lifetimes of all buffers of the last recorded step, by device, in the order of their allocation."""
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
        """Return the number of the execution of a node that used memory at a moment.

        If the node's execution ran then, return its number. If another node's execution ran then, return the previous number:
        buffers without readers, and results of called functions, are freed only after their execution is recorded.
        """
        number = moment - self.first
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
        # at the moment after its last execution, a step frees the buffers that are left
        is_kept = end is None or end.moment > step.end + 1
        if end is None or end.moment > step.end:
            yield Lifetime(buffer.allocated, made, None, is_kept)
        else:
            holders = (*readers.get(buffer, ()), max(0, step.execution_of(end.node, end.moment)))
            yield Lifetime(buffer.allocated, made, tuple(dict.fromkeys(holders)), False)
