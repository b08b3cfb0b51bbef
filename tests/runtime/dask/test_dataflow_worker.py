"""The run of a worker's part of a step in dataflow order."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

pytest.importorskip("distributed", reason="of the extra `dask`")

from placesim.runtime.dask.dataflow_worker import FlowingPart, PartRun
from placesim.runtime.dask.message_queue import Arrival


def test_a_node_may_run_beside_those_that_wait_for_another_worker() -> None:
    anything: Any = lambda *_: None  # noqa: E731
    run = PartRun(FlowingPart([], (), anything, None), {}, SimpleQueue(), anything, anything)
    assert not run._is_accompanied()
    run.receivers["key"] = anything
    assert run._is_accompanied()


def test_a_part_ends_with_a_tensor_that_no_node_needs_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a dead tensor for a Merge that has run."""
    monkeypatch.setattr(PartRun, "_deliver", lambda *_: None)
    anything: Any = lambda *_: None  # noqa: E731
    mail: Any = SimpleQueue()
    run = PartRun(FlowingPart([], (), anything, None), {}, mail, anything, anything)
    run.receivers["key"], run._generations["key"] = anything, 0
    mail.put(Arrival("key", None, 0, 0, 0))
    assert run.run() == {}
