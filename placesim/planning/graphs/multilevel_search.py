"""Multilevel search for a plan: coarse problems first, each starting from the best plan of the previous level."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from placesim.planning.bounds import Bound
from placesim.planning.coarsening import coarsen_levels, identity_problem
from placesim.planning.graphs.plan_comparison import PLANNED, Aim, SimulatedPlacement
from placesim.planning.graphs.problem_building import GraphProblem, relax_capacities
from placesim.planning.loads import is_contiguous
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.objectives import measure
from placesim.planning.portfolio import MANY_TASKS, Effort, PlanResult, plan_problem
from placesim.planning.problem import PlanningProblem, are_apart, can_run_all
from placesim.planning.search_budget import Search

MOST_TASKS = 600
"""Approximate maximum number of clusters, since an evaluation costs microseconds per task."""
REFINED_TASKS = 20_000
"""Maximum number of tasks for improving a plan of clusters task by task."""
SIMULATED = 2
"""Number of found plans that are always simulated as graphs: the plans with the best values in the problem."""
FINALIST_TASKS, MAX_FINALISTS = 600, 10
"""Maximum number of tasks of a problem for which more plans are simulated, and the maximum number of these plans.

Simulation is more exact: a problem leaves out transfers between a GPU and its host memory, and estimates peaks.
"""
_LESS = 0.97


class Candidate(NamedTuple):
    """A device for each task, with a label and the method that found it."""

    label: str
    devices: tuple[int, ...]
    method: str = ""


def search_plans(
    drawn: GraphProblem,
    known: Sequence[tuple[int, ...]],
    effort: Effort,
    bound: Bound,
    aim: Aim,
    tell: Callable[[PlanResult], None],
) -> tuple[list[Candidate], PlanResult]:
    """Return plans that were not simulated yet, and the result of the search."""
    search = Search(deadline=time.monotonic() + effort.seconds, evaluations=effort.evaluations)
    measured = measure(drawn.problem)
    if len(drawn.problem.tasks) > MANY_TASKS:
        known = ()
    is_fitting = drawn.problem.memory is not None
    allowed = (devices for devices in known if is_fitting or not find_overfull_devices(drawn.problem, devices))
    allowed = (devices for devices in allowed if meets_constraints(drawn, devices, aim))
    start = min((measured.plan(row) for row in allowed if not search.is_late), key=lambda plan: plan.value, default=None)
    found: list[Candidate] = []
    is_small = len(drawn.problem.tasks) <= FINALIST_TASKS
    planned = PlanResult(None, bound, "", 0.0)
    # the methods for a machine with a layout make their own clusters
    is_whole = drawn.problem.layout is not None
    stages = [identity_problem(drawn.problem)] if is_whole else coarsen_levels(drawn.problem, MOST_TASKS, REFINED_TASKS)
    best: tuple[int, ...] | None = None
    for level in stages:
        is_fine = level.problem is drawn.problem
        begin = None
        if best is not None:
            devices = best if is_fine else level.contract(best)
            is_apart = are_apart(level.problem, devices)
            if not find_overfull_devices(level.problem, devices) and can_run_all(level.problem, devices) and is_apart:
                begin = measure(level.problem).plan(devices)
        if is_fine and start is not None and (begin is None or start.value < begin.value):
            begin = start
        better: deque[tuple[int, ...]] = deque(maxlen=MAX_FINALISTS if is_small else 0)
        told = _reporter(tell, better, None if is_fine else bound)
        # a bound for the whole problem need not hold for clusters, whose times are estimates
        own = share_effort(effort, 1 / len(stages))
        own = replace(own, seconds=min(own.seconds, search.seconds_left))
        planned = plan_problem(level.problem, own, told, begin, bound if is_fine else None)
        found += [Candidate(PLANNED, level.expand(devices), planned.method) for devices in better]
        if planned.plan is not None:
            best = level.expand(planned.plan.devices)
            found.append(Candidate(PLANNED, best, planned.method))
        if is_fine:
            bound = planned.bound
        if planned.is_interrupted:
            break
    # the finest level comes last and often is the best; simulation of the whole problem selects among the others
    if len(found) > 1:
        values = {candidate.devices: measured.plan(candidate.devices).value for candidate in found}
        distinct = {candidate.devices: candidate for candidate in found}.values()
        found = sorted(distinct, key=lambda candidate: values[candidate.devices])[: MAX_FINALISTS if is_small else SIMULATED]
    return found, planned._replace(bound=bound)


def _reporter(
    tell: Callable[[PlanResult], None], better: deque[tuple[int, ...]], bound: Bound | None
) -> Callable[[PlanResult], None]:
    """Return a function that reports each better plan to `tell`, and adds the plan's devices to `better`.

    If `bound` is given, it replaces the plan's bound: a bound for clusters does not hold for plans that divide clusters.
    """

    def told(planned: PlanResult) -> None:
        if planned.plan is not None:
            better.append(planned.plan.devices)
        tell(planned if bound is None else planned._replace(bound=bound))

    return told


def meets_constraints(drawn: GraphProblem, devices: Sequence[int], aim: Aim) -> bool:
    """Return whether an assignment satisfies the requested contiguity and separation of groups."""
    is_whole = not aim.needs_contiguous or is_contiguous(drawn.problem, devices)
    return is_whole and are_apart(drawn.problem, devices)


def share_effort(effort: Effort, share: float) -> Effort:
    """Return an effort with a fraction `share` of the seconds and evaluations."""
    counted = None if effort.evaluations is None else max(1, round(effort.evaluations * share))
    return replace(effort, seconds=effort.seconds * share, evaluations=counted)


def has_room_for_all(problem: PlanningProblem) -> bool:
    """Return whether each device has room for all groups, so that no capacity matters."""
    total = math.fsum(problem.held)
    return all(total <= device.capacity for device in problem.devices)


def tighten_capacities(drawn: GraphProblem, devices: Sequence[int], placed: SimulatedPlacement) -> GraphProblem:
    """Reduce the capacity of each device whose peak exceeded its limit, in proportion to the excess."""
    held = [0.0] * len(drawn.devices)
    for task, device in enumerate(devices):
        held[device] += drawn.problem.tasks[task].holds
    peaks = {} if placed.study is None else {device.device: device for device in placed.study.devices}
    found = []
    for number, room in enumerate(drawn.problem.devices):
        known = peaks.get(room.name)
        if known is not None and known.limit is not None and known.peak is not None and known.peak > known.limit:
            capacity = min(room.capacity, held[number] * known.limit / known.peak) * _LESS
            found.append(room._replace(capacity=capacity))
        else:
            found.append(room)
    return replace(drawn, problem=relax_capacities(replace(drawn.problem, devices=tuple(found)), drawn.groups))
