"""All placements of small graphs: the search measures what is simulated, bounds hold, and the plan is the best of all."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import UsageError
from placesim.formats.device_annotations import assign_devices
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.bounds import best_bound
from placesim.planning.graphs.all_placements import assignments_below, count_assignments, makespan_bounds
from placesim.planning.graphs.assignments import planned_devices
from placesim.planning.graphs.plan_annotations import annotate
from placesim.planning.graphs.plan_comparison import Aim, PlanMeasure
from placesim.planning.graphs.problem_building import GraphProblem, ProblemRequest, build_problem
from placesim.planning.objectives import measure
from placesim.planning.portfolio import Effort
from placesim.studies.plan_study import study_plan
from placesim.studies.time_study import dry_run_steps, study_time

OPTIONS = make_options({})
MODEL = "Tesla V100-SXM2-16GB"


def random_graph(seed: int, most: int = 8) -> dict[str, Any]:
    """Five to `most` nodes of one size on one or two GPUs."""
    draw = random.Random(seed)
    size = draw.choice([256, 512, 1024, 2048])
    nodes: list[dict[str, Any]] = []
    for number in range(draw.randint(5, most)):
        name, inputs = f"n{number}", [f"n{draw.randrange(number)}" for _ in range(2)] if number else []
        op = draw.choice(["MatMul", "MatMul", "AddV2", "Tanh", "Placeholder"]) if number else "Placeholder"
        match op:
            case "Placeholder":
                nodes.append({"op": op, "name": name, "dtype": "float32", "shape": [size, size]})
            case "Tanh":
                nodes.append({"op": op, "name": name, "inputs": inputs[:1]})
            case _:
                nodes.append({"op": op, "name": name, "inputs": inputs})
    read = {name for node in nodes for name in node.get("inputs", ())}
    fetch = [node["name"] for node in nodes if node["name"] not in read]
    return {"devices": {"cpu": 1, "gpu": {"count": draw.randint(1, 2), "model": MODEL}}, "nodes": nodes, "fetch": fetch}


def shape_graph() -> dict[str, Any]:
    """Nodes that have shapes and indices in host memory on a GPU, which readers on other devices take from there."""
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [512, 256]},
        {"op": "Tanh", "name": "y", "inputs": ["x"]},
        {"op": "Shape", "name": "dims", "inputs": ["y"]},
        {"op": "AddV2", "name": "twice", "inputs": ["dims", "dims"]},
        {"op": "Fill", "name": "filled", "inputs": ["twice", 1.0]},
        {"op": "Sum", "name": "total", "inputs": ["filled", [0, 1]]},
        {"op": "Mul", "name": "scaled", "inputs": ["y", "total"]},
    ]
    return {"devices": {"cpu": 1, "gpu": {"count": 2, "model": MODEL}}, "nodes": nodes, "fetch": ["scaled", "twice"]}


class Small:
    """A small graph with its planning problem, and the step time of any assignment."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.loaded = load(graph, None, OPTIONS)
        assert self.loaded.file is not None
        self.file = self.loaded.file
        walked = dry_run_steps(self.loaded, OPTIONS)
        request = ProblemRequest(PlanMeasure.LATENCY)
        self.drawn: GraphProblem = build_problem(
            self.file.graph, walked.prepared[-1], walked.steps[-1], walked.machine, request
        )

    def assignments(self) -> list[tuple[int, ...]]:
        problem = self.drawn.problem
        every = product(*(sorted(homes) for homes in problem.homes))
        return [tuple(chosen[group] for group in problem.group_of) for chosen in every]

    def simulated(self, devices: tuple[int, ...]) -> float:
        drawn = self.drawn
        asked = annotate(self.file, planned_devices(drawn, devices), drawn.device_set, soft=drawn.is_soft)
        loaded = replace(self.loaded, file=assign_devices(self.file, asked))
        return study_time(loaded, OPTIONS, "g").step.seconds


