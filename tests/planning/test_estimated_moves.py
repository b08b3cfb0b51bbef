"""Estimates of many assignments beside their simulations, and the search that draws moves from them."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from placesim.planning import schedule_estimates
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.methods.estimated_moves import EstimatedMoves
from placesim.planning.methods.local_search import anneal_moves
from placesim.planning.problem import PlanningProblem, ProblemTask
from placesim.planning.schedule_estimates import ScheduleEstimates
from placesim.planning.schedules import SimulatedSchedule
from placesim.planning.search_budget import Search
from tests.planning.problems import assignments
from tests.planning.test_dispatch import drawn, problem_of


def order_of(problem: PlanningProblem, devices: tuple[int, ...]) -> list[int]:
    """The tasks in the order in which they start in the simulation of an assignment."""
    starts, rank = SimulatedSchedule(problem).plan(devices).starts, {task: n for n, task in enumerate(problem.order)}
    return sorted(range(len(starts)), key=lambda task: (starts[task], rank[task]))


def test_an_estimate_in_the_order_of_the_simulation_is_close_to_it() -> None:
    exact = close = 0
    for seed in range(40):
        problem, draw = drawn(seed, 12), random.Random(seed)
        devices = tuple(draw.randrange(3) for _ in problem.tasks)
        found = float(ScheduleEstimates(problem).seconds(np.array([devices]).T, order_of(problem, devices))[0])
        seconds = SimulatedSchedule(problem).seconds(devices)
        exact += found == pytest.approx(seconds, rel=1e-9)
        close += found == pytest.approx(seconds, rel=0.1)
    assert exact >= 20
    assert close >= 32


def test_columns_are_estimated_as_each_alone_and_a_wait_leaves_a_gap_for_others() -> None:
    problem = drawn(3, 10)
    every = np.array([[draw.randrange(3) for _ in range(10)] for draw in map(random.Random, range(16))]).T
    estimates, order = ScheduleEstimates(problem), list(problem.order)
    together = estimates.seconds(every, order)
    assert together.tolist() == [float(estimates.seconds(every[:, [n]], order)[0]) for n in range(16)]
    # the third task waits on y for 0.25 + 9 s of transfer after 3 s; the fourth comes later in the order, and runs before
    rows = [("a", 2.0, 9.0), ("b", 1.0, 0.0), ("c", 1.0, 0.0), ("d", 4.0, 0.0)]
    tasks = [ProblemTask(name, (took, 9.0), makes=size, launches=(1.0, 0.0), cores=(1, 1)) for name, took, size in rows]
    waiting = problem_of(tasks, [(), (), (0,), ()])
    assert ScheduleEstimates(waiting).seconds(np.array([[0, 1, 1, 1]]).T, [0, 1, 2, 3])[0] == 3 + 9.25 + 1 + 1
    assert SimulatedSchedule(waiting).seconds((0, 1, 1, 1)) == 3 + 9.25 + 1 + 1


@pytest.mark.parametrize(("groups", "total"), [(((0, 1), (2,)), 10.0), (((0,), (1,), (2,)), 10.004)])
def test_a_short_task_without_inputs_takes_no_time_unless_it_may_be_sent(groups: tuple[tuple[int, ...]], total: float) -> None:
    tasks = [ProblemTask(f"t{n}", (took, took), launches=(0.0, 0.0), cores=(1, 1)) for n, took in enumerate((0.004, 4.0, 6.0))]
    problem = replace(problem_of(tasks, [(), (0,), (1,)]), groups=groups)
    assert ScheduleEstimates(problem).seconds(np.array([[0, 0, 0]]).T, [0, 1, 2]).tolist() == pytest.approx([total])
    with mock.patch.object(schedule_estimates, "SHORT", 1e-4):
        assert ScheduleEstimates(problem).seconds(np.array([[0, 0, 0]]).T, [0, 1, 2]).tolist() == pytest.approx([10.004])


def test_critical_tasks_are_those_that_the_end_waits_for() -> None:
    tasks = [ProblemTask(f"t{n}", (took, 9.0), launches=(0.5, 0.0), cores=(1, 1)) for n, took in enumerate((4.0, 1.0, 2.0))]
    plan, critical = SimulatedSchedule(problem_of(tasks, [(), (), (0, 1)])).critical_tasks((0, 1, 0))
    assert (plan.value, critical) == (0.5 + 4 + 2, [0, 2])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_moves_lead_to_the_best_of_all_placements_within_memory_and_apart(seed: int) -> None:
    problem = replace(drawn(seed, 6), apart=((0, 1),))
    tasks = tuple(task._replace(holds=1.0) for task in problem.tasks)
    devices = tuple(device._replace(capacity=3.0) for device in problem.devices[:2])
    problem = replace(problem, tasks=tasks, devices=(*devices, problem.devices[2]))
    simulated = SimulatedSchedule(problem)
    values = {found: simulated.seconds(found) for found in assignments(problem)}
    start = simulated.plan(max(values.items(), key=lambda row: row[1])[0])
    search = Search(seed, evaluations=1000)
    plans = list(EstimatedMoves(problem, search).plans(start))
    assert plans[-1].value == pytest.approx(min(values.values()))
    assert [plan.value for plan in plans] == sorted((plan.value for plan in plans), reverse=True)
    assert all(not find_overfull_devices(problem, plan.devices) and plan.devices in values for plan in plans)
    # a plan that the bound meets is not improved, and few tasks are annealed, too
    assert list(EstimatedMoves(problem, Search(target=start.value)).plans(start)) == []
    found = list(anneal_moves(problem, Search(seed, evaluations=1000, start=start)))
    assert found[-1].value == pytest.approx(min(values.values()))
