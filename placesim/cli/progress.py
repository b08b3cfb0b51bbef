"""Progress bar on standard error. It appears on a terminal if work takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from placesim.cli.command import current_settings
from placesim.core.process.interrupts import InterruptDelay
from placesim.core.process.progress import ProgressWatcher, report_stage, watch_progress

if TYPE_CHECKING:
    from threading import Event, RLock

    from rich.progress import Progress

    from placesim.report.terminal.progress_bar import TimesColumn

PATIENCE_SECONDS = 0.5
TICK_SECONDS = 0.2
"""Seconds between checks that may show a bar even if the work reports nothing (for example in a long kernel)."""


class TerminalProgress:
    """Progress bars for nested counters, such as steps and the nodes of the current step. They disappear at the end."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._since = 0.0
        self._is_shown = sys.stderr.isatty() and not current_settings().quiet
        self._bar: Progress | None = None
        self._counts: dict[str, tuple[int, int | None]] = {}
        self._cleared = 0.0
        self._watcher: ProgressWatcher | None = None
        self._times: TimesColumn
        self._lock: RLock
        self._ended: Event | None = None

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    @property
    def is_up(self) -> bool:
        """Whether a bar is visible."""
        return self._bar is not None

    def close(self) -> None:
        """Remove the bar permanently."""
        self._is_shown = False
        if self._ended is not None:
            self._ended.set()
        self.clear()

    def clear(self) -> None:
        """Remove the bar. An update, or the next tick, shows it again."""
        if self._ended is not None:
            with InterruptDelay(), self._lock:  # a bar that is only partly removed leaves the terminal without a cursor
                self._take_down()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the bar during the block, so that other output can be written."""
        if self._ended is None:
            yield
            return
        with self._lock:
            self._take_down()
            yield
            self._cleared = time.monotonic()

    def update(self, steps_done: int, steps: int, nodes_done: int, nodes: int) -> None:
        """Show the progress of a simulation, which calls this periodically."""
        self.show({"steps": (steps_done, steps), "nodes": (nodes_done, nodes)})

    def watch(self, watcher: ProgressWatcher) -> None:
        """Show the watcher's counts at each refresh."""
        self._watcher = watcher
        self.look(watcher)

    def look(self, watcher: ProgressWatcher) -> None:
        """Show the watcher's current counts."""
        began, counts = watcher.counts()
        self.show(counts, began)

    def told(self) -> str:
        """Return the current progress in words; empty if no bar is shown."""
        if self._bar is None:
            return ""
        share = _share(list(self._counts.values()))
        return f"{next(iter(self._counts))}{f', {share:.0%} done' if share else ''}"

    def show(self, counts: Mapping[str, tuple[int, int | None]], began: float | None = None) -> None:
        """Draw a bar for each counter: the completed count, and the total if known.

        Each counter subdivides one unit of the previous counter, as minutes subdivide an hour, so that all together give the
        completed share. `began` is the start time; by default, it is when something was first shown.
        """
        if not self._is_shown:
            return
        if self._ended is None:
            self._begin()
        with self._lock:
            if self._counts.keys() != counts.keys() or self._since != (began or self._since):
                self._take_down()
                self._since = began or self._since
            self._counts = dict(counts)
            if self._is_worth_it():
                self._put_up()

    def _begin(self) -> None:
        from threading import Event, RLock, Thread

        self._started = self._since = time.monotonic()
        self._lock, self._ended = RLock(), Event()
        Thread(target=self._tick, args=(self._ended,), name="placesim-progress", daemon=True).start()

    def _tick(self, ended: Event) -> None:
        """Show the bar when the work reports nothing for a while."""
        while not ended.wait(TICK_SECONDS):
            if self._watcher is not None:
                if time.monotonic() - self._cleared >= TICK_SECONDS:
                    self.look(self._watcher)
                continue
            with self._lock:
                is_due = self._is_worth_it() and time.monotonic() - self._cleared >= TICK_SECONDS
                if self._is_shown and self._bar is None and is_due:
                    self._put_up()

    def _is_worth_it(self) -> bool:
        """Whether the work has taken so long that a bar is useful."""
        return self._started is not None and time.monotonic() - self._started >= PATIENCE_SECONDS

    def _put_up(self) -> None:
        if self._bar is None:
            from placesim.report.terminal.progress_bar import progress_bar

            self._bar, self._times = progress_bar(sys.stderr, self._since)
            for what, (_, total) in self._counts.items():
                self._bar.add_task(what, total=total)
            self._bar.start()
        for task, (done, total) in zip(self._bar.task_ids, self._counts.values(), strict=True):
            self._bar.update(task, completed=done, total=total)
        self._times.share = _share(list(self._counts.values()))

    def _take_down(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


_shown: list[TerminalProgress] = []
"""The bar of the running command. It is empty while the command prints output."""


@contextmanager
def show_stages(what: str) -> Iterator[None]:
    """Show a progress bar for the stages inside the block, with counts if known, and the elapsed time.

    Inside another such block, the stages are nested in its bar. After an interrupt, a terminal with a bar shows a message.
    """
    if _shown or not sys.stderr.isatty() or current_settings().quiet:
        with report_stage(what):
            yield
        return
    watcher = ProgressWatcher()
    with TerminalProgress() as progress, watch_progress(watcher), report_stage(what):
        _shown.append(progress)
        try:
            progress.watch(watcher)
            yield
        except KeyboardInterrupt:
            watcher.keep()
            progress.look(watcher)
            told = progress.told()
            progress.close()
            if told:
                sys.stderr.write(f"interrupted: {told}\n")
            raise
        finally:
            _shown.clear()


def close_bar() -> None:
    """Remove the current bar permanently, to make room for other output."""
    for progress in _shown:
        progress.close()


@contextmanager
def write_beside_bar() -> Iterator[None]:
    """Hide the bar during a block that writes to the terminal."""
    with ExitStack() as stack:
        for progress in _shown:
            stack.enter_context(progress.aside())
        yield


def _share(counts: Sequence[tuple[int, int | None]]) -> float:
    """Return the completed share, from 0 to 1. Each count subdivides one unit of the previous count."""
    share, part = 0.0, 1.0
    for done, total in counts:
        part /= total or 1
        share += part * done
    return min(share, 1.0)
