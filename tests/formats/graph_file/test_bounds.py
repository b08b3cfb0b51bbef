"""Small files stay small: what a few lines could make too much of is refused where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.cli import main


def nested(depth: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"op": "NoOp"}
    for _ in range(depth):
        entry = {"device": ["/cpu:0", "/cpu:0"], "nodes": [entry]}
    return entry


SPLIT = [
    {"op": "Const", "name": "x", "value": [1.0, 2.0]},
    {"op": "Const", "name": "d", "value": 0},
    {"op": "Split", "name": "o", "inputs": ["d", "x"], "attrs": {"num_split": 10**12}},
]
POOL = {"session_inter_op_thread_pool": [{"num_threads": -5}]}
TOO_MUCH: dict[str, dict[str, Any]] = {
    "too many copies of scopes": {"nodes": [nested(25)]},
    "too many devices": {"nodes": [{"op": "NoOp"}], "devices": [{"job": "a", "tasks": 4096, "gpu": 4096}]},
    "more than 1048576 tensors": {"nodes": SPLIT},
    "'num_threads' out of range": {"nodes": [{"op": "NoOp"}], "config": POOL},
    "bad size": {"nodes": [{"op": "NoOp"}], "devices": {"gpu": {"count": 1, "memory": "9" * 400}}},
}


@pytest.mark.parametrize("message", TOO_MUCH)
def test_a_bound_of_the_graph_file(message: str) -> None:
    with pytest.raises(placesim.GraphFileError, match=message):
        placesim.place(TOO_MUCH[message])


def test_devices_that_an_option_multiplies() -> None:
    graph = {"nodes": [{"op": "NoOp"}], "devices": [{"job": "a", "tasks": 4096}]}
    with pytest.raises(placesim.UsageError, match="too many devices"):
        placesim.place(graph, gpu=4096)


def test_an_explanation_does_not_try_a_million_devices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = tmp_path / "graph.yaml"
    graph.write_text("nodes: [{op: NoOp, name: o, device: '/device:GPU:1000000'}]\ndevices: {gpu: 2}\n")
    assert main(["explain", str(graph), "o"]) == 1
    assert "--gpu 1000001" not in capsys.readouterr().out
