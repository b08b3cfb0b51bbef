"""Nodes that read a reference variable anew when they compute, since an update of the step comes before them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.sessions.graphs import fetch, make_session

VARIABLE: list[Any] = [
    {"variable": "v", "shape": [], "initializer": "zeros"},
    {"op": "AssignAdd", "name": "add", "inputs": ["v", 1.0]},
    {"initializer": "init"},
]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"op": "Neg", "inputs": ["v/read"], "control_inputs": ["add"]}, -1.0),
        ({"op": "AddV2", "inputs": ["v/read", "add"]}, 2.0),
        ({"op": "AddV2", "inputs": ["v/read", "doubled"]}, 3.0),
        ({"op": "Neg", "inputs": ["doubled"]}, -2.0),
    ],
    ids=["control", "data", "through another", "not of the variable"],
)
def test_what_depends_on_the_update_has_the_new_value(node: dict[str, Any], expected: float) -> None:
    doubled = {"op": "AddV2", "name": "doubled", "inputs": ["add", "add"]}
    session = make_session([*VARIABLE, doubled, {**node, "name": "found"}])
    fetch(session, "init")
    assert fetch(session, "found") == expected


def test_a_variable_of_another_name_is_read() -> None:
    named = {"op": "VariableV2", "name": "w", "attrs": {"dtype": "float", "shape": [], "shared_name": "mine", "container": "c"}}
    nodes = [
        named,
        {"op": "Assign", "name": "set", "inputs": ["w", 5.0]},
        {"op": "Identity", "name": "read", "inputs": ["w"]},
        {"op": "AssignAdd", "name": "add", "inputs": ["w", 1.0]},
        {"op": "Neg", "name": "found", "inputs": ["read"], "control_inputs": ["add"]},
    ]
    session = make_session(nodes)
    fetch(session, "set")
    assert fetch(session, "found") == -6.0
    assert fetch(session, "found") == -7.0
