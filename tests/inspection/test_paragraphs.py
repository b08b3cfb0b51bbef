"""Proofs in paragraphs: each step that decided a device is in them."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.inspection.explaining.paragraphs import NODE, Paragraphs
from tests.inspection.pictures import snapshot

VARIABLE = """raw: true
nodes:
  - {op: VariableV2, name: v, attrs: {shape: [2], dtype: float32}, device: '/device:GPU:0'}
  - {op: Const, name: x, attrs: {dtype: float32, value: {tensor: {dtype: float32, shape: [2], value: [1.0, 2.0]}}}}
  - {op: Assign, name: set, inputs: [v, x], device: '/device:CPU:0', attrs: {T: float32}}
"""
STRINGS = "nodes: [{op: Const, name: s, value: hello, device: /gpu:0}]"
SHAPE = """nodes:
  - {op: Const, name: k, value: [1.0, 2.0], device: /gpu:1}
  - {op: Neg, name: n, inputs: [k], device: /gpu:1}
  - {op: Shape, name: shape, inputs: [n]}
"""
LABELS = """nodes:
  - {op: VarHandleOp, name: v, dtype: float32, shape: [2], device: /gpu:0}
  - {op: VarHandleOp, name: w, dtype: float32, shape: [2], device: /gpu:1}
  - {op: NoOp, name: both, attrs: {_class: ['loc:@v', 'loc:@w']}}
"""


def proof(text: str, node: str, **options: Any) -> dict[str, str]:
    """The paragraphs of a node's proof by term, with names in the place of nodes; several of a term one after another."""
    live = snapshot(text, **options).live
    assert live is not None
    assert live.placement is not None
    graph = live.placement.graph
    found: dict[str, str] = {}
    for term, sentence, nodes in Paragraphs(live).of(graph.ids[node]):
        for i in nodes:
            sentence = sentence.replace(NODE, graph.nodes[i].name, 1)
        assert NODE not in sentence
        found[term] = f"{found[term]} {sentence}" if term in found else sentence
    return found


SOFT = {"gpu": 1, "soft_placement": True}


@pytest.mark.parametrize(
    ("text", "node", "options", "term", "sentence"),
    [
        (VARIABLE, "v", {"gpu": 1}, "Requested", "/device:GPU:0, by its own entry"),
        (VARIABLE, "x", {"gpu": 1}, "Requested", "No device."),
        (VARIABLE, "x", {"gpu": 1}, "Chosen", "GPU:0. It has no inputs, and all its consumers are on this device"),
        (VARIABLE, "v", {"gpu": 1}, "Group", "2 ops must share a device: this one, set"),
        (
            VARIABLE,
            "set",
            {"gpu": 1},
            "Overridden",
            "/device:CPU:0 was overridden by its reference to v, which requests /device:GPU:0.",
        ),
        (VARIABLE, "set", {"gpu": 1}, "Chosen", "GPU:0. Its group follows v, which was placed first."),
        (STRINGS, "s", SOFT, "Soft placement", "the requested type and number were dropped"),
        (STRINGS, "s", SOFT, "Kernels", "Const has kernels for CPU. GPU has none that matches: dtype is string"),
        (STRINGS, "s", SOFT, "Candidates", "CPU:0"),
        (SHAPE, "shape", {"gpu": 2}, "Chosen", "GPU:1. It reads only the shape of its input, so it follows the input."),
        (SHAPE, "shape", {"gpu": 2}, "Candidates", "GPU:0, GPU:1, CPU:0"),
        (LABELS, "both", SOFT | {"gpu": 2}, "Joined by", "both and v, by the label loc:@v."),
        (LABELS, "both", SOFT | {"gpu": 2}, "Ignored label", "Soft placement ignored loc:@w: Cannot merge devices"),
    ],
)
def test_each_step_is_told(text: str, node: str, options: dict[str, Any], term: str, sentence: str) -> None:
    assert sentence in proof(text, node, **options)[term]


def test_a_node_before_which_an_error_came_is_not_placed() -> None:
    assert proof("nodes: [{op: NoOp, name: a, device: /gpu:7}]", "a")["Not placed"].startswith("Placement failed")


def test_a_scope_that_asked_is_named_with_its_line() -> None:
    text = "nodes:\n  - device: /cpu:0\n    nodes:\n      - {op: NoOp, name: a}\n"
    assert proof(text, "a")["Requested"] == "/device:CPU:0, by the scope at graph.yaml:2:13"
