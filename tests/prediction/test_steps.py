"""Simulated steps: what a walked step executed takes its time on the machine, by laws that hold whatever the figures are."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.formats.sources.loading import load
from placesim.machine.host_models import DEVIATIONS, FAMILIES, PROFILE_VERSION, SECONDS, SHARES
from placesim.machine.inventory import DeviceSet
from placesim.machine.options import make_options
from placesim.machine.timelines.event_simulation import simulate as run_tasks
from placesim.machine.timelines.workload import Task
from placesim.prediction.hosts import DISPATCH_SECONDS, LAUNCH_SECONDS
from placesim.prediction.machine_resources import SimulatedMachine, Threads
from placesim.prediction.node_shapes import KeptTensors
from placesim.prediction.step_tasks import StepCosts, workload
from placesim.prediction.time_breakdown import TimeStudy, folded_path, lane
from placesim.report.text.timing import time_document
from placesim.runtime.partitioning.partition import Partitions, partition
from placesim.runtime.partitioning.pruning import ClientGraph
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder
from placesim.runtime.sessions import session
from placesim.studies.simulation.simulation import SimulationStage, simulate
from placesim.studies.time_study import study_time
from tests.cli.shell import ROOT
from tests.examples import examples
from tests.runtime.executors.test_dataflow import cond, loop

Nodes = list[dict[str, Any]]
ONE_THREAD: dict[str, Any] = {"inter_op_threads": 1, "intra_op_threads": 1}


def study(source: Any, steps: int | None = None, *, tells_helps: bool = False, **values: Any) -> TimeStudy:
    options = make_options(values)
    return study_time(load(source, None, options), options, "graph", steps, tells_helps=tells_helps)


def recorded(source: Any, **values: Any) -> tuple[list[Execution], SimulatedMachine]:
    recorder, options = ExecutionRecorder(), make_options(values)
    report = simulate(load(source, None, options), options, SimulationStage.WALKED, tells_memory=True, recorder=recorder)
    assert report.error is None
    threads = Threads(options.inter_op_threads or 0, options.intra_op_threads or 0)
    return recorder.executions, SimulatedMachine(report.devices, threads)


def layers(inputs: Sequence[Sequence[int]], devices: Sequence[str]) -> dict[str, Any]:
    """A graph of sums over any earlier nodes, each on its device."""
    nodes: Nodes = [{"op": "Placeholder", "name": "n0", "dtype": "float32", "shape": [64, 512]}]
    for number, (sources, device) in enumerate(zip(inputs, devices, strict=True), 1):
        names = [f"n{source % number}" for source in sources]
        nodes.append({"op": "AddN", "name": f"n{number}", "inputs": names, "device": device})
    return {"nodes": nodes, "devices": {"cpu": 2, "gpu": 2}}


GRAPHS = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=3), min_size=1, max_size=12)


@given(GRAPHS)
@settings(max_examples=examples(15), deadline=None)
def test_on_one_device_with_one_thread_the_time_is_the_sum(inputs: list[list[int]]) -> None:
    found = study(layers(inputs, ["/cpu:0"] * len(inputs)), **ONE_THREAD)
    assert len(found.nodes) > len(inputs)
    assert found.step.seconds == pytest.approx(sum(node.seconds for node in found.nodes), rel=1e-9)


@given(GRAPHS, st.lists(st.sampled_from(["/cpu:0", "/cpu:1"]), min_size=12, max_size=12))
@settings(max_examples=examples(15), deadline=None)
def test_what_is_cut_between_the_cpus_of_a_task_takes_as_long_as_the_whole(inputs: list[list[int]], cut: list[str]) -> None:
    whole = study(layers(inputs, ["/cpu:0"] * len(inputs)), **ONE_THREAD)
    parts = study(layers(inputs, cut[: len(inputs)]), **ONE_THREAD)
    assert parts.step.seconds == pytest.approx(whole.step.seconds, rel=1e-9)
    assert parts.transfers == ()


@given(GRAPHS, st.lists(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"]), min_size=12, max_size=12))
@settings(max_examples=examples(15), deadline=None)
def test_every_bound_holds_and_the_interval_is_around_the_time(inputs: list[list[int]], devices: list[str]) -> None:
    found = study(layers(inputs, devices[: len(inputs)]))
    assert found.step.low <= found.step.seconds <= found.step.high
    assert {bound.kind for bound in found.bounds} == {"path", "resource", "link"}
    assert all(0 <= bound.seconds <= found.step.seconds * (1 + 1e-9) for bound in found.bounds)
    assert sum(part.end - part.start for part in found.critical_path) == pytest.approx(found.step.seconds, rel=1e-9)
    assert sum(part.seconds for part in folded_path(found, 2)) == pytest.approx(found.step.seconds, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar10-towers", "alexnet", "parallelism", "towers"])
def test_the_same_input_gives_the_same_report_and_bounds_hold(name: str) -> None:
    path = ROOT / "graphs" / f"{name}.yaml"
    found = study(path)
    assert time_document(found) == time_document(study(path))
    assert all(bound.seconds <= found.step.seconds * (1 + 1e-9) for bound in found.bounds)
    assert all(0 <= device.busy <= found.step.seconds * (1 + 1e-9) for device in found.devices)


@pytest.mark.parametrize("factor", [2, 8])
def test_all_rates_times_k_divide_the_time_by_k(factor: int) -> None:
    step, machine = recorded(ROOT / "graphs" / "cifar10-towers.yaml")
    placed = StepCosts(machine).placed(step)

    def seconds(k: int) -> float:
        tasks = [
            task._replace(seconds=task.seconds / k, launch=task.launch / k) if isinstance(task, Task) else task
            for task in workload(step, placed)
        ]
        links = [link._replace(bandwidth=link.bandwidth * k, latency=link.latency / k) for link in machine.links]
        return run_tasks(tasks, machine.resources, links).seconds

    assert seconds(factor) == pytest.approx(seconds(1) / factor, rel=1e-9)


def test_an_execution_waits_only_for_earlier_ones() -> None:
    for source in (ROOT / "graphs" / "cifar10-towers.yaml", {"nodes": loop("/gpu:0"), "devices": {"gpu": 1}}):
        values = {} if isinstance(source, dict) is False else {"feed": {"x": 3.0}, "fetch": "out:0"}
        step, _ = recorded(source, **values)
        assert all(number > max(execution.sources, default=-1) for number, execution in enumerate(step))


# --- control flow and functions -------------------------------------------------------------------------------------


def runs(found: TimeStudy) -> Counter[str]:
    return Counter(node.node for node in found.nodes)


@pytest.mark.parametrize("device", ["", "/cpu:1", "/gpu:0"])
@pytest.mark.parametrize(("x", "turns"), [(3.0, 6), (99.0, 1)])
def test_a_loop_costs_each_of_its_turns(device: str, x: float, turns: int) -> None:
    found = study({"nodes": loop(device), "devices": {"cpu": 2, "gpu": 1}}, feed={"x": x}, fetch="out:0")
    counted = runs(found)
    assert (counted["twice"], counted["less"], counted["el"]) == (turns, turns + 1, 1)
    spans = sorted((node.start, node.end) for node in found.nodes if node.node == "twice")
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


@pytest.mark.parametrize(("p", "taken", "left"), [(True, "twice", "more"), (False, "more", "twice")])
def test_a_branch_that_is_not_taken_costs_nothing(p: bool, taken: str, left: str) -> None:
    counted = runs(study({"nodes": cond(), "devices": {"cpu": 1}}, feed={"p": p, "x": 3.0}, fetch="m:0"))
    assert (counted[taken], counted[left]) == (1, 0)


def called(calls: int) -> dict[str, Any]:
    """A product, in a function that is called so often, each on what the one before gave."""
    body = [{"op": "MatMul", "name": "product", "inputs": ["a", "a"], "attrs": {"T": "float"}}]
    function = {
        "name": "F",
        "inputs": [{"name": "a", "type": "float"}],
        "outputs": [{"name": "o", "type": "float", "value": "product:product:0"}],
        "nodes": body,
    }
    nodes: Nodes = [{"op": "Placeholder", "name": "c0", "dtype": "float32", "shape": [256, 256]}]
    attrs = {"f": {"func": "F"}, "Tin": ["float"], "Tout": ["float"]}
    nodes += [
        {"op": "PartitionedCall", "name": f"c{n + 1}", "inputs": [f"c{n}"], "attrs": attrs, "device": "/cpu:0"}
        for n in range(calls)
    ]
    return {"functions": [function], "nodes": nodes, "devices": {"cpu": 1}, "fetch": [f"c{calls}"]}


def test_a_call_costs_its_body() -> None:
    found = study(called(3), **ONE_THREAD)
    products = [node for node in found.nodes if node.op == "MatMul"]
    assert len(products) == 3
    assert found.step.seconds == pytest.approx(sum(node.seconds for node in found.nodes), rel=1e-9)
    assert found.step.seconds > sum(node.seconds for node in products)
    assert all(one.end <= other.start for one, other in itertools.pairwise(products))


def test_on_a_gpu_what_reads_a_call_waits_for_the_streams_order_alone() -> None:
    """As many launches go ahead of the kernels as without a call."""
    whole = called(1)
    nodes: Nodes = [whole["nodes"][0], {"op": "MatMul", "name": "c1", "inputs": ["c0", "c0"], "device": "/gpu:0"}]
    plain: dict[str, Any] = {"nodes": nodes, "fetch": ["after3"]}
    whole["nodes"][1]["device"] = "/gpu:0"
    found = []
    for graph in (whole, plain):
        names = ["c1", *(f"after{n}" for n in range(4))]
        graph["nodes"] += [
            {"op": "MatMul", "name": name, "inputs": [given, given], "device": "/gpu:0"}
            for given, name in itertools.pairwise(names)
        ]
        found.append(study(graph | {"devices": {"cpu": 1, "gpu": 1}, "fetch": ["after3"]}))
    spans = [[(node.start, node.end) for node in one.nodes if node.op == "MatMul"] for one in found]
    for one in spans:
        assert len(one) == 5
        assert all(before[1] == pytest.approx(after[0], rel=1e-12) for before, after in itertools.pairwise(one))


def test_what_waits_for_a_queue_comes_after_what_fills_it() -> None:
    component = {"component_types": ["float32"]}
    nodes: Nodes = [
        {"op": "FIFOQueueV2", "name": "q", "attrs": component},
        {"op": "QueueDequeueV2", "name": "taken", "inputs": ["q"], "attrs": component},
        {"op": "Const", "name": "c", "dtype": "float32", "value": 2.5},
        {"op": "Neg", "name": "late", "inputs": ["c"]},
        {"op": "QueueEnqueueV2", "name": "put", "inputs": ["q", "late"], "attrs": {"Tcomponents": ["float32"]}},
    ]
    found = {node.node: node for node in study({"nodes": nodes, "fetch": ["taken", "put"]}).nodes}
    assert found["taken"].start >= found["put"].end


# --- devices and links ----------------------------------------------------------------------------------------------


def test_launching_takes_the_host_and_the_stream_goes_on_by_itself() -> None:
    chain = layers([[number] * 16 for number in range(4)], ["/gpu:0"] * 4)
    found = study(chain, **ONE_THREAD)
    kernels = [node for node in found.nodes if node.op == "AddN"]
    assert all(node.seconds > LAUNCH_SECONDS for node in kernels)
    # each launch but the first is over before the kernel ahead of it
    assert all(one.end == pytest.approx(other.start, rel=1e-12) for one, other in itertools.pairwise(kernels))


@pytest.mark.parametrize(("dtype", "stream"), [("float32", "GPU:0 compute"), ("int32", "host")])
def test_a_kernel_of_a_gpu_whose_outputs_are_in_host_memory_runs_on_the_host(dtype: str, stream: str) -> None:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "a", "dtype": dtype, "shape": [64]},
        {"op": "AddV2", "name": "sum", "inputs": ["a", "a"], "device": "/gpu:0"},
    ]
    found = study({"nodes": nodes, "devices": {"cpu": 1, "gpu": 1}, "fetch": ["sum:0"]})
    assert [node.stream for node in found.nodes if node.node == "sum"] == [stream]


def test_more_intra_op_threads_make_a_large_product_faster() -> None:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1024, 1024]},
        {"op": "MatMul", "name": "y", "inputs": ["x", "x"]},
    ]
    seconds = [study({"nodes": nodes, "fetch": ["y"]}, intra_op_threads=threads).step.seconds for threads in (1, 2, 4, 0)]
    assert sorted(seconds, reverse=True) == seconds
    assert seconds[0] > 3 * seconds[-1]


@pytest.mark.parametrize(("model", "link"), [("Tesla K80", "PCIe"), ("Tesla V100-SXM2-16GB", "NVLink")])
def test_gpus_reach_each_other_by_nvlink_where_they_have_it(model: str, link: str) -> None:
    found = study(layers([[0], [1]], ["/gpu:0", "/gpu:1"]), gpu_model=model)
    used = {one.name: one.bytes for one in found.links if one.bytes}
    size = 64 * 512 * 4
    assert used.pop(f"GPU:1 {link} in") == size
    assert f"GPU:0 {link} out" in used
    assert {run.sender[-5:] + run.receiver[-5:] for run in found.transfers} == {"CPU:0GPU:0", "GPU:0GPU:1", "GPU:1CPU:0"}


def test_host_memory_of_a_gpu_is_reached_without_a_copy() -> None:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64, 64]},
        {"op": "Shape", "name": "s", "inputs": ["x"], "device": "/gpu:0"},
        {"op": "Identity", "name": "y", "inputs": ["s"], "device": "/cpu:0"},
    ]
    found = study({"nodes": nodes, "devices": {"cpu": 1, "gpu": 1}, "fetch": ["y"]})
    assert [run.tensor for run in found.transfers] == ["_arg_x_0_0"]


def test_tasks_reach_each_other_by_the_network() -> None:
    machine = [{"job": "worker", "tasks": 2, "cpu": 1}]
    nodes: Nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1250, 1000], "device": "/task:0"},
        {"op": "Neg", "name": "y", "inputs": ["x"], "device": "/job:worker/task:1"},
    ]
    found = study({"nodes": nodes, "devices": machine, "fetch": ["y"]})
    assert [run.end - run.start for run in found.transfers] == pytest.approx([50e-6 + 5e6 / 1.25e9] * 2)


def test_dispatch_is_all_that_a_node_without_work_costs() -> None:
    found = study({"nodes": [{"op": "NoOp", "name": "n"}]})
    assert found.step.seconds == DISPATCH_SECONDS


# --- steps ----------------------------------------------------------------------------------------------------------


def test_steps_are_counted_and_walked_at_most_twice() -> None:
    path = ROOT / "graphs" / "cifar10-towers.yaml"
    once, often = study(path), study(path, steps=10**9)
    assert (once.step.repeat, often.step.repeat) == (4, 10**9)
    assert often.step.total_seconds == pytest.approx(10**9 * once.step.seconds)
    assert [row.number for row in often.steps] == [0, 1]


def test_a_walked_step_is_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a placeholder is fed that the step doesn't feed."""
    cut: list[ClientGraph] = []

    def counted(client: ClientGraph, devices: DeviceSet) -> Partitions:
        cut.append(client)
        return partition(client, devices)

    monkeypatch.setattr(session, "partition", counted)
    study(layers([[0], [1]], ["/gpu:0", "/gpu:1"]))
    assert len(cut) == 1


