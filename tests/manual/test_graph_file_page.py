"""The page on the graph file names every key that the readers accept: their own messages say which those are."""

from __future__ import annotations

import re
from typing import Any

import pytest

import placesim
from placesim.cli.manual_pages import find_sections, read_page

NODES: dict[str, Any] = {"nodes": [{"op": "Placeholder", "name": "x", "dtype": "float32"}]}
FUNCTION = {"name": "f", "inputs": [], "outputs": [], "nodes": []}
PLACES: list[tuple[str, dict[str, Any]]] = [
    ("Top level", {"nodes": [], "?": 1}),
    ("Nodes", {"nodes": [{"op": "NoOp", "?": 1}]}),
    ("Scopes", {"nodes": [{"nodes": [], "?": 1}]}),
    ("Variables", {"nodes": [{"variable": "v", "shape": [1], "?": 1}]}),
    ("Variables", {"nodes": [{"initializer": "i", "?": 1}]}),
    ("Variables", {"nodes": [{"variable": "v", "shape": [1], "initializer": "?"}]}),
    ("Variables", {"nodes": [{"variable": "v", "shape": [1], "initializer": {"random_uniform": {"?": 1}}}]}),
    ("Variables", {"nodes": [{"variable": "v", "shape": [1], "initializer": {"truncated_normal": {"?": 1}}}]}),
    ("Gradients and training", {"nodes": [{"gradients": {"of": "x"}, "?": 1}]}),
    ("Gradients and training", {"nodes": [{"gradients": {"of": "x", "?": 1}}]}),
    ("Gradients and training", {"nodes": [{"train": {"minimize": "x", "optimizer": "Adam"}, "?": 1}]}),
    ("Gradients and training", {"nodes": [{"train": {"minimize": "x", "optimizer": "Adam", "?": 1}}]}),
    ("Gradients and training", {"nodes": [{"train": {"apply": "x", "optimizer": "Adam", "?": 1}}]}),
    ("Gradients and training", {"nodes": [{"train": {"minimize": "x", "optimizer": "?"}}]}),
    ("Steps", {**NODES, "run": [{"?": 1}]}),
    ("Feeds", {**NODES, "feed": {"x": {"?": 1}}}),
    ("Functions", {"nodes": [], "functions": [{**FUNCTION, "?": 1}]}),
    ("Functions", {"nodes": [], "functions": [{**FUNCTION, "outputs": [{"name": "a", "type": "float", "?": 1}]}]}),
    ("Functions", {"nodes": [], "functions": [{**FUNCTION, "nodes": [{"op": "NoOp", "name": "n", "?": 1}]}]}),
    ("Functions", {"nodes": [], "functions": [{**FUNCTION, "inputs": {"x": {"?": 1}}}]}),
    ("Devices", {"nodes": [], "devices": {"?": 1}}),
    ("Devices", {"nodes": [], "devices": [{"?": 1}]}),
    ("Devices", {"nodes": [], "devices": {"cpu": {"?": 1}}}),
    ("Devices", {"nodes": [], "devices": {"gpu": {"?": 1}}}),
    ("Devices", {"nodes": [], "devices": {"gpu": {"model": {"name": "m", "?": 1}}}}),
    ("Links", {"nodes": [], "links": [{"?": 1}]}),
    ("Config", {"nodes": [], "config": {"?": 1}}),
    ("Config", {"nodes": [], "config": {"gpu_options": {"?": 1}}}),
    ("Config", {"nodes": [], "config": {"gpu_options": {"experimental": {"?": 1}}}}),
    ("Config", {"nodes": [], "config": {"gpu_options": {"experimental": {"virtual_devices": [{"?": 1}]}}}}),
    ("Config", {"nodes": [], "config": {"graph_options": {"?": 1}}}),
    ("Config", {"nodes": [], "config": {"session_inter_op_thread_pool": [{"?": 1}]}}),
    ("Raw files", {"raw": True, "nodes": [{"op": "NoOp", "name": "n", "?": 1}]}),
    ("Raw files", {"raw": True, "nodes": [], "versions": {"?": 1}}),
]


@pytest.mark.parametrize(("section", "graph"), PLACES, ids=[f"{section}-{i}" for i, (section, _) in enumerate(PLACES)])
def test_every_key_is_named(section: str, graph: dict[str, Any]) -> None:
    with pytest.raises(placesim.GraphFileError) as caught:
        placesim.place(graph)
    (message,) = [
        problem.message for problem in caught.value.problems if "'?'" in problem.message or "with ?" in problem.message
    ]
    listed = message.partition("expected ")[2].partition(";")[0].removeprefix("one of ")
    known = re.split(r", | or ", listed)
    text = find_sections(read_page("graph-file"), section)
    words = set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`[^`]+`|^```.*?^```", text, re.MULTILINE | re.DOTALL))))
    assert len(known) > 0
    assert not [key for key in known if key not in words]
