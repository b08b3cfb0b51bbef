"""The nodes that a step needs, with arguments and results at their ends, and small constants that are copied (8.11, 8.13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import placesim
from placesim.core.errors import InternalError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels import load_kernels
from placesim.runtime.executors.program import DeviceState, build_program
from placesim.runtime.executors.schedule import Schedule, schedule_nodes
from placesim.runtime.partitioning.pruning import MAX_REPLICATED_ELEMENTS, ClientGraph

Node = dict[str, Any]


def client_of(nodes: Sequence[Node], fetch: Sequence[str], feed: dict[str, Any] | None = None, **machine: Any) -> ClientGraph:
    file = {"devices": machine or {"cpu": 2, "gpu": 1}, "nodes": nodes, "run": [{"fetch": list(fetch), "feed": feed or {}}]}
    return placesim.place(file).prepared[0].client


def neg(name: str, source: str, device: str = "", **more: Any) -> Node:
    return {"op": "Neg", "name": name, "inputs": [source], "device": device, **more}


def rows(client: ClientGraph) -> list[tuple[str, list[str], str]]:
    """Each node with what it reads, `^` before what it waits for, and its device."""
    names = [node.name for node in client.graph.nodes]
    return [
        (
            node.name,
            [*(names[i] for i in node.input_nodes), *(f"^{names[i]}" for i in node.control_inputs)],
            device.name.rpartition("/device:")[2],
        )
        for node, device in zip(client.graph.nodes, client.devices, strict=True)
    ]


def test_what_is_fed_and_fetched_becomes_ends() -> None:
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float", "shape": []},
        neg("a", "x"),
        neg("b", "a", control_inputs=["x"]),
        neg("unused", "a"),
    ]
    client = client_of(nodes, ["b", "x", "b"], {"x": 1.0}, cpu=1)
    assert rows(client) == [
        ("a", ["_arg_x_0_0"], "CPU:0"),
        ("b", ["a", "^_arg_x_0_0"], "CPU:0"),
        ("_arg_x_0_0", [], "CPU:0"),
        ("_retval_b_0_0", ["b"], "CPU:0"),
        ("_retval_x_0_1", ["_arg_x_0_0"], "CPU:0"),
    ]
    assert (client.feeds, client.fetches) == (("x:0",), ("b:0", "x:0"))
    fed = client_of(nodes, ["b"], {"a": 1.0, "x": 2.0}, cpu=1)
    assert rows(fed) == [
        ("b", ["_arg_a_0_0", "^_arg_x_0_1"], "CPU:0"),
        ("_arg_a_0_0", [], "CPU:0"),
        ("_arg_x_0_1", [], "CPU:0"),
        ("_retval_b_0_0", ["b"], "CPU:0"),
    ]


def constant(elements: int, **more: Any) -> Node:
    return {"op": "Const", "name": "c", "value": [float(i) for i in range(elements)], "device": "/cpu:0", **more}


def copies(*nodes: Node) -> list[tuple[str, list[str], str]]:
    """The rows of the copies, and of those that read them or the constant."""
    client = client_of(nodes, [node["name"] for node in nodes if node["op"] == "Neg"])
    return [(name, read, device) for name, read, device in rows(client) if not name.startswith(("_retval", "before"))]


def test_a_small_constant_is_copied_to_each_cpu_that_reads_it() -> None:
    before = {"op": "NoOp", "name": "before", "device": "/cpu:0"}
    found = copies(
        before, constant(MAX_REPLICATED_ELEMENTS, control_inputs=["before"]), neg("x", "c", "/cpu:1"), neg("y", "c", "/gpu:0")
    )
    assert found == [
        ("x", ["c/replicate/_1"], "CPU:1"),
        ("y", ["c/replicate/_0"], "GPU:0"),
        ("c/replicate/_0", ["^before"], "CPU:0"),
        ("c/replicate/_1", ["^before"], "CPU:1"),
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        (constant(MAX_REPLICATED_ELEMENTS + 1), neg("x", "c", "/cpu:1"), neg("y", "c", "/cpu:0")),
        (constant(2), neg("x", "c", "/cpu:1")),
        (constant(2), neg("x", "c", "/cpu:1"), neg("y", "c", "/cpu:1")),
        (constant(2), neg("x", "c", "/gpu:0"), neg("y", "c", "/cpu:0")),
        (constant(2), neg("x", "c", "/cpu:1"), neg("y", "x", "/cpu:0", control_inputs=["c"])),
        (constant(2) | {"device": "/gpu:0"}, neg("x", "c", "/cpu:1"), neg("y", "c", "/cpu:0")),
        (constant(2) | {"op": "Identity", "inputs": [1.0], "value": None}, neg("x", "c", "/cpu:1"), neg("y", "c", "/cpu:0")),
    ],
    ids=["large", "one reader", "one device", "one task", "waited for", "on a GPU", "no constant"],
)
def test_other_constants_stay(nodes: tuple[Node, ...]) -> None:
    assert not any("replicate" in name for name, *_ in copies(*({k: v for k, v in n.items() if v is not None} for n in nodes)))


# --- the order in which partitions run ------------------------------------------------------------------------------


def graph_of(*nodes: Node) -> Graph:
    return graph_file_from_mapping({"nodes": nodes, "raw": True}).graph


def transfer(op: str, name: str, key: str, *inputs: str) -> Node:
    attrs: dict[str, Any] = {
        "T" if inputs and op == "_Send" else "tensor_type": "float",
        "tensor_name": key,
        "send_device": "/cpu:0",
        "send_device_incarnation": 1,
        "recv_device": "/cpu:1",
        "client_terminated": False,
    }
    return {"op": op, "name": name, "inputs": list(inputs), "attrs": attrs}


def raw(name: str, op: str, *inputs: str) -> Node:
    return {"op": op, "name": name, "inputs": list(inputs), "attrs": {"T": "float"}}


A: Node = {"op": "Const", "name": "a", "value": 1.0}


def test_nodes_run_as_their_inputs_come_and_a_receive_after_its_send() -> None:
    first = graph_of(A, raw("b", "Neg", "a"), transfer("_Send", "s", "t", "b"), raw("c", "Neg", "a"))
    second = graph_of(transfer("_Recv", "r", "t"), raw("d", "Neg", "r"))
    assert schedule_nodes([first, second]) == [(0, 0), (0, 1), (0, 3), (0, 2), (1, 0), (1, 1)]
    assert schedule_nodes([second, first])[-2:] == [(0, 0), (0, 1)]
    assert schedule_nodes([first]) == [(0, 0), (0, 1), (0, 3), (0, 2)]
    assert schedule_nodes([]) == []


def test_partitions_that_wait_for_each_other() -> None:
    graphs = [
        graph_of(transfer("_Recv", f"r{here}", here), transfer("_Send", f"s{there}", there, f"r{here}"))
        for here, there in ("ab", "ba")
    ]
    with pytest.raises(InternalError, match="their sends and receives form a cycle"):
        schedule_nodes(graphs)


def test_a_value_is_dropped_after_its_last_reader() -> None:
    graph = graph_of(
        A, raw("b", "Neg", "a"), raw("sum", "Add", "a", "b"), raw("twice", "Add", "sum", "sum"), raw("n", "Neg", "a")
    )
    (device,) = build_devices([TaskInventory()])
    program = build_program(graph, DeviceState(device), load_kernels(), {})
    schedule = Schedule([program])
    assert schedule.order == [(0, 0), (0, 1), (0, 4), (0, 2), (0, 3)]
    assert schedule.last_readers == {(0, 2): (0, 1), (0, 3): (3, 2), (0, 4): (4,)}