def test_a_first_step_that_differs_is_told_apart() -> None:
    nodes: Nodes = [
        {"variable": "v", "shape": [256, 256], "initializer": "zeros"},
        {"op": "IsVariableInitialized", "name": "p", "inputs": ["v"]},
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [256, 256]},
        {"op": "Switch", "name": "s", "inputs": ["x", "p"]},
        {"op": "MatMul", "name": "once", "inputs": ["s", "s"]},
        {"op": "Merge", "name": "m", "inputs": ["once", "s:1"]},
        {"op": "Assign", "name": "set", "inputs": ["v", "m"]},
    ]
    found = study({"nodes": nodes, "run": [{"fetch": ["set"], "repeat": 5}], "devices": {"cpu": 1}})
    assert found.step.first_seconds > 2 * found.step.seconds
    assert found.step.total_seconds == pytest.approx(found.step.first_seconds + 4 * found.step.seconds)


def test_a_lane_has_the_share_of_each_part() -> None:
    found = study(called(2), **ONE_THREAD)
    whole = lane(found, found.nodes[0].device, 7)
    assert whole == pytest.approx([1.0] * 7)
    empty = lane(replace(found, nodes=()), found.nodes[0].device, 3)
    assert empty == [0.0] * 3


# --- hosts ------------------------------------------------------------------------------------------------------------

