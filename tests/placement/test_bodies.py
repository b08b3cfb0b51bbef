"""Bodies of functions that are called at run time: where TensorFlow 2.21 was seen to put their nodes.

Such graphs were run with it on three CPUs; what is expected is its log, and for what it does not log the devices in its step
statistics.
"""

from __future__ import annotations

from typing import Any

import pytest

import placesim
from placesim.placement.function_bodies import MAX_DEPTH, Bodies, Instantiation, bodies_of, device_at

FLOAT = {"T": "float"}


def function(name: str, *nodes: dict[str, Any], result: str, inputs: tuple[str, ...] = ("x",), dtype: str = "float") -> Any:
    arguments = [{"name": argument, "type": dtype} for argument in inputs]
    return {"name": name, "inputs": arguments, "outputs": [{"name": "z", "type": dtype, "value": result}], "nodes": list(nodes)}


SQUARE = {"op": "Square", "name": "sq", "inputs": ["x"], "attrs": FLOAT, "device": "/cpu:1"}
PLUS = {"op": "AddV2", "name": "plus", "inputs": ["sq:y:0", "sq:y:0"], "attrs": FLOAT}
F = function("f", SQUARE, PLUS, result="plus:z:0")
NEGATIVE = function("g", {"op": "Neg", "name": "n", "inputs": ["x"], "attrs": FLOAT}, result="n:y:0")
ALWAYS = {
    "name": "always",
    "inputs": [{"name": "x", "type": "float"}],
    "outputs": [{"name": "z", "type": "bool", "value": "less:z:0"}],
    "nodes": [{"op": "Less", "name": "less", "inputs": ["x", "x"], "attrs": FLOAT}],
}


def call(name: str, source: str = "x", called: str = "f", **keys: Any) -> dict[str, Any]:
    attrs = {"Tin": ["float"], "Tout": ["float"], "f": {"func": called}}
    return {"op": "PartitionedCall", "name": name, "inputs": [source], "attrs": attrs, **keys}


def choose(name: str, lowered: bool = False, **keys: Any) -> dict[str, Any]:
    attrs = {"Tcond": "bool", "Tin": ["float"], "Tout": ["float"], "then_branch": {"func": "f"}, "else_branch": {"func": "g"}}
    marked = {"_lower_using_switch_merge": True} if lowered else {}
    return {"op": "StatelessIf", "name": name, "inputs": ["p", "x"], "attrs": {**attrs, **marked}, **keys}


X = {"op": "Placeholder", "name": "x", "attrs": {"dtype": "float", "shape": [2]}}
P = {"op": "Const", "name": "p", "value": True}
CPU = "/job:localhost/replica:0/task:0/device:CPU:"


def graph(*nodes: dict[str, Any], functions: tuple[Any, ...] = (F, NEGATIVE, ALWAYS)) -> dict[str, Any]:
    return {"devices": {"cpu": 3}, "functions": list(functions), "nodes": [X, P, *nodes]}


def bodies(*nodes: dict[str, Any], **keys: Any) -> Bodies:
    return bodies_of(placesim.place(graph(*nodes, **keys)).placed[-1])


def devices(found: Bodies, number: int = 0) -> dict[str, str]:
    """The number of each node's CPU in a body, in log order."""
    placement = found.bodies[number].placement
    assert placement is not None
    placed = ((placement.graph.nodes[i].name, placement.devices[i]) for i in placement.log)
    return {name: device.name[-1] for name, device in placed if device is not None}


def test_a_call_prefers_its_own_device_and_its_nodes_requests_hold() -> None:
    found = bodies(call("call", device="/cpu:2"))
    assert [body.path for body in found.bodies] == ["call/f"]
    assert devices(found) == {"x": "2", "sq": "1", "plus": "2", "z_RetVal": "2"}


