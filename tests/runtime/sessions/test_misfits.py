"""Lowered If, Case and While whose functions take or give something else, against TensorFlow 2.21 without grappler."""

from __future__ import annotations

from typing import Any

import pytest

import placesim
from placesim.core.errors import PlacesimError


def _function(name: str, inputs: str, outputs: list[str], *nodes: dict[str, Any]) -> dict[str, Any]:
    args = [{"name": "ab"[i], "type": dtype} for i, dtype in enumerate(inputs.split())]
    results = [{"name": "op"[i], "type": dtype, "value": "x:" + nodes[0]["result"]} for i, dtype in enumerate(outputs)]
    return {"name": name, "inputs": args, "outputs": results, "nodes": [{**n["node"], "name": "x"} for n in nodes]}


def _node(result: str, op: str, *inputs: str, **more: Any) -> dict[str, Any]:
    return {"result": result, "node": {"op": op, "inputs": list(inputs), **more}}


_NEG = _node("y:0", "Neg", "a", attrs={"T": "float"})
_LESS = _node("z:0", "Less", "a", "a", attrs={"T": "float"})
FUNCTIONS = {
    function["name"]: function
    for function in (
        _function("One", "float", ["float"], _NEG),
        _function("Two", "float", ["float", "float"], _NEG),
        _function("Nothing", "float", []),
        _function("Bool", "bool", ["float"], _node("y:0", "Cast", "a", attrs={"SrcT": "bool", "DstT": "float"})),
        _function("Int", "float", ["int32"], _node("y:0", "Cast", "a", attrs={"SrcT": "float", "DstT": "int32"})),
        _function("Fixed", "", ["float"], _node("output:0", "Const", value=3.0)),
        _function("Pair", "float float", ["float"], _NEG),
        _function("Cond", "float", ["bool"], _LESS),
        _function("CondTwo", "float", ["bool", "bool"], _LESS),
        _function("CondFloat", "float", ["float"], _node("z:0", "Sub", "a", "a", attrs={"T": "float"})),
        _function("CondFree", "", ["bool"], _node("output:0", "Const", value=False)),
    )
}
INVALID = "InvalidArgumentError: "
MERGE = "Op<name=Merge; signature=inputs:N*T -> output:T, value_index:int32; attr=T:type; attr=N:int,min=1>"
CASES: list[tuple[str, tuple[str, ...], int, str]] = [
    # op, its functions, outputs declared, what comes of fetching the last of them: an error or the value
    ("If", ("Nothing", "Nothing"), 1, "OutOfRangeError: Node 'o' (type: 'NoOp', num of outputs: 0) does not have output 0"),
    ("If", ("One", "One"), 2, "OutOfRangeError: Node 'o' (type: 'IdentityN', num of outputs: 1) does not have output 1"),
    (
        "If",
        ("Two", "One"),
        1,
        f"{INVALID}Attempt to add output 1 of o/else/_1 not in range [0, 1) to node with type Merge. "
        "Node: {{node o/else/_1}}",
    ),
    ("If", ("One", "Two"), 1, "-1.0"),
    ("If", ("Two", "Two"), 1, "-1.0"),
    ("If", ("Int", "Int"), 1, "1"),
    (
        "If",
        ("Pair", "One"),
        1,
        f"{INVALID}1 inputs specified of 2 inputs in Op while building NodeDef 'o/then/_0' using "
        "Op<name=Pair; signature=a:float, b:float -> o:float>",
    ),
    (
        "If",
        ("Bool", "One"),
        1,
        f"{INVALID}Input 'a' passed float expected bool while building NodeDef 'o/then/_0' using "
        "Op<name=Bool; signature=a:bool -> o:float>",
    ),
    (
        "If",
        ("Int", "One"),
        1,
        f"{INVALID}Input 'inputs' passed float expected int32 while building NodeDef 'o/output/_6' using {MERGE}",
    ),
    (
        "If",
        ("Fixed", "One"),
        1,
        f"{INVALID}More Input() calls than the 0 input_args while building NodeDef 'o/then/_0' using "
        "Op<name=Fixed; signature= -> o:float>",
    ),
    ("Case", ("Nothing", "Nothing"), 1, "OutOfRangeError: Node 'o' (type: 'NoOp', num of outputs: 0) does not have output 0"),
    ("Case", ("One", "One"), 2, "OutOfRangeError: Node 'o' (type: 'IdentityN', num of outputs: 1) does not have output 1"),
    (
        "Case",
        ("Two", "One"),
        1,
        f"{INVALID}Attempt to add output 1 of o/branch1/_1 not in range [0, 1) to node with type Merge. "
        "Node: {{node o/branch1/_1}}",
    ),
    (
        "Case",
        ("Int", "One"),
        1,
        f"{INVALID}Input 'inputs' passed float expected int32 while building NodeDef 'o/merge/_6' using {MERGE}",
    ),
    ("While", ("Cond", "One"), 1, "1.0"),
    ("While", ("Cond", "Two"), 1, "1.0"),
    (
        "While",
        ("Cond", "Nothing"),
        1,
        f"{INVALID}Attempt to add output 0 of o/body/_1 not in range [0, 0) to node with type NextIteration. "
        "Node: {{node o/body/_1}}",
    ),
    (
        "While",
        ("Cond", "Int"),
        1,
        f"{INVALID}Input 1 of node o/merge/_3 was passed int32 from o/next_iteration/_9:0 incompatible with expected float.",
    ),
    (
        "While",
        ("Cond", "Pair"),
        1,
        f"{INVALID}1 inputs specified of 2 inputs in Op while building NodeDef 'o/body/_1' using "
        "Op<name=Pair; signature=a:float, b:float -> o:float>",
    ),
    (
        "While",
        ("Nothing", "One"),
        1,
        f"{INVALID}Attempt to add output 0 of o/cond/_0 not in range [0, 0) to node with type LoopCond. "
        "Node: {{node o/cond/_0}}",
    ),
    ("While", ("CondTwo", "One"), 1, "1.0"),
    (
        "While",
        ("CondFloat", "One"),
        1,
        f"{INVALID}Input 'input' passed float expected bool while building NodeDef 'o/LoopCond/_4' using "
        "Op<name=LoopCond; signature=input:bool -> output:bool>",
    ),
    (
        "While",
        ("CondFree", "One"),
        1,
        f"{INVALID}More Input() calls than the 0 input_args while building NodeDef 'o/cond/_0' using "
        "Op<name=CondFree; signature= -> o:bool>",
    ),
]