FAMILY = {"factor": 1.25, "low": 0.5, "high": 2.0}
EXECUTORS = ("dispatch", "dataflow", "handed", "beside", "beside_direct", "shared", "contended_call")
OUTSIDE = ("step", "fed", "fetched", "variable", "cold_call")
"""What steps take beside their nodes, or nodes beside kernels and executors: nothing, unless a test asks for it."""


def profile_of(scale: float = 1.0, cores: int = 2) -> dict[str, Any]:
    """A host whose kernels take so many times as long; what its executors take stays."""
    names = (*SECONDS, *SHARES)
    seconds = {name: 1e-9 if name in EXECUTORS + SHARES else scale * 1e-9 for name in names}
    seconds |= dict.fromkeys(OUTSIDE, 0.0) | dict.fromkeys(DEVIATIONS, 1.0)
    profile = {
        "version": PROFILE_VERSION,
        "caches": [1e6, 1e8],
        "seconds": seconds,
        "families": dict.fromkeys(FAMILIES, FAMILY),
    }
    return {"devices": {"host": {"cores": cores, "profile": profile}}}


MIXED = {
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8, 32, 32, 16]},
        {"op": "Placeholder", "name": "w", "dtype": "float32", "shape": [3, 3, 16, 24]},
        {
            "op": "Conv2D",
            "name": "c",
            "inputs": ["x", "w"],
            "attrs": {"strides": [1, 1, 1, 1], "padding": "SAME"},
        },
        {"op": "Relu", "name": "r", "inputs": ["c"]},
        {
            "op": "MaxPool",
            "name": "p",
            "inputs": ["r"],
            "attrs": {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
        },
        {"op": "Reshape", "name": "flat", "inputs": ["p", [8, 6144]]},
        {"op": "MatMul", "name": "m", "inputs": ["flat", "flat"], "attrs": {"transpose_b": True}},
        {"op": "Softmax", "name": "s", "inputs": ["m"]},
    ],
    "devices": {"cpu": 1},
    "fetch": ["s:0"],
}


