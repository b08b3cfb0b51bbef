"""Progress of long work. The work registers functions that read its counters, so that reporting does not slow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Look = Callable[[], tuple[int, int | None]]
"""Function that returns the completed count, and the total if known. It may be called from another thread at any time."""


class ProgressStage(NamedTuple):
    """A stage of work that began at `began`, a time of `time.monotonic()`."""

    what: str
    look: Look
    began: float


class ProgressWatcher:
    """An observer of the work inside `watch_progress`; it sees nested stages of this work.

    `note` is a text about the best result so far, which says more than the counts.
    """

    def __init__(self) -> None:
        self.stages: list[ProgressStage] = []
        self.note = ""
        self._last: tuple[float, dict[str, tuple[int, int | None]]] | None = None

    def keep(self) -> None:
        """Store the current counts after an interrupt, before the stages end."""
        self._last = self._last or self.counts()

    def counts(self) -> tuple[float, dict[str, tuple[int, int | None]]]:
        """Return the start time and the counts of all stages with a known total, outermost first.

        If no total is known, only the innermost stage is returned.
        """
        if self._last is not None:
            return self._last
        found = [(stage, stage.look()) for stage in list(self.stages)]
        shown = [(stage, count) for stage, count in found if count[1] is not None] or found[-1:]
        return shown[0][0].began if shown else time.monotonic(), {stage.what: count for stage, count in shown}


_current: ContextVar[ProgressWatcher | None] = ContextVar("watcher", default=None)


def current_watcher() -> ProgressWatcher | None:
    """Return the watcher of this thread's work; None if there is none."""
    return _current.get()


@contextmanager
def watch_progress(watcher: ProgressWatcher) -> Iterator[None]:
    """Let `watcher` observe the work inside the block."""
    token = _current.set(watcher)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def report_stage(what: str, look: Look = lambda: (0, None)) -> Iterator[None]:
    """Register a stage of work that takes a noticeable time; it lasts until the block ends."""
    watcher = _current.get()
    if watcher is None:
        yield
        return
    watcher.stages.append(ProgressStage(what, look, time.monotonic()))
    try:
        yield
    except KeyboardInterrupt:
        watcher.keep()
        raise
    finally:
        watcher.stages.pop()
