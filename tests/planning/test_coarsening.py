"""Clusters of tasks, and the problems that they are, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from placesim.planning import coarsening
from placesim.planning.coarsening import clusterings, coarsen, coarsen_levels, join_groups
from placesim.planning.problem import Objective, PlanningProblem, ProblemDevice, ProblemTask, ProblemTensor

# a chain, a fork of two with sources of their own, and what joins them:
#   0 - 1 - 2 - 3 - 5
#           |   4 - 6 - 7 (reads 5 and 6; 4 is a source of 6 beside 2)
INPUTS = ((), (0,), (1,), (2,), (), (3,), (2, 4), (5, 6))


def problem_of(
    seconds: Sequence[Sequence[float]] = ((1.0, 2.0),) * 8,
    inputs: Sequence[tuple[int, ...]] = INPUTS,
    groups: tuple[tuple[int, ...], ...] = (),
) -> PlanningProblem:
    tasks = tuple(ProblemTask(f"t{n}", tuple(row), 1.0 + n, 0.5 + n) for n, row in enumerate(seconds))
    devices = (ProblemDevice("x", 0), ProblemDevice("y", 1))
    alone = tuple((n,) for n in range(len(tasks)))
    return PlanningProblem(Objective.MAKESPAN, tasks, tuple(inputs), groups or alone, devices)


def clusters(leaders: Sequence[int]) -> list[list[int]]:
    return [[task for task, own in enumerate(leaders) if own == leader] for leader in dict.fromkeys(leaders)]


def test_tasks_are_clustered_in_one_way_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarsening, "CUTS", (2, 3, 4))
    found = [clusters(leaders) for leaders in clusterings(problem_of())]
    assert found == [
        [[n] for n in range(8)],
        # 3 and 5 have nothing to wait for, while 7 reads two that read others: neither 5 nor 6 joins it
        [[0, 1, 2], [3, 5], [4, 6], [7]],
        [[0, 1, 2], [3, 4, 5, 6, 7]],
        # cuts into 1 and 1 half-sized runs; 4 are too many for eight tasks
        [[0, 1, 2, 3, 4, 5, 6, 7]],
        [[0, 1, 2, 3, 4, 5, 6, 7]],
    ]


def test_runs_of_an_order_have_about_the_same_work_and_few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [()] + [(n,) for n in range(9)]
    monkeypatch.setattr(coarsening, "CUTS", (4,))
    even = problem_of([(1.0, 2.0)] * 10, chain)
    assert clusters(list(clusterings(even))[-1]) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    # 15 s in two parts: the first is full at 7.5 s, the second has all that is left
    uneven = problem_of([(3.0, 9.0)] * 2 + [(1.0, 9.0), (8.0, 1.0)] + [(1.0, 9.0)] * 6, chain)
    assert clusters(list(clusterings(uneven))[-1]) == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9]]
    # what can't run on the same kinds of devices is never in one run
    mixed = problem_of([(1.0, 2.0)] * 5 + [(math.inf, 2.0)] + [(1.0, 2.0)] * 4, chain)
    assert clusters(list(clusterings(mixed))[-1]) == [[0, 1, 2, 3, 4], [5], [6, 7, 8, 9]]
    idle = problem_of([(0.0, 0.0)] * 10, chain)
    assert clusters(list(clusterings(idle))[-1]) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_a_chain_has_no_more_than_its_part_of_all_work() -> None:
    problem = problem_of([(1.0, 2.0)] * 6, [()] + [(n,) for n in range(5)])
    assert clusters(coarsening._join_chains(problem, 1)) == [[0, 1, 2, 3, 4, 5]]
    assert clusters(coarsening._join_chains(problem, 2)) == [[0, 1, 2], [3, 4, 5]]
    assert clusters(coarsening._join_chains(problem, 0)) == [[0, 1, 2, 3, 4, 5]]
    # a task counts with what it takes where it is fastest: 8 s in all, 4 s for each of two parts
    uneven = problem_of([(1.0, 2.0), (9.0, 1.0), (1.0, 9.0), (1.0, 9.0), (9.0, 3.0), (1.0, 2.0)], problem.inputs)
    assert clusters(coarsening._join_chains(uneven, 2)) == [[0, 1, 2, 3], [4, 5]]


def test_what_runs_elsewhere_joins_no_chain() -> None:
    problem = problem_of([(1.0, 2.0), (math.inf, 2.0), (math.inf, 3.0)], [(), (0,), (1,)])
    assert clusters(coarsening._join_chains(problem, 1)) == [[0], [1, 2]]


def test_a_cluster_takes_what_its_tasks_take_and_makes_what_leaves_it() -> None:
    problem = replace(
        problem_of(groups=((0,), (1,), (2, 4), (3,), (5,), (6,), (7,))),
        tensors=(ProblemTensor(3.0, 1, 5, ((2, 6), (3, 7), (2, 6))), ProblemTensor(2.0, 4, 1)),
        apart=((0, 6), (3, 4)),
    )
    found = coarsen(problem, 4)
    assert clusters(found.cluster_of) == [[0, 1, 2], [3, 5], [4, 6], [7]]
    coarse = found.problem
    assert [task.name for task in coarse.tasks] == ["t2", "t5", "t6", "t7"]
    assert [task.seconds for task in coarse.tasks] == [(3, 6), (2, 4), (2, 4), (1, 2)]
    assert [task.holds for task in coarse.tasks] == [1 + 2 + 3, 4 + 6, 5 + 7, 8]
    assert [task.makes for task in coarse.tasks] == [2.5, 5.5, 6.5, 0]
    assert coarse.inputs == ((), (0,), (0,), (1, 2))
    assert coarse.groups == ((0, 2), (1,), (3,))
    assert [(tensor.task, tensor.reads) for tensor in coarse.tensors] == [(0, ((0, 6), (1, 7))), (2, ())]
    # what must be apart and was joined is named twice
    assert coarse.apart == ((0, 2), (1, 1))
    assert found.expand((5, 6, 7, 8)) == (5, 5, 5, 6, 7, 6, 7, 8)
    assert found.contract((5, 9, 9, 6, 9, 9, 9, 8)) == (5, 6, 5, 8)


def test_a_cluster_is_launched_once_and_takes_no_less_than_its_launches() -> None:
    tasks = tuple(ProblemTask(f"t{n}", (1.0, 2.0), launches=(3.0, 0.5), cores=(n, 4 - n), is_backward=n != 1) for n in range(4))
    problem = replace(problem_of([(1.0, 2.0)] * 4, [(), (0,), (1,), (2,)]), tasks=tasks)
    (whole,) = coarsen(problem, 2).problem.tasks
    # the launches of all but the first go on while the device works
    assert whole.seconds == (max(4.0, 3 * 3.0), max(8.0, 3 * 0.5))
    assert (whole.launches, whole.cores, whole.is_backward) == ((3.0, 0.5), (3, 4), False)
    backward = replace(problem, tasks=tuple(task._replace(is_backward=True) for task in tasks))
    assert coarsen(backward, 2).problem.tasks[0].is_backward


def test_a_problem_is_made_as_coarse_as_asked() -> None:
    problem = problem_of()
    assert coarsen(problem, 8).problem is problem
    sizes = {most: len(coarsen(problem, most).problem.tasks) for most in (7, 4, 3, 2, 1)}
    # 7 and 4: chains of a third and a half of the work at most; 3 and 2: single readers; 1: one cut
    assert sizes == {7: 5, 4: 4, 3: 2, 2: 2, 1: 1}


def test_levels_are_chains_then_what_is_small_enough_then_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = problem_of([(1.0, 2.0)] * 12, [(n - 1,) if n % 6 else () for n in range(12)])
    assert [level.problem for level in coarsen_levels(chains, 4, 99)][-1] is chains
    monkeypatch.setattr(coarsening, "FEW", 11)
    assert [len(level.problem.tasks) for level in coarsen_levels(chains, 6, 12)] == [2, 4, 12]
    assert [len(level.problem.tasks) for level in coarsen_levels(chains, 6, 11)] == [2, 4]
    # the second level is left out where it is hardly finer than the first
    assert [len(level.problem.tasks) for level in coarsen_levels(chains, 3, 11)] == [2]
    monkeypatch.setattr(coarsening, "FEW", 12)
    assert [len(level.problem.tasks) for level in coarsen_levels(chains, 6, 11)] == [4]
    # what no device could hold, and what must be apart, is not planned as one
    small = tuple(device._replace(capacity=14.0) for device in chains.devices)
    assert [len(level.problem.tasks) for level in coarsen_levels(replace(chains, devices=small), 6, 11)] == [12]
    assert [len(level.problem.tasks) for level in coarsen_levels(replace(chains, apart=((0, 1),)), 6, 11)] == [12]


def test_groups_and_clusters_that_meet_are_one_unit() -> None:
    problem = problem_of([(1.0, 2.0)] * 6, [()] * 6, groups=((0, 3), (1,), (2, 5), (4,)))
    assert join_groups(problem, [0, 1, 1, 2, 3, 4]) == [0, 1, 1, 0, 2, 1]
    assert join_groups(problem_of([], []), []) == []
