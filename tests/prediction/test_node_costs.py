"""What single nodes take: as a simulated step has them, and on another device what they take when they are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.prediction.node_costs import DeviceCost, NodeCosts
from placesim.prediction.time_breakdown import TimeStudy
from placesim.studies.time_study import find_costs, study_time
from tests.cli.shell import ROOT
from tests.runtime.executors.test_dataflow import loop

TOWERS = ROOT / "graphs" / "cifar10-towers.yaml"
TYPES = ("GPU", "CPU")
MOVING: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla K80"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [256, 512]},
        {"op": "Const", "name": "w", "dtype": "float32", "shape": [512, 128], "value": 0.5, "device": "/gpu:1"},
        {"op": "MatMul", "name": "y", "inputs": ["x", "w"], "device": "/gpu:0"},
        {"op": "Shape", "name": "s", "inputs": ["y"], "device": "/gpu:0"},
        {"op": "Reshape", "name": "z", "inputs": ["y", "s"], "device": "/gpu:0"},
    ],
    "fetch": ["z"],
}


def found(source: Any, **values: Any) -> tuple[NodeCosts, TimeStudy]:
    options = make_options(values)

    loaded = load(source, None, options)
    return find_costs(loaded, options), study_time(loaded, options, "graph")


def seconds_by_node(study: TimeStudy) -> Mapping[str, float]:
    taken: dict[str, float] = {}
    for run in study.nodes:
        taken[run.node] = taken.get(run.node, 0.0) + run.seconds
    return taken


def on(costs: NodeCosts, name: str, device: str) -> DeviceCost:
    cost = costs.of(name, TYPES)
    assert cost is not None
    assert cost.here is not None
    (place,) = [place for place in (cost.here, *cost.elsewhere) if place.device.endswith(device)]
    return place


@pytest.mark.slow
@pytest.mark.parametrize("source", [TOWERS, ROOT / "graphs" / "alexnet.yaml", MOVING], ids=["towers", "alexnet", "moving"])
def test_a_node_takes_what_it_takes_in_the_simulated_step(source: Any) -> None:
    costs, study = found(source)
    compared = 0
    for name, seconds in seconds_by_node(study).items():
        cost = costs.of(name, TYPES)
        if cost is not None and not cost.calls and cost.step == study.step.number:
            assert cost.here is not None
            assert cost.here.seconds == pytest.approx(seconds, rel=1e-9), name
            assert cost.here.low <= cost.here.seconds <= cost.here.high
            assert cost.here.device in {run.device for run in study.nodes if run.node == name}
            compared += 1
    assert compared > len(study.nodes) / 2


@pytest.mark.parametrize("device", ["CPU:0", "GPU:1"])
def test_elsewhere_it_takes_what_it_takes_when_it_is_there(device: str) -> None:
    costs, _ = found(MOVING)
    moved, study = found(MOVING, device=[f"y=/device:{device}"])
    there = on(moved, "y", device)
    assert on(costs, "y", device)._replace(transfers=()) == there._replace(transfers=())
    assert on(costs, "y", device).transfer_seconds == pytest.approx(there.transfer_seconds)
    assert seconds_by_node(study)["y"] == pytest.approx(there.seconds)


def test_transfers_of_inputs_are_those_of_the_step() -> None:
    costs, study = found(MOVING)
    here = on(costs, "y", "GPU:0")
    taken = {run.tensor: run for run in study.transfers if run.receiver.endswith("GPU:0")}
    assert [(t.tensor, t.bytes) for t in here.transfers] == [("x", 256 * 512 * 4), ("w", 512 * 128 * 4)]
    for transfer in here.transfers:
        run = taken.get(transfer.tensor) or taken[f"_arg_{transfer.tensor}_0_0"]
        assert transfer.bytes == run.bytes
        # x and w come from different devices over the one link into GPU:0
        assert transfer.seconds <= (run.end - run.start) * (1 + 1e-9)


def test_what_lives_in_host_memory_does_not_come_from_elsewhere() -> None:
    costs, _ = found(MOVING)
    assert on(costs, "z", "GPU:0").transfers == ()
    (transfer,) = on(costs, "z", "GPU:1").transfers
    assert transfer.tensor == "y"


ROW, ROWS, INDICES = 64 * 4, 8 * 64 * 4, 8 * 4
SLICED: dict[str, Any] = {
    "devices": {"cpu": 1},
    "nodes": [
        {"op": "VariableV2", "name": "v", "dtype": "float32", "shape": [1000, 64]},
        {"op": "VarHandleOp", "name": "h", "attrs": {"dtype": "float32", "shape": [1000, 64]}},
        {"op": "Fill", "name": "zeros", "inputs": [[1000, 64], 0.0]},
        {"op": "Assign", "name": "init", "inputs": ["v", "zeros"]},
        {"op": "AssignVariableOp", "name": "assign", "inputs": ["h", "zeros"]},
        {"op": "Fill", "name": "i", "inputs": [[8], 3]},
        {"op": "Fill", "name": "ij", "inputs": [[8, 2], 3]},
        {"op": "Fill", "name": "g", "inputs": [[8, 64], 1.0]},
        {"op": "Fill", "name": "one_each", "inputs": [[8], 1.0]},
        {"op": "GatherV2", "name": "gather", "inputs": ["zeros", "i", 0]},
        {"op": "GatherNd", "name": "gather_nd", "inputs": ["zeros", "ij"]},
        {"op": "ResourceGather", "name": "resource_gather", "inputs": ["h", "i"], "attrs": {"dtype": "float32"}},
        {"op": "SparseSegmentSumWithNumSegments", "name": "segments", "inputs": ["zeros", "i", [0, 0, 0, 0, 1, 1, 1, 1], 2]},
        {"op": "Slice", "name": "slice", "inputs": ["zeros", [3, 0], [8, 64]]},
        {"op": "ScatterAdd", "name": "scatter", "inputs": ["v", "i", "g"]},
        {"op": "ScatterSub", "name": "scatter_one", "inputs": ["v", "i", 2.0]},
        {"op": "ResourceScatterUpdate", "name": "resource_scatter", "inputs": ["h", "i", "g"], "attrs": {"dtype": "float32"}},
        {"op": "ResourceScatterNdAdd", "name": "scatter_nd", "inputs": ["h", "ij", "one_each"]},
        {"op": "SparseApplyMomentum", "name": "train", "inputs": ["v", "v", 0.5, "g", "i", 0.9]},
        {"op": "ResourceSparseApplyAdagrad", "name": "resource_train", "inputs": ["h", "h", 0.5, "g", "i"]},
    ],
}
SLICES = {
    "gather": INDICES + 4 + 2 * ROWS,
    "gather_nd": 2 * INDICES + 2 * 8 * 4,
    "resource_gather": INDICES + 2 * ROWS,
    "segments": INDICES + 8 * 4 + 4 + ROWS + 2 * ROW,
    "slice": 4 * 4 + 2 * ROWS,
    "scatter": INDICES + 3 * ROWS,
    "scatter_one": INDICES + 4 + 2 * ROWS,
    "resource_scatter": INDICES + 3 * ROWS,
    "scatter_nd": 2 * INDICES + 3 * 8 * 4,
    "train": INDICES + 2 * 4 + 5 * ROWS,
    "resource_train": INDICES + 4 + 5 * ROWS,
}


def test_a_kernel_that_touches_slices_moves_no_more_bytes_than_these() -> None:
    costs, _ = found(SLICED | {"run": [{"fetch": [f"^{name}" for name in names]} for names in (("init", "assign"), SLICES)]})
    moved = {name: cost.bytes for name in SLICES if (cost := costs.of(name, TYPES)) is not None}
    assert moved == SLICES


def test_what_bounds_a_node() -> None:
    def bound(rows: int, columns: int, op: str) -> str:
        inputs = ["a", "a"] if op == "MatMul" else ["a"]
        nodes = [{"op": "Placeholder", "name": "a", "dtype": "float32", "shape": [rows, columns]}]
        nodes.append({"op": op, "name": "n", "inputs": inputs, "device": "/gpu:0"})
        costs, _ = found(
            {"devices": {"cpu": 1, "gpu": {"count": 1, "model": "Tesla V100-SXM2-16GB"}}, "nodes": nodes, "fetch": ["n"]}
        )
        return on(costs, "n", "GPU:0").bound

    assert bound(4096, 4096, "MatMul") == "compute"
    assert bound(4096, 4096, "Neg") == "memory"
    assert bound(2, 2, "Neg") == bound(2, 2, "MatMul") == "launch"


def test_all_runs_of_a_loop_count() -> None:
    graph = {"nodes": loop("/gpu:0"), "devices": {"cpu": 1, "gpu": 1}}
    costs, study = found(graph, feed={"x": 3.0}, fetch="out:0")
    cost = costs.of("twice", TYPES)
    assert cost is not None
    assert cost.here is not None
    assert cost.runs == 6  # 3, 6, ..., 96
    assert cost.here.seconds == pytest.approx(seconds_by_node(study)["twice"])
    assert cost.bytes == 6 * 3 * 4
    # elsewhere its input comes in each turn
    (cpu,) = (place for place in cost.elsewhere if place.device.endswith("CPU:0"))
    (transfer,) = cpu.transfers
    assert transfer.bytes == 6 * 4
    assert transfer.seconds == pytest.approx(6 * cpu_copy(study))


def cpu_copy(study: TimeStudy) -> float:
    """Seconds of a number from a GPU to the host, alone."""
    (link,) = (link for link in study.links if link.name == "GPU:0 PCIe out")
    return link.latency + 4 / link.bandwidth


def test_a_tensor_that_is_read_twice_comes_once() -> None:
    nodes = [
        {"op": "Placeholder", "name": "a", "dtype": "float32", "shape": [4]},
        {"op": "Const", "name": "b", "value": [1.0, 2.0, 3.0, 4.0], "device": "/cpu:0"},
        {"op": "AddN", "name": "n", "inputs": ["a", "a", "b", "a"], "device": "/gpu:0"},
    ]
    costs, _ = found({"devices": {"cpu": 1, "gpu": 1}, "nodes": nodes, "fetch": ["n"]})
    assert [(transfer.tensor, transfer.bytes) for transfer in on(costs, "n", "GPU:0").transfers] == [("a", 16), ("b", 16)]


@pytest.mark.slow
def test_the_last_step_that_runs_a_node_counts() -> None:
    costs, _ = found(TOWERS)
    initializer, trained = costs.of("conv1/weights/Assign", TYPES), costs.of("tower/conv1", TYPES)
    assert initializer is not None
    assert trained is not None
    assert (initializer.step, trained.step) == (0, 1)
    assert costs.of("no such node", TYPES) is None
