"""Control flow: branches that are not taken are dead, loops go round as often as they should, also over several devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import InternalError, InvalidArgumentError, UnimplementedError
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.runtime.executors import dataflow
from tests.runtime.sessions.graphs import fetch, make_session

FLOAT = {"T": "float32"}


def cond(true_device: str = "", false_device: str = "") -> list[dict[str, Any]]:
    """x * 2 where p, else x + 10."""
    return [
        {"op": "Placeholder", "name": "p", "attrs": {"dtype": "bool"}},
        {"op": "Placeholder", "name": "x", "attrs": {"dtype": "float32"}},
        {"op": "Switch", "name": "s", "inputs": ["x", "p"], "attrs": FLOAT},
        {"op": "Const", "name": "ten", "inputs": ["^s"], "dtype": "float32", "value": 10.0},
        {"op": "Add", "name": "twice", "inputs": ["s:1", "s:1"], "device": true_device, "attrs": FLOAT},
        {"op": "Add", "name": "more", "inputs": ["s", "ten"], "device": false_device, "attrs": FLOAT},
        {"op": "Merge", "name": "m", "inputs": ["more", "twice"], "attrs": {"T": "float32", "N": 2}},
    ]


def loop(device: str = "") -> list[dict[str, Any]]:
    """x doubled as long as it is below 100; `count` says how often."""
    return [
        {"op": "Placeholder", "name": "x", "attrs": {"dtype": "float32"}},
        {"op": "Const", "name": "zero", "dtype": "int32", "value": 0},
        {"op": "Const", "name": "limit", "dtype": "float32", "value": 100.0},
        {"op": "Enter", "name": "ex", "inputs": ["x"], "attrs": {"T": "float32", "frame_name": "w"}},
        {"op": "Enter", "name": "ei", "inputs": ["zero"], "attrs": {"T": "int32", "frame_name": "w"}},
        {"op": "Enter", "name": "el", "inputs": ["limit"], "attrs": {"T": "float32", "frame_name": "w", "is_constant": True}},
        {"op": "Merge", "name": "mx", "inputs": ["ex", "nx"], "attrs": {"T": "float32", "N": 2}},
        {"op": "Merge", "name": "mi", "inputs": ["ei", "ni"], "attrs": {"T": "int32", "N": 2}},
        {"op": "Less", "name": "less", "inputs": ["mx", "el"], "attrs": FLOAT},
        {"op": "LoopCond", "name": "c", "inputs": ["less"]},
        {"op": "Switch", "name": "sx", "inputs": ["mx", "c"], "attrs": FLOAT},
        {"op": "Switch", "name": "si", "inputs": ["mi", "c"], "attrs": {"T": "int32"}},
        {"op": "Add", "name": "twice", "inputs": ["sx:1", "sx:1"], "device": device, "attrs": FLOAT},
        {"op": "Const", "name": "one", "inputs": ["^sx"], "dtype": "int32", "value": 1},
        {"op": "Identity", "name": "body", "inputs": ["si:1"], "attrs": {"T": "int32"}},
        {"op": "Const", "name": "step", "inputs": ["^body"], "dtype": "int32", "value": 1},
        {"op": "Add", "name": "plus", "inputs": ["body", "step"], "attrs": {"T": "int32"}},
        {"op": "NextIteration", "name": "nx", "inputs": ["twice"], "attrs": FLOAT},
        {"op": "NextIteration", "name": "ni", "inputs": ["plus"], "attrs": {"T": "int32"}},
        {"op": "Exit", "name": "out", "inputs": ["sx"], "attrs": FLOAT},
        {"op": "Exit", "name": "count", "inputs": ["si"], "attrs": {"T": "int32"}},
    ]


@pytest.mark.parametrize("devices", [("", ""), ("/cpu:1", "/cpu:2"), ("/gpu:0", "")])
@pytest.mark.parametrize(("p", "expected", "index"), [(True, 6.0, 1), (False, 13.0, 0)])
def test_only_the_branch_that_is_taken_runs(devices: tuple[str, str], p: bool, expected: float, index: int) -> None:
    session = make_session(cond(*devices), cpu=3, gpu=1, raw=True)
    value, which = fetch(session, "m:0", "m:1", p=np.array(p), x=np.float32(3.0))
    assert (value, which) == (expected, index)


@pytest.mark.parametrize("device", ["", "/cpu:1", "/gpu:0"])
@pytest.mark.parametrize(("x", "expected", "count"), [(3.0, 192.0, 6), (100.0, 100.0, 0), (99.0, 198.0, 1)])
def test_a_loop_goes_round(device: str, x: float, expected: float, count: int) -> None:
    session = make_session(loop(device), cpu=2, gpu=1, raw=True)
    assert fetch(session, "out:0", "count:0", x=np.float32(x)) == (expected, count)


def test_a_loop_on_a_branch_that_is_not_taken_is_dead() -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "Placeholder", "name": "p", "attrs": {"dtype": "bool"}},
        {"op": "Const", "name": "three", "dtype": "float32", "value": 3.0},
        {"op": "Switch", "name": "s", "inputs": ["three", "p"], "attrs": FLOAT},
        *[node for node in loop() if node["name"] != "x"],
        {"op": "Merge", "name": "m", "inputs": ["s", "out"], "attrs": {"T": "float32", "N": 2}},
    ]
    next(node for node in nodes if node["name"] == "ex")["inputs"] = ["s:1"]
    session = make_session(nodes, raw=True)
    assert fetch(session, "m:0", p=np.array(True)) == 192.0
    assert fetch(session, "m:0", p=np.array(False)) == 3.0


def test_fetching_a_dead_tensor_is_an_error() -> None:
    session = make_session(cond(), raw=True)
    with pytest.raises(InvalidArgumentError, match="Retval\\[0\\] does not have value"):
        fetch(session, "twice:0", p=np.array(False), x=np.float32(1.0))


def test_two_devices_that_wait_for_a_loop_without_a_condition() -> None:
    nodes = [node for node in loop("/cpu:1") if node["name"] != "c"]
    for node in nodes:
        node["inputs"] = ["less" if name == "c" else name for name in node.get("inputs", ())]
    with pytest.raises(InvalidArgumentError, match="A cross-device loop must have a pivot predicate: w"):
        fetch(make_session(nodes, cpu=2, raw=True), "out:0", x=np.float32(1.0))


def test_kernels_fail_inside_loops_with_their_node() -> None:
    nodes = loop()
    next(node for node in nodes if node["name"] == "plus")["op"] = "FloorDiv"
    next(node for node in nodes if node["name"] == "step")["value"] = 0
    with pytest.raises(InvalidArgumentError) as caught:
        fetch(make_session(nodes, raw=True), "out:0", "count:0", x=np.float32(1.0))
    assert caught.value.node == "plus"


def test_an_op_that_can_never_go_on_is_reported() -> None:
    nodes = [
        {"op": "FIFOQueueV2", "name": "q", "attrs": {"component_types": ["float32"]}},
        *(
            {"op": "QueueDequeueV2", "name": name, "inputs": ["q"], "attrs": {"component_types": ["float32"]}}
            for name in ("d", "e")
        ),
    ]
    with pytest.raises(InternalError, match=r"{{node d}} would wait forever"):
        fetch(make_session(nodes, raw=True), "d:0", "e:0")


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow, "LOOK_AFTER", 20)
    seen: list[int] = []
    step = GraphStep((Fetch("count"),), (Feed("x", 2.0),))
    make_session(loop(), raw=True).run(step, progress=seen.append)
    assert seen == list(range(20, seen[-1] + 1, 20))
    assert len(seen) > 2


STAGED = {"capacity": 0, "memory_limit": 0, "dtypes": ["float32"]}
KEYED = {"name": "k", "op": "Const", "value": 7, "dtype": "int64"}
INDICES = {"name": "i", "op": "Const", "value": [0], "dtype": "int32"}
STRING = {"component_types": ["string"]}
NAMES = {"op": "FIFOQueue", "name": "names", "attrs": STRING}
READER = {"op": "WholeFileReader", "name": "r"}
LONELY: dict[str, list[dict[str, Any]]] = {
    "Unstage": [{"op": "Unstage", "attrs": STAGED}],
    "StagePeek": [INDICES | {"value": 0}, {"op": "StagePeek", "inputs": ["i"], "attrs": STAGED}],
    "MapPeek": [KEYED, INDICES, {"op": "MapPeek", "inputs": ["k", "i"], "attrs": STAGED}],
    "MapUnstage": [KEYED, INDICES, {"op": "MapUnstage", "inputs": ["k", "i"], "attrs": STAGED}],
    "OrderedMapUnstage": [KEYED, INDICES, {"op": "OrderedMapUnstage", "inputs": ["k", "i"], "attrs": STAGED}],
    "MapUnstageNoKey": [INDICES, {"op": "MapUnstageNoKey", "inputs": ["i"], "attrs": STAGED}],
    "QueueDequeue": [NAMES, {"op": "QueueDequeue", "inputs": ["names"], "attrs": STRING}],
    "BarrierTakeMany": [
        {"op": "Barrier", "name": "b", "attrs": {"component_types": ["float32"], "shapes": [[]]}},
        INDICES | {"value": 1},
        {"op": "BarrierTakeMany", "inputs": ["b", "i"], "attrs": {"component_types": ["float32"]}},
    ],
    "ReaderRead": [NAMES, READER, {"op": "ReaderRead", "inputs": ["r", "names"]}],
}
"""Graphs of which one op finds nothing to take, and nothing else of the step can give it any."""


@pytest.mark.parametrize("op", LONELY)
def test_an_op_that_finds_nothing_to_take_waits_and_is_named(op: str) -> None:
    *before, waiting = LONELY[op]
    with pytest.raises(InternalError, match="would wait forever") as caught:
        fetch(make_session([*before, {**waiting, "name": "lonely"}], raw=True), "lonely")
    assert caught.value.node == "lonely"


def test_an_op_of_a_function_that_waits_for_what_stands_outside_of_it_says_so() -> None:
    component = {"component_types": ["float32"]}
    body = [{"op": "QueueDequeueV2", "name": "d", "inputs": ["q"], "attrs": component}]
    queue = {"name": "q", "type": "resource"}
    function = {
        "name": "F",
        "inputs": [queue],
        "outputs": [{"name": "o", "type": "float", "value": "d:components:0"}],
        "nodes": body,
    }
    nodes: list[dict[str, Any]] = [
        {"op": "FIFOQueueV2", "name": "q", "attrs": component},
        {"op": "Const", "name": "c", "dtype": "float32", "value": 2.5},
        {
            "op": "PartitionedCall",
            "name": "call",
            "inputs": ["q"],
            "attrs": {"f": {"func": "F"}, "Tin": ["resource"], "Tout": ["float"]},
        },
        {"op": "QueueEnqueueV2", "name": "e", "inputs": ["q", "c"], "attrs": {"Tcomponents": ["float32"]}},
    ]
    graph = {"raw": True, "functions": [function]}
    with pytest.raises(UnimplementedError, match="d}} waits for an event outside its function"):
        placesim.run({**graph, "nodes": nodes[:3], "run": [{"fetch": ["call:0"]}]})
    nodes[2] = {**nodes[2], "inputs": ["q", "^e"]}
    assert placesim.run({**graph, "nodes": nodes, "run": [{"fetch": ["call:0"]}]}).results["call"] == 2.5


def test_an_op_that_waits_goes_on_when_another_gives_it_something() -> None:
    nodes = [
        {"op": "Unstage", "name": "taken", "attrs": STAGED | {"shared_name": "area"}},
        {"op": "Const", "name": "c", "value": 5.0},
        {"op": "Stage", "name": "put", "inputs": ["c"], "attrs": STAGED | {"shared_name": "area"}},
    ]
    assert fetch(make_session(nodes, raw=True), "taken:0", "put") == 5


@pytest.mark.parametrize("op", ["Enter", "Merge"])
def test_control_flow_that_wants_a_value_reads_the_variable(op: str) -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "VariableV2", "name": "v", "attrs": {"dtype": "float32", "shape": [2]}},
        {"op": "Assign", "name": "a", "inputs": ["v", [1.0, 2.0]]},
    ]
    if op == "Enter":
        nodes += [{"op": "Enter", "name": "e", "inputs": ["v"], "attrs": {"frame_name": "f"}}]
        nodes += [{"op": "Exit", "name": "x", "inputs": ["e"]}]
    else:
        nodes += [{"op": "Merge", "name": "x", "inputs": ["v"], "attrs": {"N": 1}}]
    session = make_session([*nodes, {"op": "Neg", "name": "n", "inputs": ["x"]}])
    fetch(session, "a:0")
    found = fetch(session, "n:0")
    assert found.tolist() == [-1.0, -2.0]


@pytest.mark.parametrize("p", [True, False])
def test_a_control_trigger_runs_whichever_branch_is_taken(p: bool) -> None:
    nodes = [
        *cond(),
        {"op": "ControlTrigger", "name": "both", "inputs": ["^twice", "^more"]},
        {"op": "Const", "name": "after", "inputs": ["^both"], "dtype": "float32", "value": 5.0},
    ]
    session = make_session(nodes, raw=True)
    assert fetch(session, "after:0", p=np.array(p), x=np.float32(3.0)) == 5.0
