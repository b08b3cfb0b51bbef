"""Calls of functions that call others twice: what is found of a body is found once."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.api.runs import place
from placesim.graph.graph import Node
from placesim.placement import call_constraints
from placesim.placement.colocation import ColocationGraph

CALL = "PartitionedCall"


def call(name: str, source: str, function: str, **attrs: object) -> dict[str, Any]:
    called = {"func": function, **({"attrs": attrs} if attrs else {})}
    return {"op": CALL, "name": name, "inputs": [source], "attrs": {"f": called, "Tin": ["resource"], "Tout": ["resource"]}}


def function(number: int) -> dict[str, Any]:
    """Calls the one before it twice; the first is an identity."""
    if number:
        nodes = [call("x", "a", f"F{number - 1}"), call("y", "x:output:0", f"F{number - 1}")]
    else:
        nodes = [{"op": "Identity", "name": "y", "inputs": ["a"], "attrs": {"T": "resource"}}]
    ends = {
        "inputs": [{"name": "a", "type": "resource"}],
        "outputs": [{"name": "o", "type": "resource", "value": "y:output:0"}],
    }
    return {"name": f"F{number}", "nodes": nodes, **ends}


def graph(depth: int, **attrs: object) -> dict[str, Any]:
    variable = {"op": "VarHandleOp", "name": "v", "attrs": {"dtype": "float", "shape": []}}
    return {"nodes": [variable, call("c", "v", f"F{depth}", **attrs)], "functions": [function(i) for i in range(depth + 1)]}


def test_a_function_is_grouped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    body_of = call_constraints._group_body

    def counted(groups: ColocationGraph, node: Node, *rest: Any) -> call_constraints.GroupedBody:
        seen.append(node.name)
        return body_of(groups, node, *rest)

    monkeypatch.setattr(call_constraints, "_group_body", counted)
    place(graph(22), gpu=1)
    assert len(seen) == 23


def test_a_call_may_carry_a_tensor() -> None:
    found = place(graph(1, unused={"tensor": {"dtype": "float", "value": [1.0]}}), gpu=1)
    assert found.placements[0].node == "c"
