"""What an upgrade from TensorFlow 1.15 would do otherwise, and by which rule."""

from __future__ import annotations

from typing import Any

import pytest

import placesim

TASK = "/job:localhost/replica:0/task:0/device:"
CONST: dict[str, Any] = {"op": "Const", "name": "k", "value": 1.0}
F = {"T": "float"}
BETWEEN: list[dict[str, Any]] = [
    CONST,
    {"op": "Neg", "name": "before", "inputs": ["k"], "device": "/cpu:1", "attrs": F},
    {"op": "Identity", "name": "x", "inputs": ["before"], "attrs": F},
    {"op": "Neg", "name": "after", "inputs": ["x"], "device": "/cpu:1", "attrs": F},
]
TIED: list[dict[str, Any]] = [
    {"op": "VarHandleOp", "name": "v", "device": "/task:0", "attrs": {"dtype": "float", "shape": []}},
    {"op": "ReadVariableOp", "name": "x", "inputs": ["v"], "device": "/cpu:1", "attrs": {"dtype": "float"}},
]
LABELLED: list[dict[str, Any]] = [
    {**CONST, "name": "b", "device": "/cpu:1", "attrs": {"_class": ["loc:@y"]}},
    {**CONST, "name": "x", "attrs": {"_class": ["loc:@b"]}},
]
CASES = {
    "an identity": (BETWEEN, "an Identity between equal requests follows its input (6.3 B2)"),
    "a tie": (TIED, "compatible devices are merged over a colocating edge (5.6.2)"),
    "a label": (LABELLED, "a node's name is always a colocation label (5.7)"),
}


def _explained(nodes: list[dict[str, Any]], release: str = "1.15", **more: Any) -> Any:
    graph = {"raw": True, "nodes": nodes, "devices": {"cpu": 2, **more}, "tensorflow": release}
    return placesim.explain(graph, "x", edits=0)


@pytest.mark.parametrize("case", CASES)
def test_the_rule_that_moves_a_node(case: str) -> None:
    nodes, sentence = CASES[case]
    report = _explained(nodes)
    (found,) = report.nodes
    assert (found.difference.release, found.difference.rules) == ("2.21", ((sentence, f"{TASK}CPU:1"),))
    assert f"in 2.21         CPU:1: {sentence}" in report.text()
    (document,) = report.document()["nodes"]
    assert document["other_release"] == {
        "release": "2.21",
        "rules": [{"rule": sentence, "device": f"{TASK}CPU:1"}],
        "kernels": None,
    }


def test_kernels_that_came_later() -> None:
    nodes = [
        {"op": "Placeholder", "name": "p", "attrs": {"dtype": "bfloat16"}},
        {"op": "Abs", "name": "x", "inputs": ["p"], "attrs": {"T": "bfloat16"}},
    ]
    report = _explained(nodes, gpu=1)
    assert report.nodes[0].difference.kernels == ("GPU", "CPU")
    assert "kernels: GPU, CPU" in report.text()


def test_where_nothing_is_otherwise() -> None:
    assert _explained(BETWEEN, "2.21").nodes[0].difference is None
    assert "other_release" not in _explained(BETWEEN, "2.21").document()["nodes"][0]
    assert _explained([{**CONST, "name": "x"}]).nodes[0].difference is None


def test_what_an_upgrade_moves() -> None:
    graph = {"raw": True, "nodes": BETWEEN, "devices": {"cpu": 2}}
    before, after = (placesim.place(graph, tensorflow=release) for release in ("1.15", "2.21"))
    difference = placesim.diff(before, after)
    moved = difference.document()["moved"]
    assert [(row["name"], row["before"], row["after"]) for row in moved] == [("x", f"{TASK}CPU:0", f"{TASK}CPU:1")]
