"""Combination of planning methods: quick ones first, then lanes (sequences of methods) in parallel processes.

The search ends when the time is over or the bound is met.  If a search counts evaluations and runs one lane at a time, its
lanes run in this process, since no lane needs to be stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from placesim.core.errors import UnavailableError, UsageError
from placesim.core.process.workers import DONE, Process, Worker
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.planning.bounds import Bound, best_bound
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.methods.call_annealing import anneal_calls
from placesim.planning.methods.closed_sets import split_closed_sets
from placesim.planning.methods.contiguous import split_orders
from placesim.planning.methods.dispatch_simulation import dispatch_ready
from placesim.planning.methods.estimated_moves import MAX_TASKS as MAX_ESTIMATED
from placesim.planning.methods.exact import has_solver, solve, solve_schedule
from placesim.planning.methods.layer_splits import split_layers
from placesim.planning.methods.limited_memory import fit_memory
from placesim.planning.methods.list_scheduling import end_first
from placesim.planning.methods.local_search import anneal_moves
from placesim.planning.methods.peak_annealing import anneal
from placesim.planning.methods.priorities import anneal_ranks, rank_by_tails
from placesim.planning.problem import Objective, Plan, PlanningProblem, are_apart
from placesim.planning.search_budget import Method, Search

AUTO = "auto"
"""Name of the combination of all methods."""
EXHAUSTIVE = "exhaustive"
"""Name of the method that simulates all placements of a small graph (`studies/plan_study.py`)."""
SECONDS = 30.0
OPTIMAL = 1e-6
"""Relative gap up to which a plan counts as optimal; exact methods round times down by less."""
_GRACE = 0.03
"""Time that a lane gets beyond its deadline before it is stopped, as a share of the search's seconds."""


class PlanResult(NamedTuple):
    """Result of a search: the best plan (or None), the bound, the method that found the plan, and the time of the search."""

    plan: Plan | None
    bound: Bound
    method: str
    seconds: float
    is_interrupted: bool = False

    @property
    def gap(self) -> float:
        """Largest possible improvement of the plan, as a share of its value."""
        return 0.0 if self.plan is None else self.bound.gap(self.plan.value)

    @property
    def is_optimal(self) -> bool:
        return self.plan is not None and self.gap <= OPTIMAL


def open_here() -> Process:
    """Start a process for a lane on this machine.  Raises UnavailableError if that fails."""
    try:
        return Worker("placesim.planning.worker")
    except OSError as error:
        raise UnavailableError(f"cannot start a search process: {error.strerror or error}") from None


@dataclass(frozen=True)
class Effort:
    """Limits of a search: seconds, or evaluations of each lane, and a maximum number of processes.

    `open` starts a process; None starts it on this machine.
    """

    seconds: float = SECONDS
    evaluations: int | None = None
    seed: int = 0
    jobs: int = 2
    method: str = AUTO
    open: Callable[[], Process] | None = None

    @property
    def needs_no_process(self) -> bool:
        """Whether lanes run in this process, one after another. Lanes with a deadline need a process that can be stopped."""
        return self.open is None and self.jobs == 1 and self.evaluations is not None


SearchLane = tuple[tuple[str, float], ...]
"""A lane: names of methods that run one after another, each with its share of the remaining budget."""


