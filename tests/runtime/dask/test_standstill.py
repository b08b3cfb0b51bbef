"""How a client tells a deadlock from workers that are about to go on, with made-up messages of workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed", reason="of the extra `dask`")

from placesim.core.errors import InternalError
from placesim.runtime.dask.cluster_executor import _StepRun
from placesim.runtime.dask.dataflow_worker import StallReport
from placesim.runtime.dask.messages import PartResult
from placesim.runtime.dask.worker_connections import WorkerMessage

STALL = StallReport(0, InternalError("stalled"))
ENDED: tuple[str, dict[str, int], Any] = ("ended", {}, PartResult())


def idle(come: int) -> tuple[str, dict[str, int], Any]:
    return "idle", {"come": come}, STALL


def count(check: int, sent: int, come: int) -> tuple[str, dict[str, int], Any]:
    return "count", {"check": check}, (sent, come)


def run_of(*said: tuple[str, tuple[str, dict[str, int], Any]]) -> tuple[_StepRun, list[Any]]:
    """A step on workers a and b that say this in turn, and what they are asked."""
    asked: list[Any] = []
    messages = iter(WorkerMessage(address, {"is": kind, "step": 7, **rest}, value) for address, (kind, rest, value) in said)
    links = SimpleNamespace(tell=lambda address, message: asked.append((address, message["do"])))
    session: Any = SimpleNamespace(next_step=lambda: 7, hear=lambda: next(messages), links=links)
    return _StepRun(session, ("a", "b"), None), asked


def test_counts_of_an_earlier_check_are_ignored() -> None:
    """Worker a receives a tensor, sends another to b, and ends, before b has answered the first check."""
    a, b = "a", "b"
    run, asked = run_of(
        *((a, idle(0)), (b, idle(0))),
        *((a, count(1, 0, 1)), (a, ENDED), (a, count(2, 1, 1)), (b, count(1, 1, 1)), (b, count(2, 1, 1)), (b, ENDED)),
    )
    assert list(run.finish()) == [a, b]
    assert asked == [(a, "probe"), (b, "probe")] * 2


def test_a_worker_that_has_received_a_tensor_since_its_report_is_asked_again_once_it_is_idle() -> None:
    a, b = "a", "b"
    checks = [(address, count(check, 1, come)) for check in (2, 3) for address, come in ((a, 0), (b, 2))]
    run, asked = run_of((a, idle(0)), (b, idle(1)), (a, count(1, 1, 0)), (b, count(1, 1, 2)), (b, idle(2)), *checks)
    with pytest.raises(InternalError, match="stalled"):
        run.finish()
    assert asked == [(a, "probe"), (b, "probe")] * 3
