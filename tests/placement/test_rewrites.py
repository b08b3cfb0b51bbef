"""Rewrites of small graphs: the nodes that come out, their inputs, and the control edges at both ends (section 2, 9.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placesim.core.errors import OutOfRangeError
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.ops.attributes import Shape
from placesim.placement.function_bodies import body_node
from placesim.placement.rewrites import rewrite

Node = dict[str, Any]
A: Node = {"op": "Placeholder", "name": "a", "attrs": {"dtype": "float", "shape": [2]}}
P: Node = {"op": "Placeholder", "name": "p", "attrs": {"dtype": "bool"}}
FLOAT = {"T": "float"}


def op(name: str, kind: str, *inputs: str, **attrs: Any) -> Node:
    return {"op": kind, "name": name, "inputs": list(inputs), "attrs": attrs}


def rewritten(*nodes: Node, functions: tuple[Any, ...] = ()) -> list[str]:
    """`NAME: OP(inputs)` of each node, without the prefix that all new names share."""
    graph = rewrite(graph_file_from_mapping({"raw": True, "nodes": list(nodes), "functions": list(functions)}).graph)
    return [f"{node.name}: {node.op}({', '.join(graph.input_texts(node))})" for node in graph.nodes]


def test_an_accumulation_becomes_a_temporary_variable() -> None:
    ends = (op("start", "NoOp"), A, op("done", "NoOp", "^sum"), op("reader", "Neg", "sum", **FLOAT))
    found = rewritten(*ends, op("sum", "AccumulateNV2", "a", "a", "^start", N=2, shape=[2], **FLOAT))
    i = "sum/Internal/_"
    assert found == [
        "start: NoOp()",
        "a: Placeholder()",
        "done: NoOp(^sum)",
        "reader: Neg(sum)",
        f"{i}0: TemporaryVariable()",
        f"{i}1: Shape(a)",
        f"{i}2: Const()",
        f"{i}3: Fill({i}1, {i}2)",
        f"{i}4: Assign({i}0, {i}3, ^start)",
        f"{i}5: AssignAdd({i}4, a)",
        f"{i}6: AssignAdd({i}4, a)",
        f"sum: DestroyTemporaryVariable({i}4, ^{i}5, ^{i}6)",
    ]


def test_the_temporary_variable_is_empty_until_its_first_value() -> None:
    total = op("sum", "AccumulateNV2", "a", "a", N=2, shape=[2], **FLOAT)
    graph = rewrite(graph_file_from_mapping({"raw": True, "nodes": [A, total]}).graph)
    assert [node.attrs["shape"] for node in graph.nodes if node.op == "TemporaryVariable"] == [Shape((0,))]


@pytest.mark.parametrize(
    ("iterations", "source", "kind"),
    [
        ({}, "e", "AddN"),
        ({"parallel_iterations": 2}, "e", "AddN"),
        ({"parallel_iterations": 1}, "e", "DestroyTemporaryVariable"),
        ({}, "x", "DestroyTemporaryVariable"),
        ({}, "^e", "AddN"),
    ],
)
def test_inside_a_loop_an_accumulation_becomes_a_sum(iterations: dict[str, int], source: str, kind: str) -> None:
    loop = (op("e", "Enter", "a", frame_name="f", **iterations, **FLOAT), op("x", "Exit", "e", **FLOAT))
    inputs = ("a", "a", source) if source.startswith("^") else (source, "a")
    found = rewritten(A, *loop, op("sum", "AccumulateNV2", *inputs, N=2, shape=[2], **FLOAT), op("n", "Neg", "sum", **FLOAT))
    (row,) = (row for row in found if row.startswith("sum: "))
    assert row.startswith(f"sum: {kind}(")
    if kind == "AddN":
        assert row == f"sum: AddN({', '.join(inputs)})"
    assert "n: Neg(sum)" in found


F: Node = {
    "name": "f",
    "inputs": [{"name": "x", "type": "float"}],
    "outputs": [{"name": "z", "type": "float", "value": "n:y:0"}],
    "nodes": [op("n", "Neg", "x", **FLOAT)],
}
MARK = {"_lower_using_switch_merge": True}


def branch(name: str, **more: Any) -> Node:
    attrs = {"Tcond": "bool", "Tin": ["float"], "Tout": ["float"], "then_branch": {"func": "f"}, "else_branch": {"func": "f"}}
    return op(name, "If", "p", "a", "^start", **{**attrs, **MARK, **more})


def test_a_conditional_keeps_its_control_edges() -> None:
    start, done = op("start", "NoOp"), op("done", "NoOp", "^if")
    found = rewritten(start, A, P, branch("if"), done, op("reader", "Neg", "if", **FLOAT), functions=(F,))
    switch = "if/switch_pred/_2"
    assert f"{switch}: Switch(p, p, ^start)" in found
    executed = next(row.partition(":")[0] for row in found if "branch_executed" in row.partition(":")[0])
    output = next(row.partition(":")[0] for row in found if row.startswith("if/output"))
    assert f"done: NoOp(^{executed})" in found
    assert f"if: IdentityN({output}, ^{executed})" in found
    assert f"reader: Neg({output})" in found


def test_a_reader_of_an_output_that_no_branch_has() -> None:
    two = branch("if", Tout=["float", "float"])
    with pytest.raises(OutOfRangeError, match=r"'if' .* does not have output 1"):
        rewritten(op("start", "NoOp"), A, P, two, op("reader", "Neg", "if:1", **FLOAT), functions=(F,))


def test_a_loop_keeps_its_control_edges() -> None:
    cond: Node = {
        "name": "c",
        "inputs": [{"name": "x", "type": "float"}],
        "outputs": [{"name": "z", "type": "bool", "value": "n:z:0"}],
        "nodes": [op("n", "Less", "x", "x", **FLOAT)],
    }
    attrs = {"T": ["float"], "cond": {"func": "c"}, "body": {"func": "f"}, "parallel_iterations": 3, **MARK}
    ends = (op("start", "NoOp"), A, op("done", "NoOp", "^while"))
    found = rewritten(*ends, op("while", "While", "a", "^start", **attrs), functions=(F, cond))
    rows = {row.partition(": ")[0].rpartition("/_")[0] or row.partition(": ")[0]: row for row in found}
    incoming, executed, exit_ = (
        rows[f"while/{name}"].partition(":")[0] for name in ("LoopControlInputs", "LoopExecuted", "exit")
    )
    assert rows["while/LoopControlInputs"] == f"{incoming}: NoOp(^start)"
    assert rows["while/enter"].endswith(f": Enter(a, ^{incoming})")
    assert rows["while/LoopExecuted"] == f"{executed}: NoOp(^{exit_})"
    assert rows["done"] == f"done: NoOp(^{executed})"
    assert rows["while"] == f"while: IdentityN({exit_})"


def test_a_call_s_body_waits_for_what_the_call_waits_for() -> None:
    call = op("c", "PartitionedCall", "a", "^start", f={"func": "f"}, Tin=["float"], Tout=["float"])
    call["attrs"]["_lower_as_multi_device_function"] = True
    found = rewritten(op("start", "NoOp"), A, call, op("done", "NoOp", "^c"), functions=(F,))
    rows = {row.partition(": ")[0].rpartition("/_")[0] or row.partition(": ")[0]: row for row in found}
    entry, given, output, leaving = (
        rows[f"Func/c/{name}"].partition(":")[0] for name in ("input_control_node", "input", "output", "output_control_node")
    )
    assert rows["Func/c/input_control_node"] == f"{entry}: NoOp(^start)"
    assert rows["Func/c/input"] == f"{given}: Identity(a, ^{entry})"
    assert rows["c/n"] == f"c/n: Neg({given})"
    assert rows["Func/c/output"] == f"{output}: Identity(c/n)"
    assert rows["Func/c/output_control_node"] == f"{leaving}: NoOp(^{entry})"
    assert rows["c"] == f"c: IdentityN({output}, ^{leaving})"
    assert rows["done"] == f"done: NoOp(^{leaving})"


def test_nodes_stand_on_the_lines_of_what_they_are_made_from() -> None:
    nodes = "\n".join(f"- {json.dumps(node)}" for node in (op("start", "NoOp"), A, P, branch("if")))
    graph = rewrite(read_graph_file(f"raw: true\nnodes:\n{nodes}\nfunctions:\n- {json.dumps(F)}\n").graph)
    found = [(node.name.removeprefix("Func/").partition("/")[0], graph.location(node)) for node in graph.nodes]
    lines = {(name, location.line) for name, location in found if location is not None}
    assert lines == {("start", 3), ("a", 4), ("p", 5), ("if", 6), ("if", 8)}  # the last is in the body


def test_nodes_that_come_from_bodies_are_known() -> None:
    file = graph_file_from_mapping({"raw": True, "nodes": [op("start", "NoOp"), A, P, branch("if")], "functions": [F]})
    graph = rewrite(file.graph)
    found = {node.name: body_node(graph, node.name) for node in graph.nodes}
    assert {name.rpartition("/")[2] for name, node in found.items() if node is not None and node.name == "n"} == {"n"}
    assert {name for name, node in found.items() if node is None} >= {"start", "a", "p", "if/switch_pred/_2"}
    assert body_node(graph, "nowhere") is None
