"""Collectives: members of a group exchange tensors in `run`, and take the time of a ring of transfers in `simulate`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import PlacesimError
from tests.planning.strategies.models import dense

Nodes = list[dict[str, Any]]
NVLINK, LATENCY = 150e9, 2e-6
"""Bytes per second and seconds of a hop between two V100."""


def on(gpu: int, op: str, name: str, *inputs: Any, **attrs: Any) -> dict[str, Any]:
    return {"op": op, "name": name, "inputs": list(inputs), "device": f"/gpu:{gpu}", "attrs": attrs}


def graph(nodes: Nodes, fetch: list[str], gpus: int = 2) -> dict[str, Any]:
    values = [on(n, "Fill", f"x{n}", [4, 256], float(n + 1)) for n in range(gpus)]
    devices = {"cpu": 1, "gpu": {"count": gpus, "model": "Tesla V100-SXM2-16GB"}}
    return {"devices": devices, "nodes": [*values, *nodes], "fetch": fetch}


def nccl(gpus: int, reduction: str = "sum") -> dict[str, Any]:
    attrs = {"reduction": reduction, "num_devices": gpus, "shared_name": "c"}
    nodes = [on(n, "NcclAllReduce", f"r{n}", f"x{n}", **attrs) for n in range(gpus)]
    return graph(nodes, [f"r{n}" for n in range(gpus)], gpus)


def versioned(op: str, gpus: int, **attrs: Any) -> dict[str, Any]:
    """Members of two groups of the second version, whose keys are inputs."""
    nodes = []
    for instance in (7, 8):
        nodes += [on(n, op, f"r{instance}_{n}", f"x{n}", gpus, 1, instance, **attrs) for n in range(gpus)]
    return graph(nodes, [node["name"] for node in nodes], gpus)


OLD = {"group_size": 2, "group_key": 1, "instance_key": 3}
REDUCES = {"merge_op": "Add", "final_op": "Div", "subdiv_offsets": [0]}
PAIR = {"T": "float32", **OLD, "shape": [4, 256]}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (nccl(2), 3.0),
        (nccl(3, "prod"), 6.0),
        (versioned("CollectiveReduceV2", 2, merge_op="Max", final_op="Id"), 2.0),
        (graph([on(n, "CollectiveReduce", f"r{n}", f"x{n}", **OLD, **REDUCES) for n in (0, 1)], ["r0", "r1"]), 1.5),
        (graph([on(0, "NcclReduce", "r", "x0", "x1", reduction="min"), on(0, "Abs", "y", "r")], ["y"]), 1.0),
        (graph([on(0, "NcclBroadcast", "b", "x0", shape=[4, 256]), on(1, "Abs", "y", "b")], ["y"]), 1.0),
        (
            graph([on(1, "CollectiveBcastSend", "s", "x1", **PAIR), on(0, "CollectiveBcastRecv", "r", **PAIR)], ["s", "r"]),
            2.0,
        ),
    ],
)
def test_members_get_the_result_of_all(source: dict[str, Any], value: float) -> None:
    found = list(placesim.run(source).results)
    assert found
    for result in found:
        np.testing.assert_array_equal(result.value, np.full((4, 256), value, np.float32))
    assert placesim.simulate(source).seconds > 0


def test_a_gather_joins_in_the_order_of_devices() -> None:
    attrs = OLD | {"shape": [8, 256]}
    members = [on(n, "CollectiveGather", f"r{n}", f"x{n}", **attrs) for n in (1, 0)]
    found = list(placesim.run(graph(members, ["r0", "r1"])).results)
    assert len(found) == 2
    for result in found:
        np.testing.assert_array_equal(result.value[:, 0], [1, 1, 1, 1, 2, 2, 2, 2])


def on_cpus(op: str, *shapes: tuple[int, ...], ranks: tuple[int, int] = (0, 1), **attrs: Any) -> dict[str, Any]:
    """Return a graph of two members on CPUs, with the inputs 0, 1, 2... and 100, 101, 102..."""
    nodes: Nodes = []
    for n, shape in enumerate((*shapes, *shapes)[:2]):
        values = np.arange(100.0 * n, 100 * n + prod(shape)).reshape(shape)
        nodes.append({"op": "Const", "name": f"x{n}", "value": values.tolist(), "dtype": "float32"})
        keys: list[Any] = [2, 1, 2]
        if op.endswith("V3"):
            nodes.append(on(n, "CollectiveInitializeCommunicator", f"c{n}", 1, ranks[n], 2))
            nodes.append({"op": "Const", "name": f"a{n}", "value": [], "dtype": "int32", "shape": [0, 0]})
            keys = [f"c{n}", f"a{n}"]
        nodes.append(on(n, op, f"r{n}", f"x{n}", *keys, **attrs))
    return {
        "devices": {"cpu": 2},
        "nodes": [node | {"device": f"/cpu:{number * 2 // len(nodes)}"} for number, node in enumerate(nodes)],
        "fetch": ["r0", "r1"],
    }


ADD: dict[str, Any] = {"merge_op": "Add", "final_op": "Id"}
ROWS = np.array([[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (on_cpus("CollectiveGatherV2", (2, 3)), [[*ROWS, *ROWS + 100]] * 2),
        (on_cpus("CollectiveAllToAllV2", (2, 3)), [[ROWS[0], ROWS[0] + 100], [ROWS[1], ROWS[1] + 100]]),
        (on_cpus("CollectiveAllToAllV3", (2, 3), ranks=(1, 0)), [[ROWS[0] + 100, ROWS[0]], [ROWS[1] + 100, ROWS[1]]]),
        (on_cpus("CollectiveReduceV3", (2, 3), reduction="Add"), [2 * ROWS + 100] * 2),
    ],
)
def test_the_results_on_cpus_are_tensorflows(source: dict[str, Any], values: Any) -> None:
    np.testing.assert_array_equal([result.value for result in placesim.run(source).results], values)
    assert placesim.simulate(source).seconds > 0


def test_a_member_gets_its_rows_of_a_reduced_tensor_on_gpus_only() -> None:
    scatter = versioned("CollectiveReduceScatterV2", 2, **ADD)
    for result in placesim.run(scatter).results:
        np.testing.assert_array_equal(result.value, np.full((2, 256), 3.0, np.float32))
    with pytest.raises(PlacesimError, match="did not find collective implementation undef"):
        placesim.run(on_cpus("CollectiveReduceScatterV2", (4, 2), **ADD))


def test_two_ops_of_one_communicator_are_two_groups() -> None:
    source = on_cpus("CollectiveReduceV3", (2, 3), reduction="Add")
    again = [node | {"name": f"s{n}", "inputs": [f"r{n}", *node["inputs"][1:]]} for n, node in enumerate(source["nodes"][3::4])]
    source |= {"nodes": source["nodes"] + again, "fetch": ["s0", "s1"]}
    for result in placesim.run(source).results:
        np.testing.assert_array_equal(result.value, 2 * (2 * ROWS + 100))
    starts = {run.node: run.start for run in placesim.simulate(source).nodes}
    assert starts["r0"] == starts["r1"] <= starts["s0"] == starts["s1"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (on_cpus("CollectiveGatherV2", (4, 2), (5, 2)), r"instance 2. Op at device /job:localhost/replica:0/task:0/device:"
         r"CPU:1 expected shape \[10,2\] but another member in the group expected shape \[8,2\]. This is likely"),
        (on_cpus("CollectiveReduceV2", (4, 2), (4, 3), **ADD), r"expected shape \[4,3\] but .* expected shape \[4,2\]"),
        (on_cpus("CollectiveReduceV3", (2, 3), (3, 3), reduction="Add"), "Shape mismatch in the collective instance 0. Op at"),
        (on_cpus("CollectiveAllToAllV2", (3, 2)), r"aborted by: input to all-to-all first dimension size \(3\) must be the "
         r"same as the group size \(2\)\nThe error could be from a previous operation. Restart your program to reset."),
        (on_cpus("CollectiveAllToAllV2", ()), "cannot split or join scalars"),
        (on_cpus("CollectiveReduceV3", (2,), ranks=(0, 0), reduction="Add"), "for group members. Received ranks: 0,0"),
        (on_cpus("CollectiveReduceV3", (2,), ranks=(2, 0), reduction="Add"), "rank must be less than group size but got 2 >="),
    ],
)  # fmt: skip
def test_errors_of_members_are_tensorflows(source: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacesimError, match=message):
        placesim.run(source)


def test_a_device_finds_its_group_in_an_assignment() -> None:
    def assigned(assignment: Any, index: int) -> list[int]:
        node = {"op": "CollectiveAssignGroupV2", "name": "g", "inputs": [assignment, index, 5]}
        found = placesim.run({"devices": {"cpu": 1}, "nodes": [node], "fetch": ["g", "g:1"]})
        return [int(result.value) for result in found.results]

    assert assigned([[0, 2], [3, 1]], 1) == [2, 6]
    with pytest.raises(
        PlacesimError, match=r"device_index 4 is not found in group_assignment Tensor<type: int32 shape: \[2,1\]"
    ):
        assigned([[0], [1]], 4)
    with pytest.raises(PlacesimError, match=r"must be a 2-d Tensor, but received tensor of shape: \[2\]"):
        assigned([0, 1], 0)


def test_a_member_that_is_missing_is_an_error() -> None:
    with pytest.raises(PlacesimError):
        placesim.run(nccl(2), fetch="r0")


@pytest.mark.parametrize("gpus", [2, 3, 4])
def test_an_all_reduce_takes_the_time_of_its_ring(gpus: int) -> None:
    source = nccl(gpus)
    for node in source["nodes"][:gpus]:
        node["inputs"][0] = [4096, 1024]
    step = placesim.simulate(source)
    moved = 4096 * 1024 * 4 * 2 * (gpus - 1) / gpus
    runs = [run for run in step.nodes if run.op == "NcclAllReduce"]
    assert len(runs) == gpus
    for run in runs:
        assert run.seconds == pytest.approx(moved / NVLINK + 2 * (gpus - 1) * LATENCY)
        # all begin when the last input is there
        assert run.start >= max(other.end for other in step.nodes if other.op == "Fill")


def test_a_ring_takes_the_fastest_links_and_shares_them() -> None:
    source = nccl(4)
    for node in source["nodes"][:4]:
        node["inputs"][0] = [4096, 1024]
    near = {"bandwidth": "20GB/s", "latency": "2us"}
    pairs = ((0, 2), (2, 1), (1, 3), (3, 0))
    links = [{"between": [f"GPU:{first}", f"GPU:{second}"], **near} for first, second in pairs]
    gpu = {"count": 4, "model": "Tesla V100-PCIE-32GB"}
    meshed = source | {"devices": {"cpu": 1, "gpu": gpu}, "links": links}
    moved = 4096 * 1024 * 4 * 1.5
    for run in placesim.simulate(meshed).nodes:
        if run.op == "NcclAllReduce":
            assert run.seconds == pytest.approx(run.end - run.start) == pytest.approx(moved / 20e9 + 6 * 2e-6)
    over_host = meshed | {"links": []}
    alone = next(run for run in placesim.simulate(over_host).nodes if run.op == "NcclAllReduce")
    fed = [on(0, "Placeholder", "fed", dtype="float32", shape=[4096, 1024]), on(0, "Abs", "read", "fed")]
    beside = over_host | {"nodes": [*source["nodes"], *fed], "fetch": [*source["fetch"], "read"]}
    shared = next(run for run in placesim.simulate(beside).nodes if run.op == "NcclAllReduce")
    assert shared.end - shared.start > 1.1 * (alone.end - alone.start)


def test_small_all_reduces_between_hosts_go_along_trees() -> None:
    nodes: Nodes = []
    for n in range(8):
        keys = {"group_size": 8, "group_key": 1, "instance_key": 3, "merge_op": "Add", "final_op": "Id", "subdiv_offsets": [0]}
        value = {"op": "Fill", "name": f"x{n}", "inputs": [[2], 1.0], "device": f"/job:worker/task:{n}"}
        member = {"op": "CollectiveReduce", "name": f"r{n}", "inputs": [f"x{n}"], "attrs": keys, "device": value["device"]}
        nodes += [value, member]
    source = {"devices": [{"job": "worker", "tasks": 8, "cpu": 1}], "nodes": nodes, "fetch": [f"r{n}" for n in range(8)]}
    small = [run.seconds for run in placesim.simulate(source).nodes if run.op == "CollectiveReduce"]
    assert small == [pytest.approx(2 * (3 * 50e-6 + 8 / 1.25e9))] * 8
    for node in nodes[::2]:
        node["inputs"][0] = [1 << 22]
    large = [run.seconds for run in placesim.simulate(source).nodes if run.op == "CollectiveReduce"]
    assert large == [pytest.approx(14 * 50e-6 + (1 << 24) * 14 / 8 / 1.25e9)] * 8


def test_gradients_are_reduced_during_the_backward_pass() -> None:
    graph = dense("momentum") | {"devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}}}
    graph["run"] = graph["run"][:2]
    towers = placesim.parallelize(graph, replicas=2, variables="mirrored", reduce="nccl")
    runs = {run.node: run for run in placesim.simulate(towers).nodes}
    last, first = runs["average/v/all_reduce_0"], runs["average/w/all_reduce_0"]
    gradient = next(run for name, run in runs.items() if name.startswith("tower_0/gradients/xw_grad/MatMul"))
    assert last.start < gradient.end <= first.start