METHODS: dict[str, Method] = {
    "cut": split_orders,
    "closed-sets": split_closed_sets,
    "anneal": anneal,
    "exact": solve,
    "rank": rank_by_tails,
    "anneal-ranks": anneal_ranks,
    "exact-schedule": solve_schedule,
    "calls": anneal_calls,
    "list": end_first,
    "layers": split_layers,
    "dispatch": dispatch_ready,
    "move": anneal_moves,
    "fit": fit_memory,
}
"""All methods by name; `find_methods` selects those that suit a problem."""
GRAPH_METHODS = {
    Objective.MAKESPAN: (EXHAUSTIVE, "list", "layers", "dispatch", "move", "fit", "exact"),
    Objective.LOAD: ("cut", "closed-sets", "anneal", "exact"),
    Objective.PEAK: ("anneal", "exact"),
}
"""Methods for the problems of graphs, by objective."""
_ONLY_FOR = {
    "layers": "large graphs (more than 1,000 nodes), and for plans by node where memory is short",
    "fit": "plans by node where memory is short, of at most 1,000 nodes",
}
"""The problems of graphs for which methods of GRAPH_METHODS are, unless they are for all with the objective."""
SOLVED = frozenset(("exact", "exact-schedule"))
"""Methods that need the solver OR-tools."""
_ORDERS_SHARE, _SETS_SHARE, _EXACT_SHARE = 0.05, 0.5, 0.6
FEW_TASKS = 1000
"""Maximum number of tasks for which moves of single groups get most of the time, unless moves are estimated."""
_FIT_SHARE, _LAYERS_SHARE = 0.4, 0.15
_ESTIMATED_SHARES, _FEW_SHARES, _MANY_SHARES = (0.1, 0.25), (0.5, 0.15), (0.9, 0.9)
MANY_TASKS = 200_000
"""Maximum number of tasks for use of other processes; sending more takes as long as a search, and doubles the memory."""


def lanes(problem: PlanningProblem) -> tuple[SearchLane, ...]:
    """Return the search lanes for a problem, which can run in parallel."""
    if problem.objective is Objective.PEAK or (problem.objective is Objective.LOAD and problem.apart):
        return (("anneal", 1.0),), (("exact", _EXACT_SHARE), ("anneal", 1.0))
    if problem.objective is Objective.LOAD:
        return (
            (("cut", _ORDERS_SHARE), ("anneal", 1.0)),
            (("closed-sets", _SETS_SHARE), ("exact", _EXACT_SHARE), ("anneal", 1.0)),
        )
    if problem.objective is Objective.CALLS:
        return (("calls", 1.0),), (("calls", 1.0),)
    if _is_scheduling(problem):
        return (("anneal-ranks", 1.0),), (("exact-schedule", _EXACT_SHARE), ("anneal-ranks", 1.0))
    if problem.memory is not None and len(problem.tasks) <= MAX_ESTIMATED:
        # a pass without a start often finds what cuts do not, if branches run side by side
        dispatch, fitted = ("dispatch", _ESTIMATED_SHARES[1]), ("layers", 1.0)
        fit: SearchLane = (("fit", _FIT_SHARE),) if len(problem.tasks) <= FEW_TASKS else ()
        return (fitted, *fit, ("move", 1.0)), (dispatch, fitted, ("move", 1.0))
    first, second = _ESTIMATED_SHARES
    if problem.layout is None or len(problem.tasks) > MAX_ESTIMATED:
        # a move costs one simulation, and a pass over all tasks costs not much more
        first, second = _FEW_SHARES if len(problem.tasks) <= FEW_TASKS else _MANY_SHARES
    is_cut = problem.layout is not None and len(problem.tasks) > FEW_TASKS
    layers: SearchLane = (("layers", _LAYERS_SHARE),) if is_cut else ()
    return (
        (*layers, ("dispatch", first), ("move", 1.0)),
        (*layers, ("dispatch", second), ("exact", _EXACT_SHARE), ("move", 1.0)),
    )


def find_methods(problem: PlanningProblem) -> tuple[str, ...]:
    """Return the names of the methods that fit a problem."""
    return tuple(dict.fromkeys([*find_quick_methods(problem), *(name for lane in lanes(problem) for name, _ in lane)]))