def seconds_by_node(found: TimeStudy) -> dict[str, float]:
    return {node.node: node.seconds for node in found.nodes}


def test_rates_of_a_profile_times_two_halve_kernels_and_leave_dispatch() -> None:
    slow, fast = (seconds_by_node(study(MIXED, profile=profile_of(scale, cores=1))) for scale in (2.0, 1.0))
    dispatched = {name for name in slow if slow[name] == 1e-9}
    assert {"flat", "x", "w"} & set(slow) <= dispatched
    assert {"c", "r", "p", "m", "s"} <= set(slow) - dispatched
    for name in slow:
        kernel = fast[name] - 1e-9
        assert slow[name] == pytest.approx(1e-9 + 2 * kernel)


def test_times_of_a_profile_are_not_assumed_and_have_its_interval() -> None:
    found = study(MIXED, profile=profile_of())
    assert not any(node.is_uncertain for node in found.nodes)
    assert not any("assumed to have" in line or "for each node" in line for line in found.assumptions)
    kernels = [node for node in found.nodes if node.node in ("c", "r", "p", "m", "s")]
    for node in kernels:
        assert (node.low, node.high) == pytest.approx(((node.seconds + 1e-9) / 2, 2 * node.seconds - 1e-9))


def test_another_core_helps_what_is_cut_into_parts() -> None:
    one, two = (seconds_by_node(study(MIXED, profile=profile_of(cores=cores))) for cores in (1, 2))
    assert one["c"] > 1.5 * two["c"]
    assert one["r"] == two["r"]


