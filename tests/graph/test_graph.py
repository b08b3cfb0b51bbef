"""The graph: the runtime's order, cycles, signatures, names of tensors, and nodes as text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.dtypes import FLOAT, INT32, RESOURCE
from placesim.graph.graph import Graph, NodeDef, TensorRef, split_tensor_name
from placesim.graph.node_text import colocation_tag, format_attrs, format_node, function_tag, node_tag, node_tail, replace_tags
from placesim.ops.attributes import AttrValue, FunctionName, TensorValue
from placesim.ops.registry import load_registry

T = {"T": FLOAT}


def graph_of(*node_defs: NodeDef) -> Graph:
    graph = Graph(load_registry())
    graph.extend(node_defs)
    return graph


def wired(inputs: Mapping[str, str]) -> Graph:
    """A graph of NoOps from `{"b": "a c"}`: names and what they wait for, in GraphDef order."""
    return graph_of(*(NodeDef(name, "NoOp", tuple("^" + i for i in waited.split())) for name, waited in inputs.items()))


def runtime_names(graph: Graph) -> list[str]:
    return [graph.nodes[i].name for i in graph.runtime_order()]


ORDERS = [
    # GraphDef order with inputs, the runtime's order (6.5.2)
    ({"a": "", "b": "", "c": "a b"}, "a b c"),
    ({"e": "d c", "d": "a", "c": "b", "b": "a", "a": "k1", "k1": ""}, "k1 a d b c e"),
    ({"c": "b", "b": "a", "a": ""}, "a b c"),
    ({"m": "b a", "a": "", "b": ""}, "a b m"),
    ({"z": "", "x": "y", "y": "", "w": "z"}, "z y x w"),
    ({"x": "x"}, ""),
    ({"a": "c", "b": "a", "c": "b", "d": "", "e": "c d"}, "d"),
]


@pytest.mark.parametrize(("inputs", "order"), ORDERS)
def test_runtime_order(inputs: dict[str, str], order: str) -> None:
    assert runtime_names(wired(inputs)) == order.split()


def loop(merge_inputs: tuple[str, ...]) -> Graph:
    """`Merge` before what it reads: the loop's end stands below it."""
    return graph_of(
        NodeDef("merge", "Merge", merge_inputs, attrs=T | {"N": 2}),
        NodeDef("next", "NextIteration", ("merge",), attrs=T),
        NodeDef("enter", "Enter", ("x",), attrs=T | {"frame_name": "f"}),
        NodeDef("x", "Placeholder", attrs={"dtype": FLOAT}),
    )


@pytest.mark.parametrize("merge_inputs", [("enter", "next"), ("next", "enter")])
def test_a_merge_waits_for_one_input(merge_inputs: tuple[str, ...]) -> None:
    graph = loop(merge_inputs)
    assert runtime_names(graph) == ["x", "enter", "merge", "next"]
    assert graph.find_cycle() is None


def test_a_merge_waits_for_its_control_inputs() -> None:
    late = NodeDef("late", "NoOp")
    defs = [
        NodeDef("merge", "Merge", ("enter", "next", "^late"), attrs=T | {"N": 2}),
        NodeDef("next", "NextIteration", ("merge",), attrs=T),
        NodeDef("enter", "Enter", ("x",), attrs=T | {"frame_name": "f"}),
        NodeDef("x", "Placeholder", attrs={"dtype": FLOAT}),
    ]
    assert runtime_names(graph_of(*defs, late)) == ["x", "enter", "late", "merge", "next"]
    assert runtime_names(graph_of(late, *defs)) == ["late", "x", "enter", "merge", "next"]


CYCLES = [
    ({"a": "", "b": "a"}, None),
    ({"x": "x"}, ["x", "x"]),
    ({"a": "c", "b": "a", "c": "b"}, ["a", "b", "c", "a"]),
    ({"s": "", "a": "s b", "b": "a", "t": "b"}, ["a", "b", "a"]),
]


@pytest.mark.parametrize(("inputs", "cycle"), CYCLES)
def test_cycles(inputs: dict[str, str], cycle: list[str] | None) -> None:
    assert wired(inputs).find_cycle() == cycle


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), max_size=12))
def test_the_runtimes_order_keeps_inputs_first_and_takes_the_smallest(edges: list[list[int]]) -> None:
    graph = wired({str(i): " ".join(str(j) for j in set(waited) if j < len(edges)) for i, waited in enumerate(edges)})
    order, done = list(graph.runtime_order()), set[int]()
    for node_id in order:
        ready = [n.id for n in graph.nodes if n.id not in done and done.issuperset(n.control_inputs)]
        assert node_id == min(ready)
        done.add(node_id)
    assert (len(order) == len(edges)) is (graph.find_cycle() is None)


def test_in_order_renumbers() -> None:
    graph = graph_of(NodeDef("b", "Identity", ("a",), attrs=T), NodeDef("a", "Placeholder", attrs={"dtype": FLOAT}))
    ordered = graph.in_order(graph.runtime_order())
    assert [(node.id, node.name, node.input_nodes) for node in ordered.nodes] == [(0, "a", ()), (1, "b", (0,))]
    assert ordered.ids == {"a": 0, "b": 1}
    assert ordered.in_order(ordered.runtime_order()) is ordered


def test_an_input_that_does_not_exist() -> None:
    with pytest.raises(KeyError):
        graph_of(NodeDef("b", "Identity", ("a",), attrs=T))


