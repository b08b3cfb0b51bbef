"""A progress bar on standard error, where that is a terminal and the work takes longer than a moment."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 0.5


class TerminalProgress:
    """Shows steps, and the nodes of the step that runs; it erases itself at the end."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._is_shown = sys.stderr.isatty()
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
        if not self._is_shown or not self._is_worth_it():
            return
        if self._bar is None:
            self._bar = self._start(steps, nodes)
        step_task, node_task = self._bar.task_ids
        self._bar.update(step_task, completed=steps_done, total=steps)
        self._bar.update(node_task, completed=nodes_done, total=nodes)

    def _is_worth_it(self) -> bool:
        """Whether executing has taken longer than a moment."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        return now - self._started >= PATIENCE_SECONDS

    def _start(self, steps: int, nodes: int) -> Progress:
        from placesim.report.terminal import progress_bar

        bar = progress_bar(sys.stderr)
        bar.add_task("steps", total=steps)
        bar.add_task("nodes", total=nodes)
        bar.start()
        return bar
