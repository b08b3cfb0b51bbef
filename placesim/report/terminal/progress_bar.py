"""The progress bar that a terminal shows during a long computation."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

LEAST_SHARE = 0.005
"""Minimum completed share for an estimate of the remaining time."""


class TimesColumn(ProgressColumn):
    """The elapsed and the estimated remaining time, beside the first bar.

    `share` is the completed share of all work, from 0 to 1.
    """

    def __init__(self, began: float) -> None:
        super().__init__()
        self._began = began
        self._share = 0.0
        self._told = began

    @property
    def share(self) -> float:
        """Completed share, from 0 to 1."""
        return self._share

    @share.setter
    def share(self, value: float) -> None:
        if value != self._share:
            self._share, self._told = value, time.monotonic()

    def render(self, task: Task) -> Text:
        """Return the times for the first task, and nothing for others."""
        if task.id:
            return Text()
        now = time.monotonic()
        shown = readable_time(now - self._began)
        if self._share >= LEAST_SHARE:
            # between two updates, the remaining time counts down
            left = (self._told - self._began) * (1 / self._share - 1) - (now - self._told)
            shown += f", {readable_time(max(0.0, left))} left"
        return Text(shown, "dim")


class CountColumn(MofNCompleteColumn):
    """The completed and the total count, if the total is known."""

    def render(self, task: Task) -> Text:
        """Return both numbers, or nothing if the total is unknown."""
        return Text() if task.total is None else super().render(task)


def readable_time(seconds: float) -> str:
    """Format seconds as `1:15`, with hours if needed."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def progress_bar(stream: TextIO, began: float) -> tuple[Progress, TimesColumn]:
    """Return a bar that disappears when it is done, and its column of times."""
    times = TimesColumn(began)
    columns = (TextColumn("{task.description}"), BarColumn(), CountColumn(), times)
    return Progress(*columns, console=Console(file=stream), transient=True), times
