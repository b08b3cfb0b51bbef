"""How far long work is, for whoever watches: the work says once where to look, and nothing slows it while it is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Look = Callable[[], tuple[int, int | None]]
"""How much of something is done, and of how much, where that is known; called from another thread at any time."""


class ProgressStage(NamedTuple):
    """Something that is being done since `began` (of `time.monotonic`)."""

    what: str
    look: Look
    began: float


class ProgressWatcher:
    """Looks at the work that is done while it is set: at its stages, each a part of the one around it."""

    def __init__(self) -> None:
        self.stages: list[ProgressStage] = []
        self._last: tuple[float, dict[str, tuple[int, int | None]]] | None = None

    def keep(self) -> None:
        """What is seen now is all that is seen from now on: the work is broken off."""
        self._last = self._last or self.counts()

    def counts(self) -> tuple[float, dict[str, tuple[int, int | None]]]:
        """What is counted now, from the outside in, or where nothing is, what is being done; and since when."""
        if self._last is not None:
            return self._last
        found = [(stage, stage.look()) for stage in list(self.stages)]
        shown = [(stage, count) for stage, count in found if count[1] is not None] or found[-1:]
        return shown[0][0].began if shown else time.monotonic(), {stage.what: count for stage, count in shown}


_current: ContextVar[ProgressWatcher | None] = ContextVar("watcher", default=None)


def current_watcher() -> ProgressWatcher | None:
    """Who watches what this thread does."""
    return _current.get()


@contextmanager
def watch_progress(watcher: ProgressWatcher) -> Iterator[None]:
    """A `with` block that the watcher looks at."""
    token = _current.set(watcher)
    try:
        yield
    finally:
        _current.reset(token)


def _uncounted() -> tuple[int, int | None]:
    return 0, None


@contextmanager
def report_stage(what: str, look: Look = _uncounted) -> Iterator[None]:
    """A `with` block that does something which takes its time."""
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
