"""Collectives: members of a group exchange tensors in `run`, and take the time of a ring of transfers in `simulate`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import PlacesimError

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


def test_a_member_that_is_missing_or_of_another_shape_is_an_error() -> None:
    source = nccl(2)
    with pytest.raises(PlacesimError):
        placesim.run(source, fetch="r0")
    source["nodes"][0]["inputs"][0] = [2, 256]
    with pytest.raises(PlacesimError, match=r"different shapes: got \[2, 256\], \[4, 256\], expected equal shapes"):
        placesim.run(source)


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