def with_threads(graph: dict[str, Any], threads: int) -> TimeStudy:
    return study(graph, profile=changed(profile_of(), dataflow=1e-6, handed=1e-4), inter_op_threads=threads)


def test_nodes_that_start_when_their_inputs_arrive_cost_more_and_those_alone_run_in_the_caller() -> None:
    straight, parallel = (seconds_by_node(with_threads(MIXED, threads)) for threads in (1, 2))
    assert parallel["flat"] == 1e-6
    for name in ("c", "r", "m"):
        assert parallel[name] - straight[name] == pytest.approx(1e-6 - 1e-9)


def products(count: int) -> dict[str, Any]:
    """Products of one matrix with itself, large enough for a pool, and small nodes beside them."""
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [128, 128]}]
    nodes += [{"op": "MatMul", "name": f"m{number}", "inputs": ["x", "x"]} for number in range(count)]
    nodes += [{"op": "Neg", "name": f"n{number}", "inputs": ["x"]} for number in range(2)]
    nodes.append({"op": "Pack", "name": "all", "inputs": [node["name"] for node in nodes[1:]]})
    return {"nodes": nodes, "devices": {"cpu": 1}, "fetch": ["all:0"]}


def test_nodes_in_a_pool_cost_more() -> None:
    straight, parallel = (seconds_by_node(with_threads(products(3), threads)) for threads in (1, 2))
    later = [parallel[f"m{number}"] - straight[f"m{number}"] for number in range(3)]
    assert later == pytest.approx([1e-4 + 1e-6 - 1e-9] * 3)