@pytest.mark.parametrize("graph", [*map(random_graph, range(8)), shape_graph()])
def test_the_search_measures_what_is_simulated_and_no_bound_is_above_it(graph: dict[str, Any]) -> None:
    small = Small(graph)
    problem = small.drawn.problem
    found = small.assignments()
    assert len(found) == count_assignments(problem)
    chosen = random.Random(len(found)).sample(found, min(len(found), 12))
    seconds = [small.simulated(devices) for devices in chosen]
    assert [measure(problem).plan(devices).value for devices in chosen] == pytest.approx(seconds, rel=1e-12)
    bounds = makespan_bounds(problem, np.array(chosen).T)
    assert all(bound <= time * (1 + 1e-12) for bound, time in zip(bounds, seconds, strict=True))
    assert max(bounds / seconds) > 0.5


@pytest.mark.parametrize("second", ["/gpu:0", "/gpu:1"])
def test_bounds_of_a_step_with_collectives_hold_wherever_their_members_are(second: str) -> None:
    attrs = {"T": "float32", "reduction": "sum", "num_devices": 2, "shared_name": "s"}
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [512, 512]}]
    for name, device in (("a", "/gpu:0"), ("b", second)):
        nodes += [
            {"op": "MatMul", "name": name, "inputs": ["x", "x"], "device": device},
            {"op": "NcclAllReduce", "name": f"{name}/sum", "inputs": [name], "attrs": attrs, "device": device},
            {"op": "Tanh", "name": f"{name}/out", "inputs": [f"{name}/sum"], "device": device},
        ]
    graph = {"devices": {"cpu": 1, "gpu": {"count": 2, "model": MODEL}}, "nodes": nodes, "fetch": ["a/out", "b/out"]}
    assert study_plan(load(graph, None, OPTIONS), OPTIONS, "g", Effort(evaluations=5, jobs=1)).plan is not None
    free = Small({**graph, "nodes": [{key: part for key, part in node.items() if key != "device"} for node in nodes]})
    found = random.Random(2).sample(free.assignments(), 12)
    seconds = [free.simulated(devices) for devices in found]
    bounds = makespan_bounds(free.drawn.problem, np.array(found).T)
    assert all(bound <= time * (1 + 1e-12) for bound, time in zip(bounds, seconds, strict=True))
    assert best_bound(free.drawn.problem).value <= min(seconds)


@pytest.mark.parametrize("seed", [2, 3, 5, 6])
def test_the_plan_of_a_small_graph_is_the_best_of_all_placements(seed: int) -> None:
    small = Small(random_graph(seed))
    best = min(map(measure(small.drawn.problem).plan, small.assignments()), key=lambda plan: plan.value)
    study = study_plan(small.loaded, OPTIONS, "g", Effort(evaluations=2000, jobs=1))
    assert study.is_optimal
    assert study.value == pytest.approx(best.value, rel=1e-6)
    assert study.value == pytest.approx(small.simulated(best.devices), rel=1e-6)
    asked = study_plan(small.loaded, OPTIONS, "g", Effort(evaluations=2000, jobs=1, method="exhaustive"))
    assert (asked.value, asked.is_optimal) == (study.value, True)
    with pytest.raises(UsageError, match=r"^wrong method: got 'exhaustive', expected another method for throughput$"):
        study_plan(small.loaded, OPTIONS, "g", Effort(method="exhaustive"), aim=Aim(PlanMeasure.THROUGHPUT))


def test_assignments_come_in_the_order_of_their_bounds() -> None:
    problem = Small(random_graph(0)).drawn.problem
    bounds = makespan_bounds(problem, np.array(Small(random_graph(0)).assignments()).T)
    limit = float(sorted(bounds)[len(bounds) // 2])  # an assignment with this bound is no better
    rows = list(assignments_below(problem, limit))
    assert [bound for bound, _ in rows] == sorted(bound for bound in bounds if bound < limit)
    assert len({devices for _, devices in rows}) == len(rows)
