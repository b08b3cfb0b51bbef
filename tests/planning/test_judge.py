"""All placements of small random problems, tried one by one: no bound is above the best, and what is proven is the best."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.workload import Cores, Resource, SerialStream
from placesim.planning.bounds import lower_bounds
from placesim.planning.methods.exact import has_solver, solve
from placesim.planning.objectives import measure
from placesim.planning.peaks import Peaks
from placesim.planning.portfolio import Effort, plan_problem
from placesim.planning.problem import (
    DeviceLink,
    MachineLayout,
    Objective,
    PlanningProblem,
    ProblemDevice,
    ProblemTask,
    ProblemTensor,
)
from placesim.planning.search_budget import Search
from tests.examples import examples
from tests.planning.problems import BOOLEANS, TIMES, assignments, integers, is_contiguous, pipelines, some_below

needs_solver = pytest.mark.skipif(not has_solver(), reason="OR-tools is not installed: pip install 'placesim[plan]'")
NEAR = 1e-6
sampled = cache(st.sampled_from)
LINKS = st.builds(DeviceLink, sampled((0.0, 0.5)), sampled((0.25, 1.0)))


@st.composite
def machines(draw: st.DrawFn, most: int = 6) -> PlanningProblem:
    """Up to so many tasks on a host with two GPUs, with launches, copy streams and links, two of which they may share."""
    count = draw(integers(1, most))
    inputs = [draw(some_below(task, 3)) if task else set() for task in range(count)]
    tasks = []
    for number in range(count):
        slow, fast, launch = draw(TIMES), draw(TIMES), draw(sampled((0.0, 0.5)))
        where = draw(sampled(((slow, fast), (slow, fast), (slow, fast), (slow, math.inf), (math.inf, fast))))
        holds = float(draw(integers(0, 3)))
        tasks.append(
            ProblemTask(
                f"t{number}", where, holds, draw(TIMES), launches=(0.0, launch), cores=(draw(integers(1, 2)), 1), path=where
            )
        )
    labels = [draw(integers(0, count - 1)) if draw(BOOLEANS) else n for n in range(count)]
    groups = tuple(tuple(n for n in range(count) if labels[n] == label) for label in dict.fromkeys(labels))
    copies = tuple(SerialStream(f"{gpu}{way}") for gpu in "ab" for way in "io")
    resources: tuple[Resource, ...] = (Cores("host", 2, 2), SerialStream("a", 0), SerialStream("b", 0), *copies)
    links = tuple(Link(name, draw(sampled((1.0, 4.0))), 0.25) for name in ("ain", "aout", "bin", "bout"))
    routes = (
        (((), ()), ((0,), (3,)), ((2,), (5,))),
        (((1,), (4,)), ((), ()), ((1, 2), (4, 5))),
        (((3,), (6,)), ((3, 0), (6, 3)), ((), ())),
    )
    room = draw(sampled((math.inf, 8.0)))
    devices = (ProblemDevice("cpu", 0, pays=False), ProblemDevice("gpu0", 1, room), ProblemDevice("gpu1", 1, room))
    sources = tuple(tuple(sorted(row)) for row in inputs)
    layout = MachineLayout(resources, links, (0, 1, 2), routes)
    return PlanningProblem(Objective.MAKESPAN, tuple(tasks), sources, groups, devices, layout=layout)


@cache
def tasks_below(count: int, most: int) -> st.SearchStrategy[list[int]]:
    """A few of so many tasks, some of them more than once."""
    return st.lists(integers(0, count - 1), max_size=most)


@cache
def readers_below(count: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """A few of so many tasks, and how much later each reads."""
    return st.lists(st.tuples(integers(0, count - 1), integers(0, 4)), max_size=3)


@cache
def two_or_three(count: int) -> st.SearchStrategy[set[int]]:
    """Of so many groups."""
    return st.sets(integers(0, count - 1), min_size=2, max_size=3)


PIPELINES = pipelines()


@st.composite
def executors(draw: st.DrawFn) -> PlanningProblem:
    """The same tasks as pipelines, run first come, first served, over ways that may differ."""
    problem = replace(draw(PIPELINES), objective=Objective.MAKESPAN)
    return replace(problem, ways=draw(WAYS)) if draw(BOOLEANS) else problem


@st.composite
def ways(draw: st.DrawFn) -> tuple[tuple[DeviceLink, ...], ...]:
    """Between three devices."""
    return tuple(tuple(DeviceLink() if a == b else draw(LINKS) for b in range(3)) for a in range(3))


WAYS = ways()


@st.composite
def steps_apart(draw: st.DrawFn, problems: st.SearchStrategy[PlanningProblem]) -> PlanningProblem:
    """Some of the groups may share no device."""
    problem = draw(problems)
    return (
        replace(problem, apart=(tuple(sorted(draw(two_or_three(len(problem.groups))))),))
        if len(problem.groups) > 1
        else problem
    )


@st.composite
def peaks(draw: st.DrawFn) -> PlanningProblem:
    """The same groups as pipelines, with tensors that are read at later moments, some of them kept."""
    problem = replace(draw(PIPELINES), objective=Objective.PEAK)
    count, moment, tensors = len(problem.tasks), integers(0, 8), []
    for task in draw(tasks_below(count, 6)):
        made = draw(moment)
        readers = draw(readers_below(count))
        reads = tuple((reader, made + later) for reader, later in readers)
        tensors.append(ProblemTensor(draw(TIMES), task, made, reads, draw(BOOLEANS)))
    scratch = draw(tasks_below(count, 2))
    kinds = sampled((frozenset((2,)), frozenset((0, 1))))
    tensors += [ProblemTensor(draw(TIMES), task, draw(moment), only_on=draw(kinds)) for task in scratch]
    # what is kept is among what its task holds
    kept = [math.fsum(tensor.size for tensor in tensors if tensor.task == n and tensor.is_kept) for n in range(count)]
    tasks = tuple(task._replace(holds=task.holds + more) for task, more in zip(problem.tasks, kept, strict=True))
    return replace(problem, tasks=tasks, tensors=tuple(tensors))


def loads_over_ways() -> st.SearchStrategy[PlanningProblem]:
    """Pipelines whose ways differ."""
    return st.builds(lambda problem, found: replace(problem, ways=found), pipelines(5), WAYS)


def judged(problem: PlanningProblem) -> float:
    """The best of all placements that are allowed."""
    measured = measure(problem)
    allowed = (a for a in assignments(problem) if not problem.needs_contiguous or is_contiguous(problem, a))
    return min((measured.plan(devices).value for devices in allowed), default=math.inf)


@given(peaks(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_peaks_that_are_kept_while_groups_move_are_those_of_a_fresh_count(
    problem: PlanningProblem, data: st.DataObject
) -> None:
    kept = Peaks(problem, [0] * len(problem.tasks))
    moves = st.dictionaries(st.integers(0, len(problem.groups) - 1), st.integers(0, len(problem.devices) - 1), max_size=4)
    for moved, is_undone in data.draw(st.lists(st.tuples(moves, st.booleans()), min_size=1, max_size=6)):
        before = kept.devices
        change = kept.move(moved)
        for group, device in moved.items():
            assert {kept.devices[task] for task in problem.groups[group]} == {device}
        if is_undone:
            kept.undo(change)
            assert kept.devices == before
        fresh = Peaks(problem, kept.devices)
        assert kept.held == pytest.approx(fresh.held, abs=1e-9)
        assert kept.live == pytest.approx(fresh.live, abs=1e-9)


ALL = {
    "a machine": machines(),
    "an executor": executors(),
    "a pipeline": pipelines(5),
    "a pipeline over ways": loads_over_ways(),
    "peaks": peaks(),
    "a machine with groups apart": steps_apart(machines()),
    "a pipeline with groups apart": steps_apart(PIPELINES),
    "peaks with groups apart": steps_apart(peaks()),
    "a contiguous pipeline": pipelines(6, contiguous=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_no_bound_is_above_the_best_of_all_placements(kind: str, data: st.DataObject) -> None:
    problem = data.draw(ALL[kind])
    best = judged(problem)
    for bound in lower_bounds(problem):
        assert bound.value <= best * (1 + 1e-9) + 1e-9, bound


@pytest.mark.slow
@needs_solver
@pytest.mark.parametrize("kind", ALL)
@given(st.data())
@settings(max_examples=examples(25), deadline=None)
def test_the_exact_search_finds_and_proves_the_best_of_all_placements(kind: str, data: st.DataObject) -> None:
    problem = data.draw(ALL[kind])
    best, search = judged(problem), Search(1, time.monotonic() + 60)
    found = list(solve(problem, search))
    if math.isinf(best):
        assert not found
        return
    assert search.proven <= best * (1 + NEAR) + NEAR
    if found:
        assert found[-1].value == pytest.approx(best, rel=NEAR, abs=NEAR)
    if problem.movable:
        assert search.proven == pytest.approx(best, rel=NEAR, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
@given(st.data())
@settings(max_examples=examples(3), deadline=None)
def test_what_is_called_optimal_is(kind: str, data: st.DataObject) -> None:
    problem = data.draw(ALL[kind])
    best = judged(problem)
    if problem.homeless or math.isinf(best):
        return
    planned = plan_problem(problem, Effort(evaluations=3000, jobs=1))
    assert planned.bound.value <= best * (1 + NEAR) + NEAR
    if planned.plan is not None:
        assert planned.plan.value >= best - NEAR
        assert not planned.is_optimal or planned.plan.value <= best * (1 + NEAR) + NEAR