def test_one_product_alone_is_no_work_for_a_pool() -> None:
    straight, parallel = (with_threads(products(1), threads) for threads in (1, 2))
    assert seconds_by_node(parallel) == seconds_by_node(straight)
    assert parallel.step.seconds == pytest.approx(straight.step.seconds)


def test_products_in_a_function_are_no_work_for_a_pool() -> None:
    graph = called(2)
    (function,) = graph["functions"]
    function["nodes"] += [{"op": "MatMul", "name": f"p{i}", "inputs": ["a", "a"], "attrs": {"T": "float"}} for i in range(2)]
    total = {"op": "AddN", "name": "sum", "inputs": ["p0:product:0", "p1:product:0"], "attrs": {"N": 2, "T": "float"}}
    function["nodes"].append(total)
    function["outputs"][0]["value"] = "sum:sum:0"
    straight, parallel = (with_threads(graph, threads) for threads in (1, 2))
    assert seconds_by_node(parallel) == seconds_by_node(straight)
    assert parallel.step.seconds == pytest.approx(straight.step.seconds)


def test_small_nodes_run_one_after_another_beside_a_pool() -> None:
    found = with_threads(products(2), 2)
    one, other = (node for node in found.nodes if node.op == "Neg")
    assert one.end <= other.start or other.end <= one.start
    products_of = [node for node in found.nodes if node.op == "MatMul"]
    assert products_of[0].start < products_of[1].end
    assert products_of[1].start < products_of[0].end
    (device,) = found.devices
    assert device.busy == pytest.approx(found.step.seconds)


def test_a_host_that_takes_no_time_takes_none_in_the_calling_thread() -> None:
    profile = changed(profile_of(), dataflow=1e-6, handed=1e-4)
    found = study(products(3), profile=profile, inter_op_threads=2, tells_helps=True)
    assert [help_.seconds for help_ in found.helps if help_.kind == "resource"] == [0.0]


def test_a_host_is_not_busy_while_another_task_launches_nodes() -> None:
    nodes: list[dict[str, Any]] = [{"op": "Fill", "name": "n0", "inputs": [[64], 1.0], "device": "/task:0/cpu:0"}]
    nodes += [{"op": "Neg", "name": f"n{i}", "inputs": [f"n{i - 1}"], "device": "/task:1/gpu:0"} for i in range(1, 9)]
    machine = [{"job": "worker", "tasks": 2, "cpu": 1, "gpu": 1}]
    graph = {"nodes": nodes, "devices": machine, "fetch": ["n8:0"]}
    found = study(graph, profile=profile_of(), inter_op_threads=2)
    first = [node for node in found.nodes if "task:0" in node.device]
    busy = {device.device: device.busy for device in found.devices}
    assert busy["/job:worker/replica:0/task:0/device:CPU:0"] == pytest.approx(sum(node.seconds for node in first))


def test_the_time_in_a_pool_has_an_interval() -> None:
    profile = profile_of()
    profile["devices"]["host"]["profile"]["seconds"]["handed"] = {"seconds": 1.0, "spread": 0.25}
    found = {node.node: node for node in study(products(2), profile=profile, inter_op_threads=2).nodes}["m0"]
    assert (found.low, found.high) == pytest.approx((0.8, 1.25), rel=1e-2)


