"""A graph that is rewritten: numbers, edges both ways, and what a new node may not read."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.dtypes import FLOAT, INT32, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.graph.graph import Graph, NodeDef
from placesim.ops.registry import load_registry
from placesim.placement.editable_graph import EditableGraph
from placesim.placement.editable_node import EditableNode

T: dict[str, Any] = {"T": FLOAT}


def edited(*nodes: NodeDef) -> EditableGraph:
    graph = Graph(load_registry())
    graph.extend([NodeDef("a", "Placeholder", attrs={"dtype": FLOAT}), NodeDef("b", "Neg", ("a",), attrs=T), *nodes])
    return EditableGraph(graph)


def named(graph: EditableGraph) -> dict[str, EditableNode]:
    return {node.name: node for node in graph.nodes if not node.removed}


def test_new_nodes_are_numbered_on_and_removed_ones_leave_a_gap() -> None:
    graph = edited()
    a, b = graph.nodes
    c = graph.add(graph.new_name("c"), "Neg", T, "", [(b, 0)], [a])
    graph.add(graph.new_name("c"), "NoOp", {}, "", (), [c, c])
    assert [node.name for node in graph.nodes] == ["a", "b", "c/_0", "c/_1"]
    graph.reconnect(c, 0, a, 0)
    graph.remove(b)
    assert a.readers == [(c, -1), (c, 0)]
    assert graph.data_readers(a) == [(c, 0)]
    assert graph.control_readers(a) == [c]
    assert len(graph.control_readers(c)) == 1
    found = graph.finish()
    assert [(node.name, node.input_nodes, node.control_inputs) for node in found.nodes] == [
        ("a", (), ()),
        ("c/_0", (0,), (0,)),
        ("c/_1", (), (1,)),
    ]
    assert found.runtime_ids == [2, 4, 5]


def test_a_removed_node_is_gone_from_those_at_both_its_ends() -> None:
    graph = edited(NodeDef("c", "Neg", ("a", "^b"), attrs=T), NodeDef("d", "NoOp", ("^c",)))
    nodes = named(graph)
    graph.remove(nodes["c"])
    assert nodes["a"].readers == [(nodes["b"], 0)]
    assert nodes["b"].readers == []
    assert nodes["d"].control == {}


def test_nodes_are_moved_behind_those_that_came_after_them() -> None:
    graph = edited()
    a = graph.nodes[0]
    moved = [graph.add(name, "Identity", T, "", [(a, 0)]) for name in ("m", "n")]
    graph.add("c", "Neg", T, "", [(a, 0)])
    graph.move_to_end(moved)
    assert [(node.name, node.runtime_id) for node in graph.nodes] == [("a", 2), ("b", 3), ("c", 4), ("m", 5), ("n", 6)]


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "message"),
    [
        ("Neg", T, [("b", 1)], "Attempt to add output 1 of b not in range [0, 1) to node with type Neg. Node: {{node b}}"),
        (
            "Neg",
            {"T": INT32},
            [("b", 0)],
            "Input 'x' passed float expected int32 while building NodeDef 'new' using Op<name=Neg; ",
        ),
        (
            "Neg",
            T,
            [("b", 0), ("a", 0)],
            "More Input() calls than the 1 input_args while building NodeDef 'new' using Op<name=Neg; ",
        ),
        ("Mul", T, [("b", 0)], "1 inputs specified of 2 inputs in Op while building NodeDef 'new' using Op<name=Mul; "),
        ("Mul", {"T": INT32}, [("b", 0)], "2 errors while building NodeDef 'new' using Op<name=Mul; "),
    ],
    ids=["slot", "type", "more", "fewer", "two"],
)
def test_what_a_new_node_cannot_read(op: str, attrs: dict[str, DataType], inputs: list[tuple[str, int]], message: str) -> None:
    graph = edited()
    nodes = named(graph)
    with pytest.raises(InvalidArgumentError) as caught:
        graph.add("new", op, attrs, "", [(nodes[name], slot) for name, slot in inputs])
    assert caught.value.message.startswith(message)


def test_several_problems_of_a_new_node_are_listed() -> None:
    graph = edited()
    b = named(graph)["b"]
    with pytest.raises(InvalidArgumentError) as caught:
        graph.add("new", "Mul", {"T": INT32}, "", [(b, 0)])
    assert caught.value.message.split(":\n")[1].splitlines() == [
        "Input 'x' passed float expected int32",
        "1 inputs specified of 2 inputs in Op",
    ]


def test_a_node_that_is_left_with_another_type() -> None:
    graph = edited()
    a, b = graph.nodes
    other = graph.add("other", "Placeholder", {"dtype": INT32}, "")
    graph.reconnect(b, 0, other, 0)
    with pytest.raises(
        InvalidArgumentError, match=r"^Input 0 of node b was passed int32 from other:0 incompatible with expected"
    ) as caught:
        graph.finish()
    assert caught.value.node == "b"
    assert not a.readers
