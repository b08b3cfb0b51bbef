"""Dask's performance report of a cluster, with placesim's nodes and tensors in its task stream."""

from __future__ import annotations

import html
import re
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from placesim.core.errors import UnavailableError, UsageError
from placesim.runtime.cluster.cluster_setup import Cluster

EXTRA = "pip install 'placesim[report]'"
COMPUTED, MOVED = "compute", "transfer"
"""Dask's names of a task's activities."""


class WorkerSpan(NamedTuple):
    """A node that ran in a worker's thread, or a tensor that the worker received; times are seconds since the epoch."""

    worker: str
    thread: str
    op: str
    name: str
    action: str
    start: float
    end: float


class PerformanceReport:
    """Dask's performance report of the time since this object was made. The constructor raises UsageError without Bokeh."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = cluster.client
        if not self._client.run_on_scheduler(_can_draw):
            who = "" if cluster.is_own else f" where the scheduler at {cluster.scheduler} runs"
            raise UsageError(f"--report needs Bokeh: `{EXTRA}`{who}")
        self._start, self._seen = self._client.run_on_scheduler(_begun)

    def page(self, spans: Iterable[WorkerSpan]) -> str:
        """Return the report as an HTML page that needs no network. Raises UnavailableError if the scheduler is gone."""
        asked = time.time()
        rows = sorted(spans, key=lambda span: span.end)
        try:
            there = self._client.run_on_scheduler(_now)
            # how far the scheduler's clock is ahead of this one
            ahead = there - (asked + time.time()) / 2
            self._client.run_on_scheduler(_show, [tuple(span) for span in rows], ahead)
            command = html.escape(" ".join(["placesim", *sys.argv[1:]]))
            report: Any = self._client.scheduler.performance_report
            page = self._client.sync(report, start=self._start, last_count=self._seen, code=command, mode="inline")
        except OSError as error:  # includes Dask's CommClosedError
            raise UnavailableError(f"no report: the cluster's scheduler at {self._cluster.scheduler} is gone") from error
        assert isinstance(page, str)
        return _without_network(page)


_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
_LINK = re.compile(r"<link\b[^>]*\bhref=[\"'](?:https?:)?//[^>]*>\s*")
_HEAD = "<head>"


def _without_network(page: str) -> str:
    """Return the page without links that browsers load, and with a security policy that keeps scripts from the network."""
    head, found, rest = page.partition(_HEAD)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    before, style, body = rest.partition("<style")  # Bokeh's scripts come after the style
    return f"{head}{found}\n    {meta}{_LINK.sub('', before)}{style}{body}"


# --- in the scheduler -----------------------------------------------------------------------------------------------


def _can_draw() -> bool:
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def _now() -> float:
    return time.time()


def _begun(dask_scheduler: Any) -> tuple[float, int]:
    dask_scheduler.get_task_stream(start=0, stop=0)  # starts the task stream
    return time.time(), dask_scheduler.monitor.count


def _show(rows: Iterable[tuple[Any, ...]], ahead: float, dask_scheduler: Any) -> None:
    """Add spans, which were not Dask tasks, to the task stream; `ahead` is the lead of the scheduler's clock in seconds."""
    stream = dask_scheduler.plugins["task-stream"]
    for row in rows:
        span = WorkerSpan(*row)
        moments = {"action": span.action, "start": span.start + ahead, "stop": span.end + ahead}
        # Dask uses one colour for all keys that are equal up to the first hyphen
        key = f"{span.op}-{{{{node {span.name}}}}}"
        told = {"worker": span.worker, "thread": span.thread, "status": "OK", "startstops": [moments], "key": key}
        stream.buffer.append(told)
        stream.index += 1
