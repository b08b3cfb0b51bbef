"""Progress of long work: the work registers its counters once, so reading them does not slow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Look = Callable[[], tuple[int, int | None]]
"""Returns the completed count and the total if known; may be called from another thread at any time."""


class ProgressStage(NamedTuple):
    """A stage of work, running since `began` (of `time.monotonic`)."""

    what: str
    look: Look
    began: float


class ProgressWatcher:
    """Observer of the work in its context, as nested stages."""

    def __init__(self) -> None:
        self.stages: list[ProgressStage] = []
        self._last: tuple[float, dict[str, tuple[int, int | None]]] | None = None

    def keep(self) -> None:
        """Freeze the current values after an interrupt."""
        self._last = self._last or self.counts()

    def counts(self) -> tuple[float, dict[str, tuple[int, int | None]]]:
        """Start time and current counts, outermost first; without counts, the current action."""
        if self._last is not None:
            return self._last
        found = [(stage, stage.look()) for stage in list(self.stages)]
        shown = [(stage, count) for stage, count in found if count[1] is not None] or found[-1:]
        return shown[0][0].began if shown else time.monotonic(), {stage.what: count for stage, count in shown}


_current: ContextVar[ProgressWatcher | None] = ContextVar("watcher", default=None)


def current_watcher() -> ProgressWatcher | None:
    """Watcher of this thread's work."""
    return _current.get()


@contextmanager
def watch_progress(watcher: ProgressWatcher) -> Iterator[None]:
    """Context whose work `watcher` observes."""
    token = _current.set(watcher)
    try:
        yield
    finally:
        _current.reset(token)


def _uncounted() -> tuple[int, int | None]:
    return 0, None


@contextmanager
def report_stage(what: str, look: Look = _uncounted) -> Iterator[None]:
    """Context for a stage that takes a noticeable time."""
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