def changed(profile: dict[str, Any], **seconds: float) -> dict[str, Any]:
    profile["devices"]["host"]["profile"]["seconds"].update(seconds)
    return profile


def test_a_step_and_what_goes_in_and_out_cost_their_own() -> None:
    nodes = [
        {"op": "VarHandleOp", "name": "v", "attrs": {"dtype": "float32", "shape": [4]}},
        {"op": "Fill", "name": "zeros", "inputs": [[4], 0.0]},
        {"op": "AssignVariableOp", "name": "init", "inputs": ["v", "zeros"]},
        {"op": "ReadVariableOp", "name": "read", "inputs": ["v"], "attrs": {"dtype": "float32"}},
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [4]},
        {"op": "AddV2", "name": "y", "inputs": ["x", "read"]},
    ]
    graph = {"nodes": nodes, "devices": {"cpu": 1}, "run": [{"fetch": ["init"]}, {"fetch": ["y:0"]}]}

    def seconds(**figures: float) -> float:
        return study(graph, profile=changed(profile_of(cores=1), **figures)).step.seconds

    once = seconds()
    for name, count in {"step": 1, "fed": 1, "fetched": 1, "variable": 2}.items():
        assert seconds(**{name: 1e-3}) - once == pytest.approx(count * 1e-3)


def test_the_ends_of_functions_are_neither_fed_nor_fetched() -> None:
    def seconds(**figures: float) -> float:
        return study(called(3), profile=changed(profile_of(cores=1), **figures)).step.seconds

    once = seconds()
    assert seconds(fed=1e-3) - once == pytest.approx(1e-3)
    assert seconds(fetched=1e-3) - once == pytest.approx(1e-3)


def test_a_tensor_that_is_read_in_part_and_whole_counts_as_whole() -> None:
    table = {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1000, 64]}
    part = {"op": "GatherV2", "name": "part", "inputs": ["x", [0], 0]}
    whole = {"op": "Neg", "name": "whole", "inputs": ["x"]}

    def step_bytes(*readers: dict[str, Any]) -> int:
        graph = {"nodes": [table, *readers], "devices": {"cpu": 1}, "fetch": [f"{node['name']}:0" for node in readers]}
        return KeptTensors(recorded(graph)[0]).step_bytes

    assert step_bytes(part, whole) == step_bytes(whole, part) > 3 * 1000 * 64 * 4


def test_a_given_matrix_that_no_cache_holds_takes_longer_and_an_output_does_not() -> None:
    def seconds(count: int, *, is_made: bool) -> float:
        given = [{"op": "Placeholder", "name": f"w{i}", "dtype": "float32", "shape": [64, 64]} for i in range(count)]
        made = [{"op": "MatMul", "name": f"m{i}", "inputs": [f"w{i}", f"w{i}"]} for i in range(count)]
        last = {"op": "MatMul", "name": "last", "inputs": ["m0", "m0"] if is_made else ["w0", "w0"]}
        fetched = [f"{node['name']}:0" for node in (*made, last)]
        profile = changed(profile_of(), awaited=1e-6)
        profile["devices"]["host"]["profile"]["caches"] = [1e4, 4e5]
        graph = {"nodes": [*given, *made, last], "devices": {"cpu": 1}, "fetch": fetched}
        return seconds_by_node(study(graph, profile=profile))["last"]

    few, many = 2, 100  # of 16 KiB
    awaited = 2 * 64 * 64 * 4 * 1e-6 * FAMILY["factor"]
    assert seconds(many, is_made=False) - seconds(few, is_made=False) == pytest.approx(awaited, rel=0.05)
    assert seconds(many, is_made=True) == pytest.approx(seconds(few, is_made=True), rel=1e-3)


def test_calls_in_a_step_whose_data_displaces_the_code_take_longer() -> None:
    def seconds(rows: int, **figures: float) -> float:
        nodes = [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8, 8]},
            {"op": "Placeholder", "name": "large", "dtype": "float32", "shape": [rows, 1000]},
            {"op": "Neg", "name": "y", "inputs": ["x"]},
            {"op": "Neg", "name": "z", "inputs": ["large"]},
        ]
        graph = {"nodes": nodes, "devices": {"cpu": 1}, "fetch": ["y:0", "z:0"]}
        return seconds_by_node(study(graph, profile=changed(profile_of(), **figures)))["y"]

    extra = [seconds(rows, cold_call=1e-3) - seconds(rows) for rows in (1, 100_000)]
    assert extra[0] < 1e-8
    assert extra[1] == pytest.approx(FAMILY["factor"] * 1e-3, rel=1e-3)