def check_method(name: str, problem: PlanningProblem | None = None, objective: Objective | None = None) -> None:
    """Raise UsageError for an unknown method, one that doesn't fit the problem, or one whose solver is not installed.

    For an unknown name, the error lists the methods for graphs with the objective, or all methods without one.
    """
    if name == AUTO or (name == EXHAUSTIVE and problem is None):
        return
    if name not in METHODS:
        known = [AUTO, *((EXHAUSTIVE, *METHODS) if objective is None else GRAPH_METHODS[objective])]
        raise UsageError(
            f"unknown method: got '{name}', expected one of {', '.join(known)}{did_you_mean(name, known, SIMILAR_AMONG_FEW)}"
        )
    if problem is not None and name not in find_methods(problem):
        fitting, only = ", ".join(find_methods(problem)), _ONLY_FOR.get(name)
        if only is not None and problem.objective is Objective.MAKESPAN:
            raise UsageError(f"wrong method: got '{name}', which is for {only}; expected one of {fitting}")
        raise UsageError(f"wrong method: got '{name}', expected one that fits the objective: {fitting}")
    if name in SOLVED and not has_solver():
        raise UsageError(f"method '{name}' needs OR-tools: `pip install 'placesim[plan]'`")


def _is_scheduling(problem: PlanningProblem) -> bool:
    """Return whether only an order of tasks is sought: equal devices, no memory, no transfers, and single tasks as groups."""
    if problem.layout is not None or problem.apart:
        return False
    is_free = all(not task.makes and not task.holds for task in problem.tasks)
    return is_free and problem.are_devices_alike and len(problem.groups) == len(problem.tasks)


def find_quick_methods(problem: PlanningProblem) -> tuple[str, ...]:
    """Return the methods to try before processes are started."""
    if problem.objective is not Objective.MAKESPAN:
        return ()
    if _is_scheduling(problem):
        return ("rank",)
    return ("list",) if problem.layout is None or len(problem.tasks) <= FEW_TASKS else ()


def plan_problem(
    problem: PlanningProblem,
    effort: Effort,
    tell: Callable[[PlanResult], None] = lambda planned: None,
    start: Plan | None = None,
    bound: Bound | None = None,
) -> PlanResult:
    """Return the best plan found within the effort, no worse than `start`.

    The search calls `tell` with each better plan or bound. `bound` is a known lower bound; if it is None, it is computed.
    Raises the errors of `PlanningProblem.check` and `check_method`.
    """
    problem.check()
    check_method(effort.method, problem)
    began = time.monotonic()
    best = _Incumbent(problem, best_bound(problem) if bound is None else bound, began, tell)
    if start is not None:
        best.take(start, "start")
    search = Search(effort.seed, began + effort.seconds, effort.evaluations, best.bound.value)
    try:
        for name in find_quick_methods(problem) if effort.method == AUTO else ():
            for plan in METHODS[name](problem, search):
                best.take(plan, name)
        if not best.planned.is_optimal:
            _run_lanes(problem, effort, best, search)
    except KeyboardInterrupt:
        return best.planned._replace(is_interrupted=True)
    return best.planned


class _Incumbent:
    """The best plan and bound found so far."""

    def __init__(self, problem: PlanningProblem, bound: Bound, began: float, tell: Callable[[PlanResult], None]) -> None:
        self._problem = problem
        self.bound = bound
        self.plan: Plan | None = None
        self._method, self._seconds = "", 0.0
        self._began = began
        self._tell = tell

    @property
    def planned(self) -> PlanResult:
        return PlanResult(self.plan, self.bound, self._method, self._seconds)

    def take(self, plan: Plan, method: str) -> None:
        if not are_apart(self._problem, plan.devices):
            return
        # of equal plans, the same one is kept, no matter which lane is faster
        is_better = self.plan is None or (plan.value, plan.devices) < (self.plan.value, self.plan.devices)
        # the methods check permanent memory themselves, and the start may be known to fit
        is_limited = self._problem.memory is not None and method != "start"
        if is_better and is_limited and find_overfull_devices(self._problem, plan.devices):
            return
        if is_better or self.plan is None:
            self.plan, self._method, self._seconds = plan, method, time.monotonic() - self._began
            self._tell(self.planned)
        elif (plan.value, plan.devices) == (self.plan.value, self.plan.devices) and method < self._method:
            self._method = method

    def prove(self, value: float, method: str) -> None:
        if value > self.bound.value * (1 + 1e-12):
            self.bound = Bound(value, f"proven by {method}")
            self._tell(self.planned)

    def hear(self, news: LaneNews) -> None:
        """Take a message from a lane."""
        self.prove(news.proven, news.method)
        if news.plan is not None:
            self.take(news.plan, news.method)


