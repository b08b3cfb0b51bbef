"""Searches of a drawn problem: what is allowed to start from, how effort is shared, and what is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from placesim.planning import coarsening
from placesim.planning.bounds import Bound
from placesim.planning.graphs import multilevel_search
from placesim.planning.graphs.moved_groups import find_moves
from placesim.planning.graphs.multilevel_search import (
    Candidate,
    has_room_for_all,
    meets_constraints,
    search_plans,
    share_effort,
    tighten_capacities,
)
from placesim.planning.graphs.plan_comparison import PLANNED, Aim, PlanMeasure, SimulatedPlacement
from placesim.planning.graphs.problem_building import GraphProblem, NodeGroup
from placesim.planning.objectives import measure
from placesim.planning.portfolio import Effort, PlanResult
from placesim.planning.problem import Objective, Plan, PlanningProblem, ProblemDevice, ProblemTask
from placesim.prediction.time_breakdown import DeviceTime, StepTime, TimeStudy
from tests.planning.graphs.test_problem_building import drawn

WHY = Bound(0.0, "why")


def problem_of(count: int = 6, capacity: float = math.inf) -> GraphProblem:
    """A chain on two devices that are alike, each task a node's."""
    tasks = tuple(ProblemTask(f"t{n}", (1.0 + n,), 1.0) for n in range(count))
    devices = (ProblemDevice("x", 0, capacity), ProblemDevice("y", 0, capacity))
    inputs = tuple((n - 1,) if n else () for n in range(count))
    groups = tuple((n,) for n in range(count))
    problem = PlanningProblem(Objective.LOAD, tasks, inputs, groups, devices)
    whole = drawn()
    nodes = tuple(NodeGroup((f"t{n}",), (0, 1)) for n in range(count))
    return replace(whole, problem=problem, groups=nodes, start=(0,) * count)


def searched(
    monkeypatch: pytest.MonkeyPatch,
    found: GraphProblem,
    known: tuple[tuple[int, ...], ...],
    answer: Callable[[PlanningProblem], PlanResult],
    aim: Aim | None = None,
) -> tuple[list[Candidate], PlanResult, list[tuple[PlanningProblem, Effort, Plan | None]], list[PlanResult]]:
    """A search whose plans are these; what each level was asked, and what was told."""
    asked: list[tuple[PlanningProblem, Effort, Plan | None]] = []
    told: list[PlanResult] = []

    def plan_problem(
        problem: PlanningProblem,
        effort: Effort,
        tell: Callable[[PlanResult], None],
        start: Plan | None = None,
        bound: Bound | None = None,
    ) -> PlanResult:
        asked.append((problem, effort, start))
        result = answer(problem)
        tell(result)
        return result

    monkeypatch.setattr(multilevel_search, "plan_problem", plan_problem)
    chosen = Aim(PlanMeasure.THROUGHPUT) if aim is None else aim
    candidates, planned = search_plans(found, known, Effort(9.0, evaluations=90), WHY, chosen, told.append)
    return candidates, planned, asked, told


def result(problem: PlanningProblem, devices: tuple[int, ...], bound: float = 0.0) -> PlanResult:
    return PlanResult(measure(problem).plan(devices), Bound(bound, f"of {len(problem.tasks)}"), "anneal", 1.0)


def test_each_level_begins_at_the_plan_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarsening, "FEW", 5)
    monkeypatch.setattr(multilevel_search, "MOST_TASKS", 4)
    found = problem_of()
    halves = {1: (1,), 3: (0, 0, 1), 6: (0, 0, 0, 0, 1, 1)}
    candidates, planned, asked, told = searched(
        monkeypatch, found, ((1,) * 6,), lambda problem: result(problem, halves[len(problem.tasks)], 7.0)
    )
    assert [len(problem.tasks) for problem, _, _ in asked] == [1, 3, 6]
    # a third of the effort each, and from the plan of clusters on
    assert {(effort.seconds, effort.evaluations) for _, effort, _ in asked} == {(3.0, 30)}
    starts = [None if start is None else start.devices for _, _, start in asked]
    assert starts[0] is None
    assert starts[1] == (1, 1, 1)
    # the first three tasks, the next two, and the last
    assert starts[2] == (0, 0, 0, 0, 0, 1)
    assert asked[2][2] == measure(found.problem).plan(starts[2])
    # what no plan of clusters can be below says nothing of the whole
    assert [one.bound for one in told] == [WHY, WHY, Bound(7.0, "of 6")]
    assert planned.bound == Bound(7.0, "of 6")
    # the best in the problem comes first
    expected = [halves[6], (0, 0, 0, 0, 0, 1), (1,) * 6]
    assert candidates == [Candidate(PLANNED, devices, "anneal") for devices in expected]


def test_a_known_placement_is_begun_at_where_it_is_better_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = problem_of(capacity=3.0)
    full, worse, better = (0,) * 6, (0, 1, 1, 0, 1, 0), (0, 0, 1, 0, 1, 1)
    values = {devices: measure(found.problem).plan(devices).value for devices in (worse, better)}

    def start_of(*known: tuple[int, ...], aim: Aim | None = None) -> tuple[int, ...] | None:
        _, _, asked, _ = searched(monkeypatch, found, known, lambda problem: result(problem, worse), aim)
        ((_, _, start),) = asked
        return None if start is None else start.devices

    best = min(values, key=values.__getitem__)
    assert start_of(full) is None
    assert start_of(full, worse, better) == best
    # no path may leave a device and come back
    aim = Aim(PlanMeasure.THROUGHPUT, needs_contiguous=True)
    assert start_of(worse, better, aim=aim) is None
    assert start_of(worse, (0, 0, 0, 1, 1, 1), aim=aim) == (0, 0, 0, 1, 1, 1)
    for many, start in ((6, worse), (5, None)):
        monkeypatch.setattr(multilevel_search, "MANY_TASKS", many)
        assert start_of(worse) == start


