"""Methods side by side: one seed one plan, no worse than the start, never below the bound."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from placesim.core.errors import UsageError
from placesim.core.process.workers import DONE, Worker
from placesim.planning.methods.exact import has_solver
from placesim.planning.portfolio import AUTO, Effort, PlanResult, SearchLane, find_methods, open_here, plan_problem
from placesim.planning.problem import Objective, Plan, PlanningProblem, ProblemDevice, ProblemTask, ProblemTensor
from placesim.planning.search_processes import SpareProcesses


@pytest.fixture(scope="module")
def beside() -> Iterator[Effort]:
    """Two processes that search, which are there as long as tests of this module are."""
    spare = SpareProcesses(open_here)
    yield Effort(jobs=2, open=spare.open)
    spare.close()


def pipeline(count: int, seed: int) -> PlanningProblem:
    draw = random.Random(seed)
    tasks = tuple(
        ProblemTask(f"t{n}", (draw.uniform(1, 5), draw.uniform(10, 50)), draw.uniform(0, 1), draw.uniform(0, 1))
        for n in range(count)
    )
    inputs = tuple(tuple(sorted({draw.randrange(n) for _ in range(2)})) if n else () for n in range(count))
    devices = (*(ProblemDevice(f"acc{n}", 0, count / 2) for n in range(3)), ProblemDevice("cpu", 1, pays=False))
    return PlanningProblem(Objective.LOAD, tasks, inputs, tuple((n,) for n in range(count)), devices)


@pytest.mark.slow
def test_counted_work_gives_one_plan_for_one_seed_whatever_runs_beside(beside: Effort) -> None:
    problem = pipeline(12, 4)
    efforts = (replace(effort, evaluations=5000, seed=7) for effort in (Effort(jobs=1), beside, beside))
    found = [plan_problem(problem, effort) for effort in efforts]
    assert found[0].plan is not None
    assert len({planned.plan for planned in found}) == 1
    assert len({planned.bound.value for planned in found}) == 1


def sought(objective: Objective) -> PlanningProblem:
    """A small problem of an objective."""
    problem = replace(pipeline(9, 2), objective=objective)
    if objective is not Objective.PEAK:
        return problem
    reads = {n: tuple((task, task) for task in readers) for n, readers in enumerate(problem.readers)}
    return replace(problem, tensors=tuple(ProblemTensor(1.0 + n % 3, n, n, reads[n]) for n in range(9)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "method"),
    [
        (objective, method)
        for objective in Objective
        for method in (AUTO, *find_methods(sought(objective)))
        if has_solver() or not method.startswith("exact")
    ],
)
def test_each_method_gives_one_plan_for_one_seed(objective: Objective, method: str, beside: Effort) -> None:
    problem = sought(objective)
    efforts = [replace(effort, evaluations=1500, seed=3, method=method) for effort in (Effort(jobs=1), beside)]
    found = [plan_problem(problem, effort)._replace(seconds=0.0) for effort in efforts]
    assert found[0].plan is not None
    assert found[0] == found[1]


@pytest.mark.slow
def test_plans_get_better_and_bounds_never_pass_them() -> None:
    told: list[PlanResult] = []
    planned = plan_problem(pipeline(20, 5), Effort(1.5), told.append)
    values = [each.plan.value for each in told if each.plan is not None]
    assert values == sorted(values, reverse=True)
    assert planned.plan is not None
    assert planned.plan.value == values[-1] >= planned.bound.value * (1 - 1e-9)
    assert all(each.bound.value <= planned.plan.value * (1 + 1e-9) for each in told)


def test_a_start_is_no_worse_afterwards() -> None:
    problem = pipeline(12, 6)
    best = plan_problem(problem, Effort(evaluations=2000, jobs=1)).plan
    assert best is not None
    again = plan_problem(problem, Effort(evaluations=100, jobs=1), start=Plan(best.value, best.devices)).plan
    assert again is not None
    assert again.value <= best.value


def test_a_plan_that_meets_its_bound_is_optimal_and_ends_the_search() -> None:
    tasks = tuple(ProblemTask(f"t{n}", (2.0,)) for n in range(4))
    devices = (ProblemDevice("a", 0), ProblemDevice("b", 0))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, ((),) * 4, tuple((n,) for n in range(4)), devices)
    planned = plan_problem(problem, Effort(60.0))
    assert planned.is_optimal
    assert planned.seconds < 5
    assert planned.plan is not None
    assert planned.plan.value == planned.bound.value == 4.0


@pytest.mark.parametrize(
    ("name", "words"),
    [("anneel", "did you mean 'anneal'"), ("list", "expected one that fits the objective: cut, anneal, closed-sets, exact")],
)
def test_a_method_that_is_unknown_or_does_not_fit_is_told(name: str, words: str) -> None:
    problem = PlanningProblem(Objective.LOAD, (ProblemTask("a", (1.0,)),), ((),), ((0,),), (ProblemDevice("x", 0),))
    with pytest.raises(UsageError, match=words):
        plan_problem(problem, Effort(evaluations=10, jobs=1, method=name))


def test_what_goes_wrong_in_a_process_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pipeline(12, 4)
    # a lane of a method that there is none of
    monkeypatch.setattr("placesim.planning.portfolio.lanes", lambda problem: (SearchLane((("gone", 1.0),)),))
    with pytest.raises(KeyError, match="gone"):
        plan_problem(problem, Effort(evaluations=10, jobs=1))


def test_a_process_that_is_ended_leaves_the_best_so_far() -> None:
    problem = pipeline(12, 4)
    start = plan_problem(problem, Effort(evaluations=200, jobs=1)).plan
    effort = Effort(evaluations=200, jobs=2, open=lambda: Worker("placesim.core.suggestions"))
    assert plan_problem(problem, effort, start=start).plan == start


@pytest.mark.slow
def test_processes_of_a_study_are_asked_again() -> None:
    started: list[Worker] = []

    def start() -> Worker:
        started.append(Worker("placesim.planning.worker"))
        return started[-1]

    spare = SpareProcesses(start)
    try:
        effort = Effort(evaluations=20, jobs=1, method="anneal", open=spare.open)
        plans = [plan_problem(pipeline(tasks, 2), effort).plan for tasks in (9, 10, 9)]
        assert len(started) == 1
        assert plans[0] == plans[2] == plan_problem(pipeline(9, 2), replace(effort, open=open_here)).plan
        ended = spare.open()  # who has not answered to the end is not asked again
        ended.close()
        plan_problem(pipeline(9, 2), effort)
        assert len(started) == 2
    finally:
        spare.close()
    assert [process.how_it_ended() for process in started] == ["signal 9", "signal 9"]


class Answering:
    """A process that answers what it is told to, and counts how often it was closed."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self.closed = 0

    def tell(self, question: object) -> None:
        self.answers.append(question)

    def answer(self) -> object:
        return self.answers.pop(0)

    def kill(self) -> None:
        self.close()

    def how_it_ended(self) -> str:
        return "closed" if self.closed else ""

    def close(self) -> None:
        self.closed += 1


def test_a_process_is_left_to_the_next_only_where_it_has_answered_to_the_end() -> None:
    started: list[Answering] = []

    def start() -> Answering:
        started.append(Answering())
        return started[-1]

    spare = SpareProcesses(start)
    first = spare.open()
    first.tell(DONE)
    assert first.answer() is DONE
    first.close()
    first.close()  # given back once
    again, other = spare.open(), spare.open()
    assert len(started) == 2
    again.tell(DONE)
    again.answer()
    again.tell("another question")  # unanswered when it is closed
    again.close()
    assert [process.closed for process in started] == [1, 0]
    other.tell("a question")
    other.answer()
    other.close()  # an answer that was not the last
    spare.close()
    assert [process.closed for process in started] == [1, 1]
