"""NCCL's broadcasts and reductions after placement."""

from __future__ import annotations

import pytest

from placesim.core.dtypes import FLOAT
from placesim.core.errors import InvalidArgumentError, NotFoundError
from placesim.graph.graph import Graph, NodeDef, TensorRef
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.attributes import Shape
from placesim.ops.registry import load_registry
from placesim.placement.collectives import replace_collectives
from placesim.placement.placer import PlacedGraph, Placement, place_graph
from placesim.runtime.partitioning.pruning import prune

DEVICES = build_devices([TaskInventory(gpu=3)])
_T = {"T": FLOAT}


def _gpu(number: int) -> str:
    return f"/device:GPU:{number}"


def _place(*nodes: NodeDef) -> Placement:
    graph = Graph(load_registry())
    graph.extend(nodes)
    placement = place_graph(graph, DeviceSet(DEVICES, DEVICES[0].spec.address_space))
    assert placement.error is None
    return placement


def _rows(placed: PlacedGraph) -> list[tuple[str, str, list[str], str]]:
    """Name, op, inputs and short device of each node, in the runtime's order."""
    rows = []
    for node_id in placed.order:
        node, device = placed.graph.nodes[node_id], placed.devices[node_id]
        assert device is not None
        rows.append((node.name, node.op, placed.graph.input_texts(node), device.name.rpartition("/device:")[2]))
    return rows


def _broadcast(readers: dict[str, int], shape: Shape, *control: str) -> Placement:
    return _place(
        NodeDef("start", "NoOp", (), _gpu(0)),
        NodeDef("value", "Placeholder", (), _gpu(0), {"dtype": FLOAT}),
        NodeDef("cast", "NcclBroadcast", ("value", *control), _gpu(0), {**_T, "shape": shape}),
        *(NodeDef(name, "Neg", ("cast",), _gpu(number), _T) for name, number in readers.items()),
        NodeDef("done", "NoOp", ("^cast",), _gpu(1)),
    )


def test_a_graph_without_collectives_is_left_alone() -> None:
    placement = _place(NodeDef("value", "Placeholder", (), "", {"dtype": FLOAT}))
    assert replace_collectives(placement) is placement


def test_a_broadcast_to_one_device_goes_with_its_control_inputs() -> None:
    placement = _broadcast({"a": 0, "b": 0}, Shape((2,)), "^start")
    assert _rows(replace_collectives(placement)) == [
        ("start", "NoOp", [], "GPU:0"),
        ("value", "Placeholder", [], "GPU:0"),
        ("a", "Neg", ["value"], "GPU:0"),
        ("b", "Neg", ["value"], "GPU:0"),
        ("done", "NoOp", ["^value"], "GPU:1"),
    ]


@pytest.mark.parametrize("dims", [(2, 3), (0, 3)])
def test_a_broadcast_of_known_shape_is_received_on_each_other_device(dims: tuple[int, ...]) -> None:
    placement = _broadcast({"a": 2, "b": 0, "c": 1}, Shape(dims), "^start")
    placed = replace_collectives(placement)
    assert _rows(placed) == [
        ("start", "NoOp", [], "GPU:0"),
        ("value", "Placeholder", [], "GPU:0"),
        ("a", "Neg", ["castRecv_0"], "GPU:2"),
        ("b", "Neg", ["value", "^castSend"], "GPU:0"),
        ("c", "Neg", ["castRecv_2"], "GPU:1"),
        ("done", "NoOp", ["^castSend"], "GPU:1"),
        ("castSend", "_NcclBroadcastSend", ["value", "^start"], "GPU:0"),
        ("value/Shape0", "Const", [], "GPU:2"),
        ("castRecv_0", "_NcclBroadcastRecv", ["value/Shape0"], "GPU:2"),
        ("value/Shape2", "Const", [], "GPU:1"),
        ("castRecv_2", "_NcclBroadcastRecv", ["value/Shape2"], "GPU:1"),
    ]
    assert placed.graph.node("castRecv_0").attrs["num_devices"] == 3
    assert placed.graph.node("value/Shape0").attrs["value"].array.tolist() == list(dims)


def test_a_broadcast_of_unknown_shape_asks_for_it() -> None:
    placement = _broadcast({"a": 0, "b": 1}, Shape((-1,)))
    rows = _rows(replace_collectives(placement))
    assert ("value/Shape", "Shape", ["value"], "GPU:0") in rows
    assert ("castRecv_1", "_NcclBroadcastRecv", ["value/Shape"], "GPU:1") in rows


def _reduce(numbers: tuple[int, ...], own: int) -> Placement:
    return _place(
        NodeDef("start", "NoOp", (), _gpu(0)),
        *(NodeDef(f"v{i}", "Placeholder", (), _gpu(n), {"dtype": FLOAT}) for i, n in enumerate(numbers)),
        NodeDef(
            "sum",
            "NcclReduce",
            (*(f"v{i}" for i in range(len(numbers))), "^start"),
            _gpu(own),
            {**_T, "num_devices": len(numbers), "reduction": "sum"},
        ),
        NodeDef("reader", "Neg", ("sum",), _gpu(own), _T),
    )


def test_a_reduction_is_received_where_it_is_and_sent_from_every_other_input() -> None:
    placed = replace_collectives(_reduce((0, 1, 2), 1))
    assert _rows(placed)[4:] == [
        ("reader", "Neg", ["sumRecv", "^sumSend_1", "^sumSend_2"], "GPU:1"),
        ("sumSend_1", "_NcclReduceSend", ["v0", "^start"], "GPU:0"),
        ("sumSend_2", "_NcclReduceSend", ["v2", "^start"], "GPU:2"),
        ("sumRecv", "_NcclReduceRecv", ["v1", "^start"], "GPU:1"),
    ]
    counts = {node.attrs["num_devices"] for node in placed.graph.nodes if "Nccl" in node.op}
    assert counts == {3}


def test_a_reduction_with_no_input_on_its_device_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="No input tensor uses the same device as the NcclReduce op"):
        replace_collectives(_reduce((0, 1), 2))


def test_pruning_starts_from_what_is_left() -> None:
    placement = _reduce((0, 1), 1)
    client = prune(placement, targets=[placement.graph.ids["reader"]])
    assert [node.op for node in client.graph.nodes if "Nccl" in node.op] == ["_NcclReduceSend", "_NcclReduceRecv"]
    with pytest.raises(NotFoundError, match="Some target nodes not found: sum"):
        prune(placement, targets=[placement.graph.ids["sum"]])
    replaced = [TensorRef(placement.graph.ids["sum"], 0)]
    with pytest.raises(NotFoundError, match=r"FetchOutputs node sum:0: not found"):
        prune(placement, fetches=replaced)
    with pytest.raises(NotFoundError, match=r"FeedInputs: unable to find feed output sum:0"):
        prune(placement, feeds=replaced)
