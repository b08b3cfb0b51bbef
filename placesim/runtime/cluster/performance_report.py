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
"""Activities of a task, by Dask's names."""


class WorkerSpan(NamedTuple):
    """An activity of a worker's thread: a node of an op, or a received tensor. Times are seconds since the epoch."""

    worker: str
    thread: str
    op: str
    name: str
    action: str
    start: float
    end: float


class PerformanceReport:
    """Dask's performance report from its creation on. Raises UsageError if the scheduler can't draw it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = cluster.client
        if not self._client.run_on_scheduler(_can_draw):
            who = "" if cluster.is_own else f" where the scheduler at {cluster.scheduler} runs"
            raise UsageError(f"--report needs Bokeh: `{EXTRA}`{who}")
        self._start, self._seen = self._client.run_on_scheduler(_begun)

    def page(self, spans: Iterable[WorkerSpan]) -> str:
        """Return one HTML page that needs no network. Raises UnavailableError if the scheduler is gone."""
        asked = time.time()
        rows = sorted(spans, key=lambda span: span.end)
        try:
            there = self._client.run_on_scheduler(_now)
            # the scheduler's clock may be another one
            ahead = there - (asked + time.time()) / 2
            self._client.run_on_scheduler(_show, [tuple(span) for span in rows], ahead)
            command = html.escape(" ".join(["placesim", *sys.argv[1:]]))
            report: Any = self._client.scheduler.performance_report
            page = self._client.sync(report, start=self._start, last_count=self._seen, code=command, mode="inline")
        except OSError as error:  # a CommClosedError among them
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
    """Return the page without links that browsers load automatically, and with a policy against network access by scripts."""
    head, found, rest = page.partition(_HEAD)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    before, style, body = rest.partition("<style")  # Bokeh's scripts come after
    return f"{head}{found}\n    {meta}{_LINK.sub('', before)}{style}{body}"


# --- in the scheduler -----------------------------------------------------------------------------------------------


def _can_draw() -> bool:
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def _now() -> float:
    return time.time()


def _begun(dask_scheduler: Any) -> tuple[float, int]:
    dask_scheduler.get_task_stream(start=0, stop=0)  # from now on there is one
    return time.time(), dask_scheduler.monitor.count


def _show(rows: Iterable[tuple[Any, ...]], ahead: float, dask_scheduler: Any) -> None:
    """Add rows to the task stream that were not Dask tasks."""
    stream = dask_scheduler.plugins["task-stream"]
    for row in rows:
        span = WorkerSpan(*row)
        moments = {"action": span.action, "start": span.start + ahead, "stop": span.end + ahead}
        # Dask gives what has the same name up to a hyphen the same colour
        key = f"{span.op}-{{{{node {span.name}}}}}"
        told = {"worker": span.worker, "thread": span.thread, "status": "OK", "startstops": [moments], "key": key}
        stream.buffer.append(told)
        stream.index += 1
