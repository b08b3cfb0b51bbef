"""Plans short of memory: packings by shared tensors, and repairs, against their definitions and in whole plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.graphs.memory_repair import extend_assignment, lower_capacities, repair_peaks
from placesim.planning.graphs.plan_comparison import Aim
from placesim.planning.graphs.problem_building import GraphProblem, prefer_gpus
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.methods.memory_packing import pack_by_memory
from placesim.planning.peaks import Peaks
from placesim.planning.portfolio import Effort
from placesim.studies.plan_study import _Planner, study_plan

SIZE = 2048
LAYERS = 6
BYTES = SIZE * SIZE * 4


def chain(fraction: float = 1.0) -> dict[str, Any]:
    """A chain of products with one variable each, on two GPUs of which a session may use a fraction of the memory."""
    variables = [
        node
        for n in range(LAYERS)
        for node in (
            {"op": "VariableV2", "name": f"w{n}", "attrs": {"shape": [SIZE, SIZE], "dtype": "float32"}},
            {"op": "Fill", "name": f"zeros{n}", "inputs": [[SIZE, SIZE], 0.0]},
            {"op": "Assign", "name": f"set{n}", "inputs": [f"w{n}", f"zeros{n}"]},
        )
    ]
    products = [{"op": "MatMul", "name": f"y{n}", "inputs": [f"y{n - 1}" if n else "x", f"w{n}"]} for n in range(LAYERS)]
    feed = {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [16, SIZE]}
    return {
        "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
        "config": {"allow_soft_placement": True, "gpu_options": {"per_process_gpu_memory_fraction": fraction}},
        "nodes": [feed, *variables, *products],
        "run": [{"fetch": [f"^set{n}" for n in range(LAYERS)]}, {"fetch": [f"y{LAYERS - 1}"]}],
    }


def problems(graph: dict[str, Any]) -> tuple[GraphProblem, GraphProblem]:
    """The problem of a fast step, and that of the peaks of all steps."""
    options = make_options({})
    planner = _Planner(load(graph, None, options), options, "g", Effort(), ("*",), lambda planned: None, Aim())
    return planner._problem, planner._memory_problem()


def device_of(problem: GraphProblem, devices: Sequence[int], name: str) -> int:
    """The device of a node in an assignment."""
    rows = zip(problem.problem.groups, problem.groups, strict=True)
    return next(devices[tasks[0]] for tasks, group in rows if name in group.nodes)


def test_packings_keep_variables_with_their_initializers_and_have_lower_peaks() -> None:
    drawn, memory = problems(chain())
    packed = prefer_gpus(memory)
    plans = pack_by_memory(packed.problem)
    assert [plan.value for plan in plans] == sorted(plan.value for plan in plans)
    assert plans[0].value <= float(Peaks(packed.problem, memory.start).peaks.max()) - 2 * BYTES
    where = [
        [[device_of(packed, plan.devices, f"{kind}{n}") for n in range(LAYERS)] for kind in ("w", "zeros")] for plan in plans
    ]
    assert any(variables == initial and set(variables) == {1, 2} for variables, initial in where)
    # the initializers, which the step does not run, follow their variables
    planned = {name: memory.devices[2].name for group in drawn.groups for name in group.nodes}
    assert "zeros0" not in planned
    assert device_of(memory, extend_assignment(memory, planned), "zeros0") == 2


def test_a_repair_moves_tensors_with_their_readers_until_all_peaks_are_in_their_limits() -> None:
    drawn, memory = problems(chain())
    devices = tuple(
        device._replace(capacity=4.5 * BYTES) if number else device for number, device in enumerate(memory.problem.devices)
    )
    short = replace(memory, problem=replace(memory.problem, devices=devices))
    assert float(Peaks(short.problem, short.start).peaks[1]) > 4.5 * BYTES
    repaired = repair_peaks(drawn, short, short.start, 1.0, lambda: False)
    assert repaired is not None
    assert all(peak <= device.capacity for peak, device in zip(Peaks(short.problem, repaired).peaks, devices, strict=True))
    assert repair_peaks(drawn, short, short.start, 1.0, lambda: True) is None
    # where that does not help, later searches get lower capacities
    assert lower_capacities(drawn, short, drawn.start).problem.devices[1].capacity < drawn.problem.devices[1].capacity
    assert lower_capacities(drawn, memory, drawn.start).problem.devices == drawn.problem.devices
    # an assignment that fits can still be the start
    fitting = lower_capacities(drawn, short, drawn.start, drawn.start)
    assert not find_overfull_devices(fitting.problem, drawn.start)
    assert find_overfull_devices(lower_capacities(drawn, short, drawn.start).problem, drawn.start)


def test_a_step_that_is_too_large_for_one_gpu_gets_a_plan_on_two() -> None:
    options = make_options({})
    loaded = load(chain(fraction=5.5 * BYTES / 16e9), None, options)
    study = study_plan(loaded, options, "g", Effort(evaluations=20, jobs=1), ("*",))
    assert not next(placed for placed in study.placements if placed.label == "TensorFlow's default").fits
    assert study.plan is not None
    assert study.plan.study is not None
    assert {run.device[-5:] for run in study.plan.study.nodes} >= {"GPU:0", "GPU:1"}
