"""Exact search by a constraint solver, CP-SAT of OR-tools, which comes with `placesim[plan]`; without it there is none.

The solver works in whole numbers: times are scaled and rounded down, so that what it proves holds for the true ones as well.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

from placesim.planning.loads import load_plan
from placesim.planning.problem import Plan, Problem
from placesim.planning.schedules import PrioritySchedules, heads, tails
from placesim.planning.search import Search

MAX_TASKS = 2000
MAX_CHOICES = 12_000
"""Groups times devices: more than that are not searched exactly."""
_UNITS = 1 << 28
WORKERS = 2
_DETERMINISTIC_PER_EVALUATION = 1e-4
"""The solver's own unit of work is about a second; where work is counted, an evaluation is so much of it."""


@cache
def has_solver() -> bool:
    """Whether OR-tools is installed."""
    return importlib.util.find_spec("ortools") is not None


def solve_schedule(problem: Problem, search: Search) -> Iterator[Plan]:
    """The shortest schedule on devices that are alike, where all times are whole."""
    schedules = PrioritySchedules(problem)
    if (
        not has_solver()
        or len(problem.tasks) > MAX_TASKS
        or not all(time.is_integer() for time in map(float, schedules.seconds))
    ):
        return
    from ortools.sat.python import cp_model

    seconds = [int(time) for time in schedules.seconds]
    before, after = heads(problem, schedules.seconds), tails(problem, schedules.seconds)
    most = int(search.start.value) if search.start else sum(seconds)
    model: Any = cp_model.CpModel()
    end = model.new_int_var(math.ceil(search.target), most, "end")
    starts = [
        model.new_int_var(int(before[task]), most - time - int(after[task]), f"start of {task}")
        for task, time in enumerate(seconds)
    ]
    for task, time in enumerate(seconds):
        for source in problem.inputs[task]:
            model.add(starts[source] + seconds[source] <= starts[task])
        if not problem.readers[task]:
            model.add(starts[task] + time <= end)
    if search.start and search.start.starts:
        for start, hint in zip(starts, search.start.starts, strict=True):
            model.add_hint(start, int(hint))
    busy = [model.new_fixed_size_interval_var(starts[task], time, f"{task}") for task, time in enumerate(seconds) if time]
    model.add_cumulative(busy, [1] * len(busy), sum(device.slots for device in problem.devices))
    model.minimize(end)
    solver, is_found = _solve(model, search)
    search.prove(solver.best_objective_bound)
    if is_found:
        yield schedules.plan([float(solver.value(start)) for start in starts])


def solve_loads(problem: Problem, search: Search) -> Iterator[Plan]:
    """The least highest load of a pipeline, where every way costs the same."""
    count = len(problem.groups) * len(problem.devices)
    if not has_solver() or problem.ways is not None or problem.needs_contiguous or count > MAX_CHOICES:
        return
    from ortools.sat.python import cp_model

    scale = _UNITS / max(search.start.value if search.start else _most(problem), math.ulp(1.0))
    model: Any = cp_model.CpModel()
    devices = range(len(problem.devices))
    on = [[model.new_bool_var(f"{group} on {device}") for device in devices] for group in range(len(problem.groups))]
    terms: list[list[Any]] = [[] for _ in devices]
    for group, choices in enumerate(on):
        model.add_exactly_one(choices)
        for device in devices:
            if not problem.can_run(group, device):
                model.add(choices[device] == 0)
            else:
                terms[device].append(choices[device] * int(problem.group_seconds[group][problem.devices[device].kind] * scale))
    for device in devices:
        if math.isfinite(problem.devices[device].capacity):
            _hold(model, problem, on, device)
    for task, readers in enumerate(problem.readers):
        own, others = problem.group_of[task], {problem.group_of[reader] for reader in readers}
        others.discard(own)
        cost = int(problem.tasks[task].makes * scale)
        if others and cost:
            for device in devices:
                if problem.devices[device].pays:
                    crosses = model.new_bool_var(f"{task} crosses {device}")
                    terms[device].append(crosses * cost)
                    for other in others:
                        model.add_implication(on[own][device], on[other][device]).only_enforce_if(crosses.negated())
                        model.add_implication(on[other][device], on[own][device]).only_enforce_if(crosses.negated())
    highest = model.new_int_var(int(search.target * scale), 2 * _UNITS, "load")
    for device in devices:
        model.add(sum(terms[device]) <= highest)
    model.minimize(highest)
    if search.start:
        for group, members in enumerate(problem.groups):
            for device in devices:
                model.add_hint(on[group][device], search.start.devices[members[0]] == device)
    solver, is_found = _solve(model, search)
    search.prove(solver.best_objective_bound / scale)
    if is_found:
        of_group = [next(device for device in devices if solver.value(choices[device])) for choices in on]
        yield load_plan(problem, [of_group[group] for group in problem.group_of])


def _most(problem: Problem) -> float:
    """No load can be higher."""
    times = (
        max(filter(math.isfinite, task.seconds), default=0.0) + 2 * task.makes * len(problem.devices) for task in problem.tasks
    )
    return math.fsum(times)


def _hold(model: Any, problem: Problem, on: list[list[Any]], device: int) -> None:
    """What is held, rounded down, is within the capacity, rounded up: nothing that fits is excluded."""
    capacity = problem.devices[device].capacity
    unit = max(capacity, 1e-300) / _UNITS
    sizes = [int(held / unit) for held in problem.held]
    model.add(sum(choices[device] * size for choices, size in zip(on, sizes, strict=True) if size) <= _UNITS)


def _solve(model: Any, search: Search) -> tuple[Any, bool]:
    """The solver after its search, and whether it found anything."""
    from ortools.sat.python import cp_model

    solver: Any = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = search.seed % (1 << 31)
    if search.evaluations is None:
        parameters.max_time_in_seconds = min(search.seconds_left, 1e6)
        parameters.num_workers = WORKERS
    else:
        parameters.max_deterministic_time = search.evaluations_left * _DETERMINISTIC_PER_EVALUATION
        parameters.num_workers = 1
    status = solver.solve(model)
    return solver, status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
