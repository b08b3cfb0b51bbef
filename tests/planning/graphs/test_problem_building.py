"""A small step as a planning problem, task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from placesim.core.errors import UsageError
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.machine.timelines.workload import Cores, SerialStream
from placesim.planning.graphs.assignments import assignment_of, planned_devices
from placesim.planning.graphs.baselines import named_baselines, round_robin
from placesim.planning.graphs.plan_comparison import PlanMeasure
from placesim.planning.graphs.problem_building import (
    GraphProblem,
    NodeGroup,
    ProblemRequest,
    build_problem,
    keep_apart,
    relax_capacities,
)
from placesim.planning.problem import UNSURE, DeviceLink, Objective, PlanningProblem, ProblemDevice, ProblemTask
from placesim.prediction.hosts import DISPATCH_SECONDS, LAUNCH_SECONDS
from placesim.studies.time_study import dry_run_steps

SIZE = 64 * 64 * 4
GRAPH: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": {"count": 1, "model": "Tesla V100-SXM2-16GB"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64, 64]},
        {"variable": "v", "shape": [64, 64], "initializer": "zeros"},
        {"initializer": "init"},
        {"op": "MatMul", "name": "a", "inputs": ["x", "v"]},
        {"op": "Shape", "name": "s", "inputs": ["a"]},
        {"op": "Neg", "name": "b", "inputs": ["a", "^s"]},
        {"op": "AsString", "name": "t", "inputs": ["b"]},
        {"op": "NoOp", "name": "w", "inputs": ["^b"]},
        {"op": "Reshape", "name": "gradients_1/r", "inputs": ["b", "s"]},
        {"op": "Neg", "name": "q", "inputs": ["gradients_1/r", "^w"]},
    ],
    "run": [{"fetch": ["init"]}, {"fetch": ["q", "t"]}],
}
X, OUT, TEXT = "_arg_x_0_0", "_retval_q_0_0", "_retval_t_0_1"
CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0"))


def drawn(
    sought: PlanMeasure = PlanMeasure.LATENCY, peak: float = 1e9, *, contiguous: bool = False, graph: Mapping[str, Any] = GRAPH
) -> GraphProblem:
    options = make_options({})
    loaded = load(graph, None, options)
    assert loaded.file is not None
    walked = dry_run_steps(load(graph, None, options), options)
    wanted = ProblemRequest(sought, peak, contiguous)
    return build_problem(loaded.file.graph, walked.prepared[-1], walked.steps[-1], walked.machine, wanted)


def by_name(found: GraphProblem) -> dict[str, ProblemTask]:
    """Tasks; what only says that another has ended stands behind those with names of their own."""
    return {task.name: task for task in reversed(found.problem.tasks)}


def test_tasks_hold_make_and_send_what_their_nodes_do() -> None:
    found = drawn()
    tasks = by_name(found)
    assert {name: (task.makes, task.sends) for name, task in tasks.items()} == {
        X: (SIZE, SIZE), "v": (SIZE, SIZE), "v/read": (SIZE, SIZE), "a": (SIZE, SIZE),
        # a shape is in the host's memory; b is read whole, and waited for; t is a text
        "s": (8, UNSURE), "b": (SIZE, UNSURE), "t": (0, UNSURE), "w": (0, UNSURE),
        "gradients_1/r": (SIZE, SIZE), "q": (SIZE, SIZE), OUT: (0, UNSURE), TEXT: (0, UNSURE),
    }  # fmt: skip
    # a variable is held, and what the step makes counts as a whole where all of it was there at once
    assert {name: task.holds for name, task in tasks.items()} == {
        name: task.makes + (SIZE if name == "v" else 0) for name, task in tasks.items()
    }
    made = math.fsum(task.makes for task in tasks.values())
    half = by_name(drawn(peak=SIZE + made / 2))
    assert half["a"].holds == pytest.approx(SIZE / 2)
    assert half["v"].holds == pytest.approx(SIZE * 1.5)
    assert by_name(drawn(peak=0.0))["v"].holds == SIZE


def test_tasks_take_their_times_by_kind_of_device() -> None:
    tasks = by_name(drawn())
    assert tasks["s"].seconds == (DISPATCH_SECONDS, 0.0)
    assert (tasks["s"].launches, tasks["a"].launches) == ((0.0, DISPATCH_SECONDS), (0.0, LAUNCH_SECONDS))
    assert all(math.isinf(tasks[name].seconds[1]) for name in (X, "t", OUT, TEXT))
    assert all(math.isfinite(tasks[name].seconds[1]) for name in ("v", "a", "b", "w", "q"))
    assert tasks["a"].path == tasks["a"].work == tasks["a"].seconds
    assert not any(task.is_divided for task in tasks.values())
    loads = by_name(drawn(PlanMeasure.THROUGHPUT))
    assert {name: task.seconds for name, task in loads.items()} == {name: task.seconds for name, task in tasks.items()}
    assert all(task.launches == task.cores == task.path == task.work == () for task in loads.values())


def test_what_a_gpu_leaves_to_its_host_is_no_work_of_the_gpu() -> None:
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "int32", "shape": [4000]},
        {"op": "Add", "name": "a", "inputs": ["x", "x"]},
        {"op": "Cast", "name": "c", "inputs": ["a"], "attrs": {"DstT": "float"}},
    ]
    tasks = by_name(drawn(graph={**GRAPH, "nodes": nodes, "run": [{"fetch": ["c"]}]}))
    on_host, on_gpu = tasks["a"], tasks["c"]
    assert (on_host.runs_on_host, on_gpu.runs_on_host) == (True, False)
    assert on_host.seconds[1] > on_host.work[1] == 0
    assert on_host.work[0] == on_host.seconds[0]
    assert on_gpu.work == on_gpu.seconds


def test_what_is_only_waited_for_sends_a_signal() -> None:
    found = drawn().problem
    numbers = {task.name: number for number, task in reversed(list(enumerate(found.tasks)))}
    signals = [number for number, task in enumerate(found.tasks) if number != numbers[task.name]]
    assert [found.tasks[number].name for number in signals] == ["s", "b"]
    for number in signals:
        signal = found.tasks[number]
        assert found.inputs[number] == (numbers[signal.name],)
        assert found.group_of[number] == found.group_of[numbers[signal.name]]
        assert signal == ProblemTask(
            signal.name, (0.0, 0.0), launches=(0.0, 0.0), cores=(1, 1), path=(0.0, 0.0), work=(0.0, 0.0), sends=UNSURE
        )
    names = {number: task.name + "'s end" * (number in signals) for number, task in enumerate(found.tasks)}
    inputs = {names[number]: {names[source] for source in sources} for number, sources in enumerate(found.inputs)}
    assert inputs["b"] == {"a", "s's end"}
    # w makes nothing, so that nothing but a message is moved for it anyway
    assert (inputs["w"], inputs["q"], inputs["gradients_1/r"]) == ({"b's end"}, {"gradients_1/r", "w"}, {"b", "s"})
    loads = drawn(PlanMeasure.THROUGHPUT).problem
    assert loads.tasks[-1] == ProblemTask("b", (0.0, 0.0), sends=UNSURE)


def test_groups_are_the_placers_and_what_can_not_be_annotated_stays() -> None:
    found = drawn()
    tasks = found.problem.tasks
    members = [{tasks[task].name for task in group} for group in found.problem.groups]
    # in the order of the graph that the session runs, which has arguments and results at its end
    assert members == [{"v", "v/read"}, {"a"}, {"s"}, {"b"}, {"t"}, {"w"}, {"gradients_1/r"}, {"q"}, {X, OUT, TEXT}]
    assert [group.choices for group in found.groups] == [*[(0, 1)] * 4, (0,), *[(0, 1)] * 3, (0,)]
    assert (found.groups[4], found.groups[8]) == (NodeGroup(("t",), (0,)), NodeGroup((), (0,)))
    assert "v/Assign" in found.groups[0].nodes
    on_cpu = {X, OUT, TEXT, "t"}
    assert [found.start[number] for number in range(len(tasks))] == [int(task.name not in on_cpu) for task in tasks]


def test_the_machine_is_that_of_the_simulation() -> None:
    found = drawn().problem
    assert found.objective is Objective.MAKESPAN
    assert [(device.name, device.kind, device.pays, device.slots) for device in found.devices] == [
        (CPU, 0, False, 1), (GPU, 1, True, 1)
    ]  # fmt: skip
    assert found.devices[0].capacity == math.inf
    assert 15e9 < found.devices[1].capacity < 16e9
    assert found.layout is not None
    assert isinstance(found.layout.resources[0], Cores)
    assert isinstance(found.layout.resources[1], SerialStream)
    assert (found.layout.places, found.ways) == ((0, 1), None)
    ((here, there), (back, _)) = found.layout.routes
    assert (here, there, back) == (((), ()), ((0,), (2,)), ((1,), (3,)))
    loads = drawn(PlanMeasure.THROUGHPUT).problem
    assert (loads.objective, loads.layout) == (Objective.LOAD, None)
    link = found.layout.links[0]
    way = DeviceLink(link.latency, 1 / link.bandwidth)
    assert loads.ways == ((DeviceLink(0.0, 0.0), way), (way, DeviceLink(0.0, 0.0)))


def test_gradients_what_reads_them_and_what_can_not_move_need_not_be_contiguous() -> None:
    found = drawn(contiguous=True)
    assert found.problem.needs_contiguous
    backward = {task.name for task in found.problem.tasks if task.is_backward}
    assert backward == {"gradients_1/r", "q", X, OUT, TEXT, "t"}
    assert not any(task.is_backward for task in drawn().problem.tasks)


def test_devices_of_a_kind_are_told_apart_where_a_group_may_not_be_on_all() -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 3, "model": "Tesla K80"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64]},
            {"op": "Neg", "name": "a", "inputs": ["x"], "device": "/gpu:1"},
            {"op": "Neg", "name": "b", "inputs": ["a"]},
        ],
        "fetch": ["b"],
    }
    found = drawn(graph=graph)
    assert [device.kind for device in found.problem.devices] == [0, 1, 2, 1]
    tasks = by_name(found)
    assert [math.isfinite(seconds) for seconds in tasks["a"].seconds] == [False, False, True]
    assert [math.isfinite(seconds) for seconds in tasks["a"].path] == [False, False, True]
    assert all(map(math.isfinite, tasks["b"].seconds))
    assert tasks["b"].seconds[1] == tasks["b"].seconds[2]
    plain = dict(named_baselines(found))
    where = {task.name: number for number, task in enumerate(found.problem.tasks)}
    assert {label: [devices[where[name]] for name in "ab"] for label, devices in plain.items()} == {
        "all on CPU:0": [2, 0], "all on GPU:0": [2, 1], "all on GPU:1": [2, 2], "round robin": [2, 2]
    }  # fmt: skip


def test_round_robin_goes_by_the_first_node_of_each_group() -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla K80"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64]},
            {"op": "Neg", "name": "a", "inputs": ["x"]},
            {"op": "Neg", "name": "b", "inputs": ["a"]},
            {"op": "Neg", "name": "c", "inputs": ["b"], "attrs": {"_class": ["loc:@a"]}},
        ],
        "fetch": ["c"],
    }
    found = drawn(graph=graph)
    devices = dict(zip((task.name for task in found.problem.tasks), round_robin(found), strict=True))
    assert [devices[name] for name in "abc"] == [1, 2, 1]


def test_an_assignment_is_what_its_nodes_ask_for() -> None:
    found = drawn()
    planned = planned_devices(found, found.start)
    assert {name: device for name, device in planned.items() if name in ("a", "t", "v/Assign")} == {
        "a": GPU, "t": CPU, "v/Assign": GPU
    }  # fmt: skip
    file = load(GRAPH, None, make_options({})).file
    assert file is not None
    assert assignment_of(found, file) == found.start
    for change, expected in ({"device": "/cpu:0"}, 0), ({"device": "/gpu:0"}, 1), ({"device": "/gpu:7"}, None):
        nodes = [node | change if node.get("name") == "a" else node for node in GRAPH["nodes"]]
        other = load(GRAPH | {"nodes": nodes}, None, make_options({})).file
        assert other is not None
        devices = assignment_of(found, other)
        number = next(number for number, task in enumerate(found.problem.tasks) if task.name == "a")
        assert (None if devices is None else devices[number]) == expected
    held = replace(found, groups=(found.groups[0], NodeGroup(("a",), (0,)), *found.groups[2:]))
    assert assignment_of(held, file) is None


def test_groups_whose_names_fit_a_pattern_are_kept_apart() -> None:
    found = drawn()
    assert keep_apart(found, ["[ab]", "v/*"], {}).problem.apart == ((1, 3), (0,))
    with pytest.raises(UsageError, match="no node matches --apart: got 'c', expected a node that the step runs"):
        keep_apart(found, ["a", "c"], {})


def test_what_has_room_nowhere_is_left_to_its_simulation() -> None:
    tasks = (ProblemTask("a", (1.0,), 3.0), ProblemTask("b", (1.0,), 9.0), ProblemTask("c", (1.0,), 8.0))
    devices = (ProblemDevice("x", 0, 8.0), ProblemDevice("y", 0, 4.0))
    problem = PlanningProblem(Objective.LOAD, tasks, ((),) * 3, ((0, 1), (2,)), devices)
    groups = [NodeGroup(("a",), (0, 1)), NodeGroup(("c",), (0, 1))]
    relaxed = relax_capacities(problem, groups)
    assert [task.holds for task in relaxed.tasks] == pytest.approx([2, 6, 8])
    assert relaxed.held[0] < 8 == relaxed.held[1]
    narrow = relax_capacities(problem, [groups[0], NodeGroup(("c",), (1,))])
    assert narrow.tasks[2].holds == pytest.approx(4)


def test_labels_say_how_many_nodes_move_if_most_cannot() -> None:
    requests = ["/gpu:0", "/gpu:1", "/gpu:0", None]
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla K80"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64], "device": "/gpu:0"},
            *({"op": "Neg", "name": f"a{i}", "inputs": ["x"], "device": device} for i, device in enumerate(requests)),
            {"op": "AddN", "name": "y", "inputs": ["a0", "a1", "a2", "a3"], "device": "/gpu:0"},
        ],
        "fetch": ["y"],
    }
    labels = [label for label, _ in named_baselines(drawn(graph=graph))]
    assert labels == ["1 movable node on CPU:0", "1 movable node on GPU:0", "1 movable node on GPU:1", "round robin"]
