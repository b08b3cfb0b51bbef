"""Cuts of orders of layers: a chain of layers forth and back, with a gradient of each layer's weights."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from placesim.planning.methods.layer_splits import layer_splits, split_layers
from placesim.planning.problem import PlanningProblem, ProblemDevice, ProblemTask
from placesim.planning.schedules import SimulatedSchedule
from placesim.planning.search_budget import Search
from tests.planning.test_dispatch import problem_of

LAYERS = 6
DEVICES = (ProblemDevice("GPU:0", 0), ProblemDevice("GPU:1", 0), ProblemDevice("CPU:0", 1, pays=False))


def training(layers: int = LAYERS) -> PlanningProblem:
    """Layer n is task n, the gradient of its output is task 2 * layers - 1 - n, and that of its weights 2 * layers + n."""
    back = [2 * layers - 1 - n for n in range(layers)]
    inputs: list[tuple[int, ...]] = [(n - 1,) if n else () for n in range(2 * layers)]
    inputs += [(back[n], n) for n in range(layers)]
    tasks = [ProblemTask(f"t{n}", (1.0, math.inf), makes=0.01, launches=(0.0, 0.0), cores=(1, 1)) for n in range(3 * layers)]
    return replace(problem_of(tasks, inputs), devices=DEVICES)


def test_cuts_give_each_gpu_consecutive_layers() -> None:
    problem = training()
    splits = list(layer_splits(problem))
    assert len(set(splits)) == len(splits) > 5
    for devices in splits:
        assert set(devices) == {0, 1}
    # in an order by distance from the nearest end, a layer and the gradient of its output share a device
    halves = [devices for devices in splits if devices[:LAYERS] == devices[LAYERS : 2 * LAYERS][::-1]]
    assert halves
    assert all(list(devices[:LAYERS]) == sorted(devices[:LAYERS]) for devices in halves)


def test_groups_that_cannot_run_on_a_gpu_stay_where_they_can() -> None:
    problem = training()
    tasks = (problem.tasks[0]._replace(seconds=(math.inf, 1.0)), *problem.tasks[1:])
    assert {devices[0] for devices in layer_splits(replace(problem, tasks=tasks))} == {2}


def test_one_gpu_has_no_cuts() -> None:
    assert not list(layer_splits(replace(training(), devices=(DEVICES[0], *(row._replace(pays=False) for row in DEVICES[1:])))))


def test_the_best_cut_is_faster_than_one_gpu_and_starts_are_only_replaced_by_better_plans() -> None:
    problem = training()
    alone = SimulatedSchedule(problem).plan([0] * len(problem.tasks))
    plans = list(split_layers(problem, Search()))
    values = [plan.value for plan in plans]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.9 * alone.value
    assert values[-1] == pytest.approx(min(map(SimulatedSchedule(problem).seconds, layer_splits(problem))))
    assert not list(split_layers(problem, Search(start=plans[-1])))
    assert not list(split_layers(problem, Search(evaluations=0)))
    assert not list(split_layers(replace(problem, layout=None), Search()))
