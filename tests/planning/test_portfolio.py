"""Methods side by side: one seed one plan, no worse than the start, never below the bound."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from types import FunctionType

import pytest

from placesim.core.errors import UnavailableError, UsageError
from placesim.core.process.workers import DONE, Worker
from placesim.planning.bounds import Bound
from placesim.planning.methods.exact import has_solver
from placesim.planning.portfolio import (
    AUTO,
    METHODS,
    Effort,
    LaneNews,
    LaneTask,
    PlanResult,
    SearchLane,
    check_method,
    find_methods,
    find_quick_methods,
    lanes,
    open_here,
    plan_problem,
    run_stage,
)
from placesim.planning.problem import (
    MachineLayout,
    Objective,
    Plan,
    PlanningProblem,
    ProblemDevice,
    ProblemTask,
    ProblemTensor,
)
from placesim.planning.search_budget import Method, Search
from placesim.planning.search_processes import SpareProcesses, spread
from placesim.planning.worker import work
from placesim.runtime.cluster.connection_settings import Connection


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
    efforts = (replace(effort, evaluations=1500, seed=7) for effort in (Effort(jobs=1), beside, beside))
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
    told: list[PlanResult] = []
    found = [plan_problem(problem, effort, told.append)._replace(seconds=0.0) for effort in efforts]
    assert method == AUTO or {each.method for each in told if each.plan is not None} == {method}
    assert found[0].plan is not None
    assert found[0] == found[1]


@pytest.mark.slow
def test_plans_get_better_and_bounds_never_pass_them(beside: Effort) -> None:
    told: list[PlanResult] = []
    planned = plan_problem(pipeline(20, 5), replace(beside, evaluations=1000), told.append)
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


# --- which methods search, and for how long


def lane_names(problem: PlanningProblem) -> list[list[str]]:
    return [[name for name, _ in lane] for lane in lanes(problem)]


def test_lanes_fit_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    load = pipeline(5, 1)
    makespan = replace(load, objective=Objective.MAKESPAN)
    alike = replace(
        makespan,
        devices=(ProblemDevice("a", 0), ProblemDevice("b", 0)),
        tasks=tuple(ProblemTask(f"t{n}", (1.0,)) for n in range(5)),
    )
    assert lane_names(load) == [["cut", "anneal"], ["closed-sets", "exact", "anneal"]]
    assert lane_names(replace(load, apart=((0, 1),))) == [["anneal"], ["exact", "anneal"]]
    assert lane_names(replace(load, objective=Objective.PEAK)) == [["anneal"], ["exact", "anneal"]]
    assert lane_names(replace(load, objective=Objective.CALLS)) == [["calls"], ["calls"]]
    assert lane_names(alike) == [["anneal-ranks"], ["exact-schedule", "anneal-ranks"]]
    for other in (
        makespan,
        replace(alike, apart=((0, 1),)),
        replace(alike, tasks=(alike.tasks[0]._replace(makes=1.0), *alike.tasks[1:])),
        replace(alike, tasks=(*alike.tasks[:4], alike.tasks[4]._replace(holds=1.0))),
        replace(alike, groups=((0, 1), (2,), (3,), (4,))),
        replace(alike, devices=(alike.devices[0], alike.devices[1]._replace(slots=2))),
    ):
        assert lane_names(other) == [["dispatch", "move"], ["dispatch", "exact", "move"]]
    assert [find_quick_methods(problem) for problem in (load, alike, makespan)] == [(), ("rank",), ("list",)]
    layout = MachineLayout((), (), (), ())
    assert lane_names(replace(alike, layout=layout))[0] == ["dispatch", "move"]
    assert find_quick_methods(replace(alike, layout=layout)) == ("list",)
    monkeypatch.setattr("placesim.planning.portfolio.FEW_TASKS", 5)
    few = [share for lane in lanes(makespan) for name, share in lane if name == "dispatch"]
    monkeypatch.setattr("placesim.planning.portfolio.FEW_TASKS", 4)
    many = [share for lane in lanes(makespan) for name, share in lane if name == "dispatch"]
    assert (few, many) == ([0.5, 0.15], [0.9, 0.9])
    assert find_quick_methods(replace(makespan, layout=layout)) == ()
    assert lane_names(replace(alike, layout=layout))[0] == ["layers", "dispatch", "move"]
    assert find_quick_methods(makespan) == ("list",)
    assert all(lane[-1][1] == 1.0 for problem in (load, alike, makespan) for lane in lanes(problem))


def test_a_method_without_its_solver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.planning.portfolio.has_solver", lambda: False)
    check_method(AUTO)
    check_method("anneal")
    for name in ("exact", "exact-schedule"):
        with pytest.raises(UsageError, match=f"method '{name}' needs OR-tools"):
            check_method(name)


@pytest.mark.parametrize(
    ("value", "bound", "gap", "is_optimal"),
    [
        (4.0, 3.0, 0.25, False),
        (4.0, 4.0, 0.0, True),
        (4.0, 5.0, 0.0, True),
        (0.0, 0.0, 0.0, True),
        (1.0, 1 - 2e-6, 2e-6, False),
    ],
)
def test_a_gap_is_a_share_of_the_plans_value(value: float, bound: float, gap: float, is_optimal: bool) -> None:
    planned = PlanResult(Plan(value, (0,)), Bound(bound, ""), "m", 0.0)
    assert planned.gap == pytest.approx(gap)
    assert planned.is_optimal == is_optimal
    nothing = planned._replace(plan=None)
    assert (nothing.gap, nothing.is_optimal) == (0.0, False)


def test_only_counted_work_in_one_process_needs_no_other() -> None:
    efforts = [
        Effort(evaluations=9, jobs=1),
        Effort(evaluations=9),
        Effort(jobs=1),
        Effort(evaluations=9, jobs=1, open=open_here),
    ]
    assert [effort.needs_no_process for effort in efforts] == [True, False, False, False]
    assert (Effort().seconds, Effort().jobs, Effort().method) == (30.0, 2, "auto")


def told_by(plans: dict[str, list[Plan]], monkeypatch: pytest.MonkeyPatch, spends: int = 0) -> list[tuple[str, Search]]:
    """Methods that give these plans, and the searches that they are given."""
    given: list[tuple[str, Search]] = []

    def method(name: str) -> Method:
        def search_plans(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
            given.append((name, replace(search)))
            search.spend(spends)
            if name == "proves":
                search.prove(2.0)
            yield from plans[name]

        return search_plans

    for name in plans:
        monkeypatch.setitem(METHODS, name, method(name))
    return given


def test_methods_of_a_lane_share_its_work_and_go_on_from_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (Plan(value, (0,)) for value in (9.0, 7.0, 8.0))
    given = told_by({"one": [first, second], "proves": [third], "two": []}, monkeypatch, spends=10)
    search = Search(1, evaluations=100)
    methods = (("one", 0.5), ("proves", 0.5), ("two", 1.0))
    problem = pipeline(3, 1)
    assert list(run_stage(problem, methods, search)) == [
        LaneNews("one", first, 0.0),
        LaneNews("one", second, 0.0),
        LaneNews("proves", None, 2.0),
    ]
    assert [(name, one.evaluations, one.start) for name, one in given] == [
        ("one", 50, None),
        ("proves", 45, second),
        ("two", 80, second),
    ]
    assert (search.evaluations_left, search.proven, search.target) == (70, 2.0, 2.0)


@pytest.mark.parametrize(("target", "evaluations"), [(7.0, 100), (0.0, 10)])
def test_a_lane_ends_with_its_work_or_where_nothing_can_be_better(
    target: float, evaluations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = told_by({"one": [Plan(7.0, (0,))], "two": []}, monkeypatch, spends=10)
    search = Search(1, evaluations=evaluations, target=target)
    assert len(list(run_stage(pipeline(3, 1), (("one", 1.0), ("two", 1.0)), search))) == 1
    assert [name for name, _ in given] == ["one"]


def test_of_equal_plans_the_first_by_devices_is_kept_and_the_first_method_named(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(pipeline(3, 1), apart=((0, 1),))
    told: list[PlanResult] = []
    methods: dict[str, list[Plan]] = {"anneal": [Plan(9.0, (0, 0, 1)), Plan(8.0, (1, 0, 1))], "exact": [Plan(8.0, (0, 1, 1))]}
    told_by(methods, monkeypatch)
    found = plan_problem(problem, Effort(evaluations=9, jobs=1), told.append)
    # what breaks a constraint is never taken
    assert (found.plan, found.method) == (Plan(8.0, (0, 1, 1)), "exact")
    assert [(one.plan, one.method) for one in told] == [(Plan(8.0, (1, 0, 1)), "anneal"), (Plan(8.0, (0, 1, 1)), "exact")]
    methods["anneal"] = [Plan(8.0, (0, 1, 1))]
    assert plan_problem(problem, Effort(evaluations=9, jobs=1)).method == "anneal"
    start = Plan(8.0, (0, 1, 1))
    kept = plan_problem(problem, Effort(evaluations=9, jobs=1), start=start)
    assert (kept.plan, kept.method) == (start, "start")


def test_a_proof_raises_the_bound_and_says_who_proved_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(pipeline(3, 1), tasks=tuple(ProblemTask(f"t{n}", (1.0, 1.0)) for n in range(3)))
    told_by({"proves": [Plan(2.0, (0, 0, 1))]}, monkeypatch)
    monkeypatch.setattr("placesim.planning.portfolio.lanes", lambda problem: (SearchLane((("proves", 1.0),)),))
    found = plan_problem(problem, Effort(evaluations=9, jobs=1))
    assert found.bound == Bound(2.0, "proven by proves")
    assert found.is_optimal


def test_an_interrupt_leaves_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
        yield Plan(9.0, (0, 0, 1))
        raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "cut", interrupted)
    found = plan_problem(pipeline(3, 1), Effort(evaluations=9, jobs=1))
    assert (found.plan, found.method, found.is_interrupted) == (Plan(9.0, (0, 0, 1)), "cut", True)
    assert not plan_problem(replace(pipeline(3, 1), objective=Objective.CALLS), Effort(evaluations=9, jobs=1)).is_interrupted


def test_a_problem_that_is_too_large_for_other_processes_has_one_lane_here(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(pipeline(3, 1), objective=Objective.CALLS)
    lanes_run = told_by({"calls": []}, monkeypatch)
    for most, expected in ((3, 2), (2, 1)):
        monkeypatch.setattr("placesim.planning.portfolio.MANY_TASKS", most)
        lanes_run.clear()
        assert plan_problem(problem, Effort(evaluations=50, jobs=1)).plan is None
        assert len(lanes_run) == expected
    # no process is started for it
    assert plan_problem(problem, Effort(evaluations=50, jobs=2, open=lambda: Told(no_place))).plan is None


class Told:
    """A lane in a process that answers what it is given, or what a function of that does, and then that it is done."""

    def __init__(self, *answers: object) -> None:
        self.answers = [*answers, DONE]
        self.tasks: list[LaneTask] = []
        self.closed = 0

    def tell(self, question: LaneTask) -> None:
        self.tasks.append(question)

    def answer(self) -> object:
        found = self.answers.pop(0)
        return found() if isinstance(found, FunctionType) else found

    def kill(self) -> None:
        self.close()

    def how_it_ended(self) -> str:
        return ""

    def close(self) -> None:
        self.closed += 1


def test_lanes_run_in_as_many_processes_as_are_asked_for() -> None:
    problem = pipeline(5, 1)
    plans = [Plan(9.0, (0, 0, 0, 0, 1)), Plan(8.0, (0, 0, 0, 1, 1))]
    running = [Told(LaneNews("cut", plans[0], 0.0)), Told(LaneNews("exact", plans[1], 0.0))]
    effort = Effort(evaluations=10, seed=3, jobs=1, open=iter(running).__next__)
    found = plan_problem(problem, effort)
    assert (found.plan, found.method) == (plans[1], "exact")
    assert [lane.closed for lane in running] == [1, 1]
    ((first,), (second,)) = (lane.tasks for lane in running)
    assert (first.lane, second.lane) == lanes(problem)
    assert (first.search.seed, second.search.seed, first.seconds) == (6, 7, None)
    # a second lane begins when the first has ended, and knows no more than it
    assert first.search.start == second.search.start
    timed = Told()
    plan_problem(problem, Effort(seconds=5000.0, jobs=1, method="anneal", open=lambda: timed))
    ((lane, seconds),) = ((task.lane, task.seconds) for task in timed.tasks)
    assert lane == (("anneal", 1.0),)
    assert seconds is not None
    assert 0 < seconds <= 5000


def no_place() -> None:
    raise UnavailableError("no place")


def ended() -> None:
    raise EOFError


def test_what_a_process_says_goes_wrong_is_raised_and_its_end_is_not() -> None:
    problem, effort = pipeline(5, 1), Effort(evaluations=9, jobs=2)
    for answer, error in ((UsageError("no such thing"), "no such thing"), (no_place, "no place")):
        running = [Told(answer), Told()]
        with pytest.raises((UsageError, UnavailableError), match=error):
            plan_problem(problem, replace(effort, open=iter(running).__next__))
        assert [lane.closed for lane in running] == [1, 1]
    running = [Told(ended), Told(LaneNews("cut", Plan(9.0, (0,) * 5), 0.0))]
    assert plan_problem(problem, replace(effort, open=iter(running).__next__)).plan == Plan(9.0, (0,) * 5)
    assert [lane.closed for lane in running] == [1, 1]


def test_a_plan_that_meets_the_bound_ends_timed_lanes_but_not_counted_ones() -> None:
    problem = pipeline(5, 1)
    bound = plan_problem(problem, Effort(evaluations=0, jobs=1)).bound.value
    best = LaneNews("cut", Plan(bound, (0, 0, 0, 0, 0)), 0.0)
    for effort, started in ((Effort(seconds=5000.0, jobs=1), 1), (Effort(evaluations=9, jobs=1), 2)):
        running: list[Told] = []

        def start(running: list[Told] = running) -> Told:
            running.append(Told(best))
            return running[-1]

        found = plan_problem(problem, replace(effort, open=start))
        assert found.is_optimal
        assert len(running) == started


def test_a_process_that_can_not_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> Worker:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("placesim.planning.portfolio.Worker", fail)
    with pytest.raises(UnavailableError, match="cannot start a search process: Cannot allocate memory"):
        open_here()


def test_a_task_of_a_lane_has_the_seconds_that_were_left_when_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    given = told_by({"one": []}, monkeypatch)
    lane = SearchLane((("one", 1.0),))
    counted, timed = (LaneTask(pipeline(3, 1), lane, Search(1, deadline=0.0), seconds) for seconds in (None, 5000.0))
    assert list(counted.run()) == list(timed.run()) == []
    (_, first), (_, second) = given
    assert first.deadline == float("inf")
    assert 0 < second.seconds_left <= 5000


def test_processes_are_only_started_where_they_are_needed() -> None:
    here, elsewhere = Effort(evaluations=5, jobs=1), Effort(evaluations=5, jobs=2)
    with spread(here, Connection()) as effort:
        assert effort == here
    with spread(elsewhere, Connection()) as effort:
        assert effort.open is not None
        assert replace(effort, open=None) == elsewhere


def test_a_search_process_answers_each_task_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    news = [LaneNews("one", Plan(9.0, (0,)), 0.0)]
    monkeypatch.setattr("placesim.planning.portfolio.run_stage", lambda problem, methods, search: iter(news))
    task = LaneTask(pipeline(3, 1), SearchLane((("one", 1.0),)), Search(1), None)
    questions = BytesIO(pickle.dumps(task) + pickle.dumps("no task") + pickle.dumps(task))
    answers: list[object] = []
    work(questions, answers.append)
    assert [answers[0], answers[1], answers[3], *answers[4:]] == [news[0], DONE, DONE, news[0], DONE]
    assert isinstance(answers[2], AttributeError)
