"""Progress of a call in a notebook: a plain line in the output of the cell, which is updated in place."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from placesim.core.process.progress import ProgressWatcher, current_watcher, watch_progress

PATIENCE_SECONDS = 1.0
TICK_SECONDS = 0.5
Publish = Callable[..., None]
"""Function that displays output in a notebook, with `data` by MIME type, `transient` with a `display_id`, and `update`."""


@contextmanager
def show_in_notebook(call: str) -> Iterator[None]:
    """Show the stages inside the block if they take longer than a moment. Outside notebooks, and in other calls, do nothing."""
    publish = _find_publisher()
    if publish is None or current_watcher() is not None:
        yield
        return
    line = _ProgressLine(call, publish)
    with watch_progress(line.watcher):
        line.start()
        try:
            yield
        finally:
            line.end()


def _find_publisher() -> Publish | None:
    """Return the publisher of the running notebook; None in other programs, and in IPython's terminal, which has no kernel."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return None if getattr(shell, "kernel", None) is None else shell.display_pub.publish


class _ProgressLine:
    """A line such as `plan: simulating 3 of 20, 4 s`. At the end, the line has only the time."""

    def __init__(self, call: str, publish: Publish) -> None:
        self.watcher = ProgressWatcher()
        self._call = call
        self._publish = publish
        self._began = time.monotonic()
        self._place: dict[str, str] = {}
        self._ended = Event()
        self._thread = Thread(target=self._tick, name="placesim-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        if self._place:
            self._show([])

    def _tick(self) -> None:
        if self._ended.wait(PATIENCE_SECONDS):
            return
        while not self._ended.is_set():
            _, counts = self.watcher.counts()
            stages = [what if total is None else f"{what} {done:,} of {total:,}" for what, (done, total) in counts.items()]
            self._show([self.watcher.note or ", ".join(stages)])
            self._ended.wait(TICK_SECONDS)

    def _show(self, said: list[str]) -> None:
        told = ", ".join([*filter(None, said), f"{time.monotonic() - self._began:.0f} s"])
        is_shown, self._place = bool(self._place), self._place or {"display_id": uuid4().hex}
        self._publish(data={"text/plain": f"placesim.{self._call}: {told}"}, transient=self._place, update=is_shown)
