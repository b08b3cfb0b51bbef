"""A progress bar on standard error, where that is a terminal and the work takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from placesim.cli.command import current_settings

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 0.5


class TerminalProgress:
    """Shows how far each of some things is, such as steps and the nodes of the one that runs; it erases itself at the end."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._is_shown = sys.stderr.isatty() and not current_settings().quiet
        self._bar: Progress | None = None

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(self, *error: Any) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the bar away; the next update puts it there again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def update(self, steps_done: int, steps: int, nodes_done: int, nodes: int) -> None:
        """Called by the simulation now and then."""
        self.show({"steps": (steps_done, steps), "nodes": (nodes_done, nodes)})

    def show(self, counts: Mapping[str, tuple[int, int]]) -> None:
        """A bar for each kind of thing that is counted: how many are done, of how many; always of the same kinds."""
        if not self._is_shown or not self._is_worth_it():
            return
        if self._bar is None:
            self._bar = self._start(counts)
        for task, (done, total) in zip(self._bar.task_ids, counts.values(), strict=True):
            self._bar.update(task, completed=done, total=total)

    def _is_worth_it(self) -> bool:
        """Whether it has taken longer than a moment."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        return now - self._started >= PATIENCE_SECONDS

    def _start(self, counts: Mapping[str, tuple[int, int]]) -> Progress:
        from placesim.report.terminal import progress_bar

        bar = progress_bar(sys.stderr)
        for what, (_, total) in counts.items():
            bar.add_task(what, total=total)
        bar.start()
        return bar
