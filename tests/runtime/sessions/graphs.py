"""Small graphs for the runtime's tests, written as graph files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from placesim.core.errors import OpError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession


def make_session(nodes: Sequence[Any], *, cpu: int = 1, gpu: int = 0, raw: bool = False, **config: Any) -> GraphSession:
    """A session on these node entries with that inventory."""
    file = graph_file_from_mapping({"nodes": nodes, "raw": raw})
    devices = build_devices([TaskInventory(cpu=cpu, gpu=gpu)])
    return GraphSession(file.graph, devices, Config(**config), bare_fetch_is_target=raw)


def assert_same_mistake(nodes: Sequence[Any], name: str, **feeds: Any) -> None:
    """A step that fails does so in the same words, at the same node, with ops that are computed together and without."""
    texts = []
    for fuses in (True, False):
        with pytest.raises(OpError) as caught:
            fetch(make_session(nodes, fuses_ops=fuses), name, **feeds)
        texts.append((str(caught.value), caught.value.node))
    assert texts[0] == texts[1]


def fetch(session: GraphSession, *names: str, **feeds: Any) -> Any:
    """Run one step; the value of one fetch, or a tuple of several."""
    step = GraphStep(tuple(map(Fetch, names)), tuple(Feed(name, value) for name, value in feeds.items()))
    values = tuple(found.value for found in session.run(step).values)
    return values[0] if len(values) == 1 else values
