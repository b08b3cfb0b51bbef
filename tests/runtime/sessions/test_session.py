"""Sessions: steps share variables, fetching prunes, feeds are checked, and errors are TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.errors import FailedPreconditionError, InvalidArgumentError, PlacesimError, RequestError, SessionUsageError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import NodeDef
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.sessions.graphs import fetch, make_session

REF_COUNTER = [
    {"variable": "v", "shape": [], "initializer": "zeros"},
    {"op": "AssignAdd", "name": "add", "inputs": ["v", 1.0]},
    {"initializer": "init"},
]
RESOURCE_COUNTER = [
    {"variable": "v", "shape": [], "initializer": "zeros", "kind": "resource"},
    {"op": "AssignAddVariableOp", "name": "add", "inputs": ["v", 1.0]},
    {"initializer": "init"},
]


@pytest.mark.parametrize(("nodes", "read"), [(REF_COUNTER, "v/read"), (RESOURCE_COUNTER, "v/Read/ReadVariableOp")])
def test_variables_keep_their_value_from_step_to_step(nodes: list[dict[str, Any]], read: str) -> None:
    session = make_session(nodes)
    session.run(GraphStep((Fetch("init"),)))
    for expected in (1.0, 2.0, 3.0):
        session.run(GraphStep((Fetch("add"),)))
        assert fetch(session, read) == expected


def test_another_session_starts_without_values() -> None:
    first = make_session(REF_COUNTER)
    first.run(GraphStep((Fetch("init"),)))
    with pytest.raises(FailedPreconditionError, match="Attempting to use uninitialized value v"):
        fetch(make_session(REF_COUNTER), "v/read")


@pytest.mark.parametrize(
    ("nodes", "read", "message"),
    [
        (REF_COUNTER, "v/read", "Attempting to use uninitialized value v\n\t [[{{node v/read}}]]"),
        (
            RESOURCE_COUNTER,
            "v/Read/ReadVariableOp",
            "Could not find variable v. This could mean that the variable has been deleted. "
            "In TF1, it can also mean the variable is uninitialized. Debug info: container=localhost, "
            "status error message=Container localhost does not exist. "
            "(Could not find resource: localhost/v)\n\t [[{{node v/Read/ReadVariableOp}}]]",
        ),
    ],
)
def test_uninitialised_use_is_tensorflows_error(nodes: list[dict[str, Any]], read: str, message: str) -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        fetch(make_session(nodes), read)
    assert caught.value.message == message
    assert caught.value.node == read


REF_PASSING: list[dict[str, Any]] = [
    *({"op": "VariableV2", "name": name, "dtype": "float32", "shape": [2]} for name in "vw"),
    *({"op": "Assign", "name": f"set_{name}", "inputs": [name, [1.0, 2.0]]} for name in "vw"),
    {"op": "Placeholder", "name": "i", "dtype": "int32"},
    {"op": "RefSwitch", "name": "switch_v", "inputs": ["v", False]},
    {"op": "RefSwitch", "name": "switch_w", "inputs": ["w", True]},
    {"op": "RefMerge", "name": "merge", "inputs": ["switch_v:1", "switch_w:1"]},
    {"op": "RefEnter", "name": "enter", "inputs": ["v"], "attrs": {"frame_name": "loop"}},
    {"op": "RefExit", "name": "exit", "inputs": ["enter"]},
    {"op": "RefSelect", "name": "select", "inputs": ["i", "v", "w"]},
    *({"op": "Identity", "name": f"after_{name}", "inputs": [name]} for name in ("merge", "exit", "select")),
    {"op": "AssignAdd", "name": "add", "inputs": ["select", [10.0, 10.0]]},
]


def test_a_reference_is_passed_on_only_if_its_variable_is_initialized() -> None:
    session = make_session(REF_PASSING)
    for name, text, node in (("merge", "switch_w:1", "merge"), ("exit", "v", "enter"), ("select", "v", "select")):
        with pytest.raises(FailedPreconditionError) as caught:
            session.run(GraphStep((Fetch(f"after_{name}"),), (Feed("i", np.array(1, np.int32)),)))
        assert caught.value.message == f"Attempting to use uninitialized value {text}\n\t [[{{{{node {node}}}}}]]"


def test_a_selected_reference_is_the_variable() -> None:
    session = make_session(REF_PASSING)
    session.run(GraphStep((Fetch("set_v"), Fetch("set_w"))))
    session.run(GraphStep((Fetch("add"),), (Feed("i", np.array(1, np.int32)),)))
    assert [fetch(session, name).tolist() for name in "vw"] == [[1, 2], [11, 12]]
    for index, message in ((2, r"in the range \[0, 2\) but got 2"), ([1], r"must be a scalar, but it has shape \[1\]")):
        with pytest.raises(InvalidArgumentError, match=message):
            session.run(GraphStep((Fetch("add"),), (Feed("i", np.array(index, np.int32)),)))


def test_fetching_prunes() -> None:
    session = make_session(
        [
            {"op": "Placeholder", "name": "never_fed", "dtype": "float32"},
            {"op": "Neg", "name": "unwanted", "inputs": ["never_fed"]},
            {"op": "Neg", "name": "wanted", "inputs": [2.0]},
        ]
    )
    assert fetch(session, "wanted") == -2.0
    with pytest.raises(InvalidArgumentError, match="You must feed a value for placeholder tensor 'never_fed' with dtype float"):
        fetch(session, "unwanted")


def test_a_fed_tensor_replaces_its_producer() -> None:
    session = make_session([{"op": "Neg", "name": "a", "inputs": [2.0]}, {"op": "Neg", "name": "b", "inputs": ["a"]}])
    assert fetch(session, "b") == 2.0
    assert fetch(session, "b", a=5.0) == -5.0
    assert fetch(session, "a", a=5.0) == 5.0


def test_several_fetches_come_in_the_order_asked_for() -> None:
    session = make_session([{"op": "Const", "name": name, "value": float(i)} for i, name in enumerate("zyx")])
    assert fetch(session, "x", "z", "y", "x") == (2.0, 0.0, 1.0, 2.0)


PLACEHOLDER = [
    {"op": "Placeholder", "name": "x", "dtype": "float32", "attrs": {"shape": [-1, 2]}},
    {"op": "Neg", "inputs": ["x"]},
]


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (
            Feed("x", np.zeros((2, 3), np.float32)),
            "Cannot feed value of shape (2, 3) for Tensor x:0, which has shape (None, 2)",
        ),
        (Feed("x", np.zeros(2, np.float32)), "Cannot feed value of shape (2,) for Tensor x:0, which has shape (None, 2)"),
        (Feed("x", np.array([["a", "b"]])), "Cannot feed value of type <U1 for Tensor x:0, which has type float32"),
        (Feed("y", 1.0), "The name 'y:0' refers to a Tensor which does not exist."),
    ],
)
def test_bad_feeds_are_refused(feed: Feed, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        make_session(PLACEHOLDER).run(GraphStep((Fetch("Neg"),), (feed,)))
    assert message in caught.value.message


def test_an_unknown_fetch_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="Fetch argument 'Nge' cannot be interpreted as a Tensor") as caught:
        make_session(PLACEHOLDER).run(GraphStep((Fetch("Nge"),)))
    assert caught.value.help == ("did you mean Neg?",)


def test_an_output_that_is_not_there() -> None:
    with pytest.raises(RequestError, match="exists but only has 1 outputs"):
        make_session(PLACEHOLDER).run(GraphStep((Fetch("Neg:3"),)))


def test_extending_places_the_whole_graph_again_and_keeps_stateful_ops() -> None:
    session = make_session(REF_COUNTER, gpu=1)
    session.run(GraphStep((Fetch("init"),)))
    before = session.placement
    session.extend([NodeDef("more", "Neg", ("v/read",), "", {"T": before.graph.node("v").attrs["dtype"]})])
    assert fetch(session, "more") == 0.0
    after = session.placement
    assert after is not before
    assert "more" not in before.graph.ids
    names = [after.graph.nodes[i].name for i in after.log]
    assert names.index("v") < names.index("more")
    assert after.devices[after.graph.ids["v"]] == before.devices[before.graph.ids["v"]]


def test_extending_with_a_known_name() -> None:
    session = make_session(REF_COUNTER)
    with pytest.raises(InvalidArgumentError, match="GraphDef argument to Extend includes node 'v', which was created by"):
        session.extend([NodeDef("v", "NoOp")])


def test_a_closed_session_and_an_empty_graph() -> None:
    session = make_session(REF_COUNTER)
    session.close()
    with pytest.raises(SessionUsageError, match="Attempted to use a closed Session"):
        fetch(session, "init")


def test_errors_carry_node_and_device() -> None:
    session = make_session([{"op": "Div", "name": "d", "inputs": [[1, 2], [1, 0]], "device": "/cpu:1"}], cpu=2)
    with pytest.raises(InvalidArgumentError) as caught:
        fetch(session, "d")
    assert caught.value.message == "Integer division by zero\n\t [[{{node d}}]]"
    assert caught.value.device == "/job:localhost/replica:0/task:0/device:CPU:1"


def test_an_op_without_a_kernel_says_that_place_works() -> None:
    nodes = [{"op": "Placeholder", "name": "x", "dtype": "string"}, {"op": "DecodeGif", "name": "gif", "inputs": ["x"]}]
    broken = make_session(nodes)
    with pytest.raises(PlacesimError, match="no numpy kernel for op 'DecodeGif'") as caught:
        fetch(broken, "gif", x=b"GIF8")
    assert "place" in caught.value.help[0]


def log_of(session: Any, index: int = -1) -> list[str]:
    placement = session.placements[index]
    return [placement.graph.nodes[i].name for i in placement.log]


PRUNABLE = [
    {"op": "Placeholder", "name": "a", "dtype": "float32"},
    {"op": "Const", "name": "c", "value": 1.0},
    {"op": "AddV2", "name": "b", "inputs": ["a", "c"]},
    {"op": "Const", "name": "lost", "value": 1.0, "device": "/gpu:7"},
]


def test_placing_only_what_a_step_needs() -> None:
    session = make_session(PRUNABLE, place_pruned_graph=True)
    assert fetch(session, "b", a=np.float32(2.0)) == 3.0
    assert log_of(session) == ["b", "_arg_a_0_0", "_retval_b_0_0", "c"]
    with pytest.raises(InvalidArgumentError, match="Cannot assign a device for operation lost"):
        fetch(session, "lost")


def test_the_whole_graph_is_placed_otherwise() -> None:
    with pytest.raises(InvalidArgumentError, match="Cannot assign a device for operation lost"):
        fetch(make_session(PRUNABLE), "b", a=np.float32(2.0))


def test_a_functions_body_is_logged_when_it_is_first_called() -> None:
    file = graph_file_from_mapping(
        {
            "raw": True,
            "functions": [
                {
                    "name": "twice",
                    "inputs": [{"name": "x", "type": "float32"}],
                    "outputs": [{"name": "y", "type": "float32", "value": "sum:z:0"}],
                    "nodes": [{"op": "AddV2", "name": "sum", "inputs": ["x", "x"], "attrs": {"T": "float32"}}],
                }
            ],
            "nodes": [
                {"op": "Const", "name": "c", "dtype": "float32", "value": 2.0},
                {
                    "op": "PartitionedCall",
                    "name": "call",
                    "inputs": ["c"],
                    "device": "/cpu:1",
                    "attrs": {"Tin": ["float32"], "Tout": ["float32"], "f": {"func": "twice"}},
                },
            ],
        }
    )
    session = GraphSession(file.graph, build_devices([TaskInventory(cpu=2)]))
    for _ in range(2):
        assert fetch(session, "call") == 4.0
    assert len(session.placements) == 2
    assert log_of(session) == ["x", "sum", "y_RetVal"]
    assert {device.name[-5:] for device in session.placements[-1].devices if device is not None} == {"CPU:1"}