class LaneNews(NamedTuple):
    """Message from a lane: a plan or a bound that a method found."""

    method: str
    plan: Plan | None
    proven: float


def _run_lanes(problem: PlanningProblem, effort: Effort, best: _Incumbent, search: Search) -> None:
    is_large = len(problem.tasks) > MANY_TASKS
    stages = lanes(problem)[: 1 if is_large else None] if effort.method == AUTO else (((effort.method, 1.0),),)
    # a lane does not depend on the number of processes, so that with counted work one seed gives one plan
    waiting = [
        (stage, replace(search, seed=effort.seed * len(stages) + number, start=best.plan, target=best.bound.value))
        for number, stage in enumerate(stages)
    ]
    if is_large or effort.needs_no_process:
        for stage, own in waiting:
            for told in run_stage(problem, stage, own):
                best.hear(told)
        return
    news: SimpleQueue[_Said] = SimpleQueue()
    running: set[Process] = set()
    start_lane = effort.open or open_here
    last = search.deadline + _GRACE * effort.seconds
    try:
        while waiting or running:
            while waiting and len(running) < max(1, effort.jobs):
                stage, own = waiting.pop(0)
                lane = start_lane()
                running.add(lane)
                left = None if effort.evaluations is not None else own.seconds_left
                task = LaneTask(problem, stage, own, left)
                Thread(target=_listen, args=(lane, task, news), name="placesim-plan", daemon=True).start()
            try:
                found = news.get(timeout=None if effort.evaluations is not None else max(0.0, last - time.monotonic()))
            except Empty:
                return
            if isinstance(found, _LaneEnd):
                running.remove(found.lane)
                found.lane.close()
                continue
            if isinstance(found, Exception):
                raise found
            best.hear(found)
            # with counted work, the result must not depend on which lane is faster
            if best.planned.is_optimal and effort.evaluations is None:
                return
    finally:
        for lane in running:
            lane.close()


class LaneTask(NamedTuple):
    """Task for a lane's process; `seconds` is its time limit, None if its work is counted in evaluations."""

    problem: PlanningProblem
    lane: SearchLane
    search: Search
    seconds: float | None

    def run(self) -> Iterator[LaneNews]:
        """Run the methods of the lane, each starting from the best plan so far, and yield their messages."""
        # the clocks of two processes may differ
        deadline = math.inf if self.seconds is None else time.monotonic() + self.seconds
        return run_stage(self.problem, self.lane, replace(self.search, deadline=deadline))


class _LaneEnd(NamedTuple):
    lane: Process


_Said = LaneNews | _LaneEnd | Exception


def _listen(lane: Process, task: LaneTask, news: SimpleQueue[_Said]) -> None:
    """Send a task to a process and forward its messages; the last message reports the end of the task."""
    try:
        lane.tell(task)
        while (said := lane.answer()) is not DONE:
            news.put(said)
        news.put(_LaneEnd(lane))
    except UnavailableError as error:  # no more process can be started
        news.put(error)
    except Exception:  # the process has ended or was stopped, and the search must learn of it
        news.put(_LaneEnd(lane))


def run_stage(problem: PlanningProblem, lane: SearchLane, search: Search) -> Iterator[LaneNews]:
    """Run methods one after another, each starting from the best plan so far, and yield their messages."""
    best = search.start
    for name, share in lane:
        part = search.share(share)
        part.start = best
        spent = part.evaluations_left
        for plan in METHODS[name](problem, part):
            if best is None or plan.value < best.value:
                best = plan
                yield LaneNews(name, plan, part.proven)
        if search.evaluations is not None:
            search.spend(spent - part.evaluations_left)
        if part.proven:
            search.prove(part.proven)
            yield LaneNews(name, None, part.proven)
        if search.is_over or (best is not None and search.is_met(best.value)):
            return