@pytest.mark.parametrize(
    "node",
    [
        choose("node", device="/cpu:2"),
        {
            "op": "StatelessWhile",
            "name": "node",
            "inputs": ["x"],
            "attrs": {"T": ["float"], "cond": {"func": "always"}, "body": {"func": "f"}},
            "device": "/cpu:2",
        },
        {
            "op": "StatelessCase",
            "name": "node",
            "inputs": [0, "x"],
            "attrs": {"Tin": ["float"], "Tout": ["float"], "branches": [{"func": "f"}, {"func": "g"}]},
            "device": "/cpu:2",
        },
        {"op": "f", "name": "node", "inputs": ["x"], "device": "/cpu:2"},
    ],
    ids=lambda node: node["op"],
)
def test_what_is_not_placed_runs_whole_on_its_calls_device(node: dict[str, Any]) -> None:
    found = bodies(node)
    (body,) = (body for body in found.bodies if body.function == "f")
    assert body.how is Instantiation.SINGLE_DEVICE
    assert set(devices(found, found.bodies.index(body)).values()) == {"2"}
    assert body.placement is not None
    groups = body.placement.groups
    assert {groups.candidates(number).candidates for number in range(len(groups.constraints))} == {(body.placement.devices[0],)}


def test_a_run_logs_only_what_is_placed() -> None:
    """As TensorFlow does: a call in a branch that runs whole is placed, with that branch's device as its own."""
    inner = function("f", call("inner", called="h"), result="inner:output:0")
    h = function("h", SQUARE, PLUS, result="plus:z:0")
    nodes = graph(choose("if", device="/cpu:2"), functions=(inner, h, NEGATIVE))
    report = placesim.run({**nodes, "run": [{"fetch": ["if"], "feed": {"x": [1.0, 2.0]}}]}, log_placement=True)
    assert [line for line in report.log().splitlines() if "CPU:0" not in line and "mapping" not in line] == [
        f"if: (StatelessIf): {CPU}2",
        f"x: (Placeholder): {CPU}2",
        f"p: (Const): {CPU}2",
        f"x: (_Arg): {CPU}2",
        f"sq: (Square): {CPU}1",
        f"plus: (AddV2): {CPU}2",
        f"z_RetVal: (_Retval): {CPU}2",
    ]


def test_a_reduction_has_no_device_that_it_prefers() -> None:
    """Its arguments and results are where it is, and what asks for nothing goes where it would go in a graph."""
    reduce = function("r", {"op": "Square", "name": "sq", "inputs": ["a"], "attrs": FLOAT}, inputs=("a", "b"), result="sq:y:0")
    types: dict[str, Any] = {"output_types": ["float"], "output_shapes": [[]]}
    rows: dict[str, Any] = {"op": "TensorSliceDataset", "name": "rows", "inputs": [[1.0, 2.0]]}
    rows |= {"attrs": {"Toutput_types": ["float"], "output_shapes": [[]]}, "device": "/cpu:2"}
    attrs: Any = {"f": {"func": "r"}, "Tstate": ["float"], "Targuments": [], **types}
    node = {"op": "ReduceDataset", "name": "reduce", "inputs": ["rows", 1.0], "attrs": attrs, "device": "/cpu:2"}
    found = bodies(rows, node, functions=(reduce,))
    assert devices(found) == {"a": "2", "b": "2", "sq": "0", "z_RetVal": "2"}
    assert list(devices(found)) == ["a", "b", "sq", "z_RetVal"]


def test_a_mapped_function_prefers_its_datasets_device() -> None:
    rows: dict[str, Any] = {"op": "TensorSliceDataset", "name": "rows", "inputs": [[1.0, 2.0]]}
    rows |= {"attrs": {"Toutput_types": ["float"], "output_shapes": [[]]}, "device": "/cpu:2"}
    attrs: Any = {"f": {"func": "f"}, "Targuments": [], "output_types": ["float"], "output_shapes": [[]]}
    found = bodies(rows, {"op": "MapDataset", "name": "map", "inputs": ["rows"], "attrs": attrs, "device": "/cpu:2"})
    assert devices(found) == {"x": "2", "sq": "1", "plus": "2", "z_RetVal": "2"}


