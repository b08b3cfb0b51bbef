"""Progress in a notebook: one line that is updated, in a kernel that is stood in for."""

from __future__ import annotations

import sys
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

import placesim
from placesim.core.process.progress import current_watcher, report_stage
from placesim.report import notebook_progress
from placesim.report.notebook_progress import show_in_notebook


class Notebook:
    """What a kernel publishes."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, bool]] = []
        self.spoke = Event()

    def publish(self, data: dict[str, str], transient: dict[str, str], update: bool) -> None:
        self.said.append((data["text/plain"], transient["display_id"], update))
        self.spoke.set()

    def wait(self) -> str:
        self.spoke.clear()
        assert self.spoke.wait(30)
        return self.said[-1][0]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    found = Notebook()
    shell = SimpleNamespace(kernel=object(), display_pub=found)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(notebook_progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(notebook_progress, "TICK_SECONDS", 0.001)
    return found


def test_a_long_call_is_one_line_that_is_updated(notebook: Notebook) -> None:
    done = [1200]
    with show_in_notebook("plan"), show_in_notebook("an inner call"):
        assert notebook.wait() == "placesim.plan: 0 s"
        with report_stage("nodes", lambda: (done[0], 10_000)):
            notebook.wait()
            assert notebook.wait() == "placesim.plan: nodes 1,200 of 10,000, 0 s"
            watcher = current_watcher()
            assert watcher is not None
            watcher.note = "best 1 ms"
            notebook.wait()
            assert notebook.wait() == "placesim.plan: best 1 ms, 0 s"
    texts, places, updates = zip(*notebook.said, strict=True)
    assert texts[-1] == "placesim.plan: 0 s"
    assert len(set(places)) == 1
    assert updates == (False, *[True] * (len(updates) - 1))
    assert "\x1b" not in "".join(texts)


def test_a_short_call_and_a_call_elsewhere_say_nothing(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    graph: dict[str, Any] = {"nodes": [{"op": "Const", "name": "a", "value": 1.0}], "fetch": ["a"]}
    monkeypatch.setattr(notebook_progress, "PATIENCE_SECONDS", 60.0)
    assert len(placesim.place(graph)) == 1
    monkeypatch.setattr(notebook_progress, "PATIENCE_SECONDS", 0.0)
    sys.modules["IPython"].get_ipython().kernel = None
    assert len(placesim.place(graph)) == 1
    assert notebook.said == []
    del sys.modules["IPython"].get_ipython().kernel
    assert len(placesim.sweep(graph, {"gpu": [0, 1]})) == 2
    assert notebook.said == []