SIGNATURES = [
    # op, attrs, inputs, outputs, refs among them, is a generator, is a resource generator
    ("Const", {"dtype": FLOAT}, (), (FLOAT,), False, True, False),
    ("VariableV2", {"dtype": FLOAT}, (), (FLOAT,), True, False, True),
    ("VarHandleOp", {"dtype": FLOAT}, (), (RESOURCE,), False, True, True),
    ("NoOp", {}, (), (), False, False, False),
    ("AddN", {"T": INT32, "N": 3}, (INT32,) * 3, (INT32,), False, False, False),
    ("IdentityN", {"T": (FLOAT, INT32)}, (FLOAT, INT32), (FLOAT, INT32), False, False, False),
    ("Assign", {"T": FLOAT}, (FLOAT, FLOAT), (FLOAT,), True, False, False),
]


@pytest.mark.parametrize(("op", "attrs", "inputs", "outputs", "has_ref", "is_generator", "is_resource"), SIGNATURES)
def test_signatures(
    op: str,
    attrs: dict[str, AttrValue],
    inputs: tuple[object, ...],
    outputs: tuple[object, ...],
    has_ref: bool,
    is_generator: bool,
    is_resource: bool,
) -> None:
    table = graph_of().signatures
    signature = table.signature(op, attrs)
    assert (signature.input_dtypes, signature.output_dtypes) == (inputs, outputs)
    assert any((*signature.input_is_ref, *signature.output_is_ref)) is has_ref
    assert (signature.is_generator, signature.is_resource_generator) == (is_generator, is_resource)
    assert table.signature(op, {**attrs, "_class": ("loc:@x",)}) is signature


@pytest.mark.parametrize(
    ("text", "parts"), [("x", ("x", 0)), ("x:1", ("x", 1)), ("a/b:12", ("a/b", 12)), ("x:", ("x:", 0)), ("x:y", ("x:y", 0))]
)
def test_split_tensor_name(text: str, parts: tuple[str, int]) -> None:
    assert split_tensor_name(text) == parts


def test_names_of_tensors() -> None:
    graph = graph_of(
        NodeDef("x", "Placeholder", attrs={"dtype": FLOAT}),
        NodeDef("s", "Switch", ("x", "p"), attrs=T),
        NodeDef("p", "Placeholder", attrs={"dtype": FLOAT}),
        NodeDef("y", "Identity", ("s:1", "^x", "^p"), attrs=T),
    )
    assert graph.input_texts(graph.node("y")) == ["s:1", "^x", "^p"]
    assert (graph.tensor_name(TensorRef(0, 0)), graph.tensor_name_full(TensorRef(0, 0))) == ("x", "x:0")
    assert graph.full_attrs(graph.node("x"))["shape"].dims is None
    assert graph.consumers() == [[1, 3], [3], [1, 3], []]


TEXTS = [
    # name, op, attrs, inputs, device, text (5.9)
    ("n", "NoOp", {}, (), "", "{{node n}} = NoOp[]()"),
    ("n", "NoOp", {}, ("^a", "^b"), "/cpu:0", '{{node n}} = NoOp[_device="/cpu:0"](^a, ^b)'),
    (
        "X",
        "Const",
        {"value": TensorValue(FLOAT, np.array(1, np.float32)), "dtype": FLOAT},
        (),
        "/foo:bar",
        '{{node X}} = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [] values: 1>, _device="/foo:bar"]()',
    ),
    (
        "v/read",
        "Identity",
        {"T": FLOAT, "_class": ("loc:@v",)},
        ("v",),
        "/job:localhost/replica:0/task:0/device:CPU:0",
        '{{node v/read}} = Identity[T=DT_FLOAT, _class=["loc:@v"], _device="/job:localhost/replica:0/task:0/device:CPU:0"](v)',
    ),
    (
        "c",
        "PartitionedCall",
        {"f": FunctionName("g"), "Tin": (FLOAT,), "Tout": ()},
        ("a:1",),
        "",
        "{{node c}} = PartitionedCall[Tin=[DT_FLOAT], Tout=[], f=g[]](a:1)",
    ),
]


@pytest.mark.parametrize(("name", "op", "attrs", "inputs", "device", "text"), TEXTS)
def test_node_text(name: str, op: str, attrs: dict[str, AttrValue], inputs: tuple[str, ...], device: str, text: str) -> None:
    assert format_node(name, op, attrs, inputs, device) == text


def test_attrs_are_sorted() -> None:
    assert format_attrs({"b": 1, "T": FLOAT, "a": False}) == "T=DT_FLOAT, a=false, b=1"


@pytest.mark.parametrize(
    ("message", "tail"),
    [("it failed", "\n\t [[{{node n}}]]"), ("{{node m}} failed", "\n\t [[n]]"), ("", "\n\t [[{{node n}}]]")],
)
def test_node_tail(message: str, tail: str) -> None:
    assert node_tail(message, "n") == tail


def test_tags_are_found_as_they_are_made() -> None:
    message = f"{node_tag('a/b')} in {function_tag('f')} is not with {colocation_tag('c')}, {node_tag('d')}"
    assert message == "{{node a/b}} in {{function_node f}} is not with {{colocation_node c}}, {{node d}}"
    assert replace_tags(message, str.upper) == "A/B in {{function_node f}} is not with {{colocation_node c}}, D"
    both = replace_tags(message, lambda name: f"<{name}>", ("node", "colocation_node"))
    assert both == "<a/b> in {{function_node f}} is not with <c>, <d>"


def test_edges_from_nodes_are_data_edges_and_control_edges() -> None:
    graph = graph_of(
        NodeDef("a", "Const", (), "", {"dtype": FLOAT}),
        NodeDef("b", "Neg", ("a",), "", T),
        NodeDef("c", "Add", ("a", "b"), "", T),
        NodeDef("d", "NoOp", ("^a", "^c")),
    )
    assert list(graph.edges_from(bytearray((1, 0, 1, 0)))) == [(0, 1), (0, 2), (0, 3), (2, 3)]