def _op(op: str, names: tuple[str, ...], count: int) -> dict[str, Any]:
    first, second = ({"func": name} for name in names)
    tensors: dict[str, Any] = {"output_shapes": [], "_lower_using_switch_merge": True}
    if op == "While":
        return {"op": op, "inputs": ["a"], "attrs": {"cond": first, "body": second, "T": ["float"], **tensors}}
    tensors |= {"Tin": ["float"], "Tout": ["float"] * count}
    if op == "If":
        return {"op": op, "inputs": ["p", "a"], "attrs": {"then_branch": first, "else_branch": second, **tensors}}
    return {"op": op, "inputs": ["i", "a"], "attrs": {"branches": [first, second], **tensors}}


def _graph(node: dict[str, Any], names: tuple[str, ...], *more: dict[str, Any]) -> dict[str, Any]:
    constants = [{"op": "Const", "name": name, "value": value} for name, value in (("p", True), ("i", 0), ("a", 1.0))]
    functions = [FUNCTIONS[name] for name in dict.fromkeys(names)]
    return {"nodes": [*constants, {"name": "o", **node}, *more], "functions": functions}


@pytest.mark.parametrize(("op", "names", "count", "expected"), CASES, ids=[f"{c[0]} {' '.join(c[1])} {c[2]}" for c in CASES])
def test_functions_of_lowered_control_flow_that_do_not_fit(op: str, names: tuple[str, ...], count: int, expected: str) -> None:
    graph = {**_graph(_op(op, names, count), names), "run": [{"fetch": [f"o:{count - 1}"]}]}
    try:
        found = str(placesim.run(graph).results[f"o:{count - 1}"])
    except PlacesimError as error:
        found = f"{error.type_name}: {error.message}"
    assert found == expected


def test_an_output_that_no_branch_has_can_not_be_read() -> None:
    """TensorFlow's process ends here."""
    reader = {"op": "Neg", "name": "r", "inputs": ["o:1"]}
    with pytest.raises(PlacesimError, match=r"num of outputs: 1\) does not have output 1") as found:
        placesim.run(_graph(_op("If", ("One", "One"), 2), ("One",), reader))
    assert found.value.node == "o"


def test_a_loop_without_tensors_is_not_lowered() -> None:
    """TensorFlow's process ends here."""
    free = {"name": "Stop", "inputs": [], "outputs": [], "nodes": []}
    attrs = {"cond": {"func": "CondFree"}, "body": {"func": "Stop"}, "T": [], "_lower_using_switch_merge": True}
    graph = _graph({"op": "While", "inputs": [], "attrs": attrs}, ("CondFree",))
    with pytest.raises(PlacesimError, match="can't be lowered"):
        placesim.run({**graph, "functions": [*graph["functions"], free]})


def test_a_mark_on_an_op_that_can_not_be_lowered_says_nothing() -> None:
    node = {"op": "Neg", "inputs": ["a"], "attrs": {"_lower_using_switch_merge": True}}
    assert placesim.run(_graph(node, ())).results["o:0"] == -1