def test_a_resource_stays_where_it_is() -> None:
    read = {"op": "ReadVariableOp", "name": "read", "inputs": ["v"], "attrs": {"dtype": "float"}}
    reading = {
        "name": "f",
        "inputs": [{"name": "v", "type": "resource"}],
        "outputs": [{"name": "z", "type": "float", "value": "read:value:0"}],
        "nodes": [read],
    }
    handle = {"op": "VarHandleOp", "name": "v", "attrs": {"dtype": "float", "shape": []}, "device": "/cpu:1"}
    node = call("call", "v", device="/cpu:2")
    node["attrs"] = {**node["attrs"], "Tin": ["resource"]}
    assert devices(bodies(handle, node, functions=(reading,))) == {"v": "1", "read": "1", "z_RetVal": "2"}


def test_calls_alike_have_one_body() -> None:
    found = bodies(call("a", device="/cpu:1"), call("b", device="/cpu:1"), call("c", device="/cpu:2"))
    assert [body.path for body in found.bodies] == ["a/f", "c/f"]
    assert found.repeats == (("b/f", "a/f"),)
    assert found.standing_for("b/f/sq") == "a/f/sq"
    assert found.standing_for("b/") == "b/"


def test_calls_in_calls_have_longer_paths_and_end() -> None:
    chain = [
        function(f"f{i}", call("c", called=f"f{i + 1}" if i < MAX_DEPTH + 1 else "f"), result="c:output:0")
        for i in range(MAX_DEPTH + 2)
    ]
    found = bodies(call("top", called="f0"), functions=(F, *chain))
    assert [body.path for body in found.bodies][:2] == ["top/f0", "top/f0/c/f1"]
    assert len(found.bodies) == MAX_DEPTH
    assert len(found.deeper) == 1


def test_a_path_that_a_scope_has_gets_a_number() -> None:
    found = bodies(call("call"), {"op": "NoOp", "name": "call/f/sq"})
    assert [body.path for body in found.bodies] == ["call/f_1"]


def test_what_is_lowered_says_of_what_it_is_made() -> None:
    placement = placesim.place(graph(choose("if", lowered=True))).placed[-1]
    assert bodies_of(placement) == Bodies()
    origins = {name: origin.path for name, origin in placement.graph.origins.items()}
    assert origins["if/then/_0/sq"] == "if/f/sq"
    assert origins["if/else/_1/n"] == "if/g/n"
    assert {path for name, path in origins.items() if name.startswith("Func/")} == {"if/"}
    assert "if" not in origins


def test_calls_in_what_is_lowered_and_lowering_in_calls() -> None:
    inner = function("f", call("inner", called="h", device="/cpu:2"), result="inner:output:0")
    h = function("h", SQUARE, PLUS, result="plus:z:0")
    placement = placesim.place(graph(choose("if", lowered=True), functions=(inner, h, NEGATIVE))).placed[-1]
    assert [body.path for body in bodies_of(placement).bodies] == ["if/then/_0/inner/h"]
    device = device_at(placement, "if/then/_0/inner/h/sq")
    assert device is not None
    assert device.name == f"{CPU}1"


def test_a_body_that_cannot_be_placed_says_why() -> None:
    lost = function("f", {**SQUARE, "device": "/gpu:7"}, result="sq:y:0")
    (body,) = bodies(call("call"), functions=(lost,)).bodies
    assert body.error is not None
    assert "explicitly assigned to /gpu:7" in body.error.message or "/device:GPU:7" in body.error.message


def test_a_graph_without_functions_is_not_looked_through() -> None:
    placement = placesim.place({"nodes": [{"op": "NoOp", "name": "n"}]}).placed[-1]
    assert bodies_of(placement) == Bodies()
    assert placement.known == {}