def test_a_host_of_the_inventory_is_taken_at_its_figures() -> None:
    host = {"cores": 4, "flops": 4e11, "bandwidth": 4e10, "dispatch": 2e-6}
    known = study({**MIXED, "devices": {"cpu": 1, "host": host}})
    assert not any(node.is_uncertain for node in known.nodes)
    assert not any("assumed to" in line for line in known.assumptions)
    assert seconds_by_node(known)["flat"] == 2e-6
    partly = study({**MIXED, "devices": {"cpu": 1, "host": {"cores": 4}}})
    assert all(node.is_uncertain for node in partly.nodes)
    assert any("assumed to have 4 cores" in line for line in partly.assumptions)


def test_a_profile_gives_the_figures_of_a_gpu() -> None:
    graph = {**MIXED, "devices": {"cpu": 1, "gpu": {"count": 1, "model": "Tesla T4"}}}
    model = {"name": "Tesla T4", "flops": 1e13, "bandwidth": 1e12, "launch": 1e-5, "rates": {"float16": 5e13}}
    other = study(graph, profile=[{"devices": {"gpu": {"model": {**model, "name": "Acme"}}}}])
    assert seconds_by_node(other) == seconds_by_node(study(graph))
    slower = {**model, "bandwidth": 1e9}
    found = study(graph, profile=[profile_of(), {"devices": {"gpu": {"model": slower}}}])
    assert seconds_by_node(found)["r"] > 100 * seconds_by_node(other)["r"]
    assert all(node.seconds >= 1e-5 for node in found.nodes if node.node in ("c", "r", "m") and "GPU" in node.device)
    assert not any("launch" in line for line in study(graph, profile={"devices": {"host": {"launch": 1e-5}}}).assumptions)


@pytest.mark.parametrize(("dtype", "least", "most"), [("float64", 2.0, 4.0), ("int32", 10.0, 1e6)])
def test_a_measured_host_takes_longer_for_other_types(dtype: str, least: float, most: float) -> None:
    def seconds(name: str, multiplied: float) -> float:
        nodes = [
            {"op": "Placeholder", "name": "a", "dtype": name, "shape": [256, 256]},
            {"op": "MatMul", "name": "m", "inputs": ["a", "a"]},
        ]
        profile = changed(profile_of(cores=1), multiplied=multiplied)
        return seconds_by_node(study({"nodes": nodes, "devices": {"cpu": 1}, "fetch": ["m:0"]}, profile=profile))["m"]

    assert least < seconds(dtype, 1e-11) / seconds("float32", 1e-11) < most


def test_the_share_of_the_peak_is_that_of_the_data_sheet() -> None:
    product = {"op": "MatMul", "name": "y", "inputs": ["x", "x"], "device": "/gpu:0"}

    def seconds_each(model: str, dtype: str) -> float:
        x = {"op": "Placeholder", "name": "x", "dtype": dtype, "shape": [1024, 1024]}
        found = study({"devices": {"cpu": 1, "gpu": {"count": 1, "model": model}}, "nodes": [x, product], "fetch": ["y"]})
        (host, gpu), seconds = time_document(found)["devices"], found.step.seconds
        assert (host["operations"], host["mfu"], gpu["operations"]) == (0, 0.0, 2 * 1024**3)
        return float(gpu["mfu"]) * seconds / (2 * 1024**3)

    # peaks by the makers: Kepler's without the loss of its kernels; an A100 computes float32 as tf32
    for model, dtype, teraflops in (
        ("Tesla K80", "float32", 4.37),
        ("Tesla V100-SXM2-16GB", "float32", 15.7),
        ("Tesla V100-SXM2-16GB", "float16", 125.0),
        ("A100-SXM4-40GB", "float32", 156.0),
    ):
        assert seconds_each(model, dtype) == pytest.approx(1e-12 / teraflops, rel=0.01)