def test_an_interrupt_ends_the_search_and_nothing_found_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarsening, "FEW", 5)
    nothing = PlanResult(None, Bound(1.0, "w"), "", 0.0)
    candidates, planned, asked, _ = searched(monkeypatch, problem_of(), (), lambda problem: nothing)
    assert (candidates, planned.plan, len(asked)) == ([], None, 2)
    *_, asked, _ = searched(monkeypatch, problem_of(), (), lambda problem: nothing._replace(is_interrupted=True))
    assert len(asked) == 1


def test_constraints_are_met_by_what_is_contiguous_and_apart() -> None:
    found = problem_of()
    apart = replace(found, problem=replace(found.problem, apart=((0, 5),)))
    plain, contiguous = Aim(), Aim(needs_contiguous=True)
    split, back = (0, 0, 0, 1, 1, 1), (0, 0, 1, 1, 0, 0)
    assert [meets_constraints(found, devices, plain) for devices in (split, back)] == [True, True]
    assert [meets_constraints(found, devices, contiguous) for devices in (split, back)] == [True, False]
    assert [meets_constraints(apart, devices, plain) for devices in (split, back)] == [True, False]


def test_effort_is_shared_in_seconds_and_evaluations() -> None:
    effort = Effort(12.0, evaluations=90)
    assert (share_effort(effort, 0.25).seconds, share_effort(effort, 0.25).evaluations) == (3.0, 22)
    assert share_effort(effort, 0.001).evaluations == 1
    assert share_effort(Effort(12.0), 0.5).evaluations is None


def test_room_for_all_is_room_for_the_sum() -> None:
    assert [has_room_for_all(problem_of(capacity=capacity).problem) for capacity in (6.0, 5.9)] == [True, False]


def placed(*peaks: tuple[int | None, int | None]) -> SimulatedPlacement:
    devices = tuple(DeviceTime(name, "p", 1, 0.0, 0.0, 0, 0, *row) for name, row in zip("xy", peaks, strict=True))
    steps = (StepTime(0, 1, 1.0, 1.0, 1.0, 1.0),)
    return SimulatedPlacement("p", TimeStudy("g", steps, (), devices, (), (), (), (), ()))


def test_a_device_over_its_limit_gets_as_much_less_room_and_some_to_spare() -> None:
    found = replace(problem_of(capacity=9.0), devices=drawn().devices)
    devices = (0, 0, 0, 0, 1, 1)
    tight = tighten_capacities(found, devices, placed((200, 100), (100, 100)))
    assert [device.capacity for device in tight.problem.devices] == [pytest.approx(4 * 100 / 200 * 0.97), 9.0]
    loose = tighten_capacities(found, devices, placed((101, 100), (None, 100)))
    assert [device.capacity for device in loose.problem.devices] == [pytest.approx(4 * 100 / 101 * 0.97), 9.0]
    small = replace(found, problem=replace(found.problem, devices=problem_of(capacity=1.0).problem.devices))
    assert tighten_capacities(small, devices, placed((101, 100), (9, None))).problem.devices[0].capacity == 0.97
    for unchanged in (placed((100, 100), (9, None)), SimulatedPlacement("refused", None)):
        assert tighten_capacities(found, devices, unchanged).problem.devices == found.problem.devices


def test_moves_are_told_with_what_each_gains_the_largest_first() -> None:
    whole = drawn()
    before = tuple(
        0 if task.name in ("a", "b") else device for task, device in zip(whole.problem.tasks, whole.start, strict=True)
    )
    moves = find_moves(whole, before, whole.start, 0.0, PlanMeasure.LATENCY, None)
    assert {move.nodes for move in moves} == {("a",), ("b",)}
    assert all((move.source, move.target, move.loss) == ("CPU:0", "GPU:0", None) for move in moves)
    steps = iter((5.0, 7.0))
    measured: list[tuple[int, ...]] = []

    def simulate(devices: tuple[int, ...]) -> SimulatedPlacement:
        measured.append(devices)
        found = placed((1, 2), (1, 2))
        assert found.study is not None
        seconds = next(steps)
        return found._replace(study=replace(found.study, steps=(StepTime(0, 1, seconds, 0.0, 0.0, 0.0),)))

    told = find_moves(whole, before, whole.start, 4.0, PlanMeasure.LATENCY, simulate)
    assert [move.loss for move in told] == [3.0, 1.0]
    # each stays alone: of the others all are where the plan has them
    for devices in measured:
        back = {task.name for task, now, own in zip(whole.problem.tasks, devices, whole.start, strict=True) if now != own}
        assert back in ({"a"}, {"b"})
    fixed = replace(whole, groups=tuple(g._replace(choices=(1,)) if g.nodes == ("a",) else g for g in whole.groups))
    steps = iter((5.0,))
    assert [(move.nodes, move.loss) for move in find_moves(fixed, before, whole.start, 4.0, PlanMeasure.LATENCY, simulate)] == [
        (("b",), 1.0), (("a",), None)
    ]  # fmt: skip
