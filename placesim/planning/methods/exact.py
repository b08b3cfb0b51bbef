"""Exact search by the constraint solver CP-SAT of OR-tools (extra `placesim[plan]`).

The solver uses whole numbers.  Times are scaled and rounded down, so its bounds hold for the true times too.
"""

from __future__ import annotations

import importlib.util
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from placesim.core.grouped import grouped
from placesim.machine.timelines.workload import Cores
from placesim.planning.loads import load_plan
from placesim.planning.methods.list_scheduling import end_first
from placesim.planning.peaks import peak_plan
from placesim.planning.problem import Objective, Plan, PlanningProblem, ProblemTensor
from placesim.planning.schedules import PrioritySchedules, assignments, heads, tails
from placesim.planning.search_budget import Search
from placesim.planning.time_windows import LinkTimes, Windows

MAX_TASKS = 2000
MAX_CHOICES = 12_000
"""Maximum number of groups times devices for an exact search."""
MAX_OVER_WAYS = 2000
"""Maximum number of groups times devices if transfer times depend on the devices.

Larger models prove nothing and take time from other searches.
"""
MAX_PLACES = 4000
"""Maximum number of tasks times devices for a makespan on different devices; beyond it, a minute of solving proves little."""
_UNITS = 1 << 28
WORKERS = 2
_DETERMINISTIC_PER_EVALUATION = 1e-4
"""Solver time units (about a second each) per counted evaluation."""


@cache
def has_solver() -> bool:
    """Return whether OR-tools is installed."""
    return importlib.util.find_spec("ortools") is not None


def solve(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Solve a problem with any objective except schedules on equal devices, and yield plans."""
    match problem.objective:
        case Objective.MAKESPAN:
            return solve_makespan(problem, search)
        case Objective.PEAK:
            return solve_peaks(problem, search)
    return solve_loads(problem, search)


def solve_schedule(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield the shortest schedule that the solver finds on equal devices.

    Yield nothing without the solver, for too many tasks, or if a time is not a whole number.
    """
    schedules = PrioritySchedules(problem)
    if (
        not has_solver()
        or len(problem.tasks) > MAX_TASKS
        or not all(time.is_integer() for time in map(float, schedules.seconds))
    ):
        return
    seconds = [int(time) for time in schedules.seconds]
    before, after = heads(problem, schedules.seconds), tails(problem, schedules.seconds)
    most = int(search.start.value) if search.start else sum(seconds)
    model: Any = _cp_model().CpModel()
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


def solve_loads(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield a plan that minimises the highest load of a pipeline; only transfers that are certain to happen count."""
    count = len(problem.groups) * len(problem.devices)
    most = MAX_CHOICES if problem.ways is None else MAX_OVER_WAYS
    if not has_solver() or count > most or not problem.groups:
        return
    scale = _UNITS / max(search.start.value if search.start else _most(problem), math.ulp(1.0))
    model: Any = _cp_model().CpModel()
    devices = range(len(problem.devices))
    on = _choices(model, problem)
    terms: list[list[Any]] = [[] for _ in devices]
    for group, choices in enumerate(on):
        for device in devices:
            if not _is_never(choices[device]):
                seconds = problem.group_seconds[group][problem.devices[device].kind]
                terms[device].append(choices[device] * int(min(seconds * scale, 2 * _UNITS)))
    _move(model, problem, on, terms, scale)
    if problem.needs_contiguous:
        _keep_together(model, problem, on)
    highest = model.new_int_var(int(search.target * scale * (1 - 1e-9)), 2 * _UNITS, "load")
    for device in devices:
        model.add(sum(terms[device]) <= highest)
    model.minimize(highest)
    if search.start:
        _hint(model, problem, on, search.start)
    solver, is_found = _solve(model, search)
    search.prove(solver.best_objective_bound / scale)
    if is_found:
        of_group = _read(solver, on)
        yield load_plan(problem, [of_group[group] for group in problem.group_of])


def solve_peaks(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield a plan that minimises the highest peak."""
    count = len(problem.devices)
    if not has_solver() or not problem.movable or len(problem.tasks) * count > MAX_CHOICES:
        return
    start = search.start
    if start is None:
        everywhere = math.fsum(problem.held) + math.fsum(tensor.size for tensor in problem.tensors)
    scale = _UNITS / max(start.value if start else everywhere, math.ulp(1.0))
    model: Any = _cp_model().CpModel()
    on = _choices(model, problem)
    highest = model.new_int_var(int(search.target * scale * (1 - 1e-9)), _UNITS, "peak")
    held = [
        sum(row[device] * int(min(size * scale, _UNITS + 1)) for row, size in zip(on, problem.held, strict=True) if size)
        for device in range(count)
    ]
    moments = _full_moments(problem)
    crowds: list[list[list[Any]]] = [[[] for _ in moments] for _ in range(count)]
    for tensor in problem.tensors:
        size = int(min(tensor.size * scale, _UNITS + 1))
        for device in sorted(tensor.only_on) or range(count) if size else ():
            for first, last, there in _presence(model, problem, on, tensor, device):
                for place in range(bisect_left(moments, first), bisect_right(moments, last)):
                    crowds[device][place].append(there * size)
    for device in range(count):
        for crowd in [[], *crowds[device]]:
            model.add(held[device] + sum(crowd) <= highest)
    model.minimize(highest)
    if start:
        _hint(model, problem, on, start)
    solver, is_found = _solve(model, search)
    search.prove(solver.best_objective_bound / scale)
    if is_found:
        of_group = _read(solver, on)
        yield peak_plan(problem, [of_group[group] for group in problem.group_of])


def _full_moments(problem: PlanningProblem) -> list[int]:
    """Return the moments at which memory can be at its maximum: after an allocation and before the next release."""
    made = {tensor.made for tensor in problem.tensors}
    read = {at for tensor in problem.tensors for at in (tensor.made, *(at for _, at in tensor.reads))}
    found, is_more = [], False
    for moment in sorted(made | read):
        is_more = is_more or moment in made
        if is_more and moment in read:
            found.append(moment)
            is_more = False
    return found


def _presence(
    model: Any, problem: PlanningProblem, on: Sequence[Sequence[Any]], tensor: ProblemTensor, device: int
) -> Iterator[tuple[int, int, Any]]:
    """Yield the intervals in which a tensor may be on a device: first and last moment, and a variable that is 1 if it is
    there.
    """
    own = problem.group_of[tensor.task]
    last: dict[int, int] = {} if tensor.is_kept else {own: tensor.made}
    for task, at in tensor.reads:
        group = problem.group_of[task]
        if not (tensor.is_kept and group == own):
            last[group] = max(at, last.get(group, at), tensor.made)
    later: Any = 0
    until: int | None = None
    # a later reader on the device keeps the tensor there; the latest comes first
    for at in sorted(set(last.values()), reverse=True):
        needing = [choice for group, moment in last.items() if moment == at and not _is_never(choice := on[group][device])]
        if until is not None and not _is_never(later):
            yield at + 1, until, later
        until = at
        if tensor.is_kept and not _is_never(on[own][device]):
            copies = []
            for choice in needing:
                copies.append(model.new_bool_var(""))
                model.add(choice - on[own][device] <= copies[-1])
            needing = copies
        choices = [choice for choice in (later, *needing) if not _is_never(choice)]
        if len(choices) > 1:
            later = model.new_bool_var("")
            for choice in choices:
                model.add_implication(choice, later)
        elif choices:
            later = choices[0]
    if until is not None and not _is_never(later):
        yield tensor.made, until, later


def _move(model: Any, problem: PlanningProblem, on: Sequence[Sequence[Any]], terms: list[list[Any]], scale: float) -> None:
    """Add the times of incoming and outgoing transfers to the terms of each device's load."""
    devices = range(len(problem.devices))
    ways = LinkTimes(problem)
    for task, readers in enumerate(problem.readers):
        own, others = problem.group_of[task], {problem.group_of[reader] for reader in readers}
        others.discard(own)
        seconds = ways.seconds(problem.tasks[task].sent)
        if not others or not seconds.any():
            continue
        if problem.ways is None:
            cost = int(problem.tasks[task].sent * scale)
            for device in devices:
                if problem.devices[device].pays and cost:
                    crosses = model.new_bool_var(f"{task} crosses {device}")
                    terms[device].append(crosses * cost)
                    for other in others:
                        model.add(on[own][device] - on[other][device] <= crosses)
                        model.add(on[other][device] - on[own][device] <= crosses)
            continue
        arrives = [model.new_bool_var(f"{task} arrives at {device}") for device in devices]
        for other in others:
            for device in devices:
                model.add(on[other][device] - on[own][device] <= arrives[device])
        for device in devices:
            if not problem.devices[device].pays:
                continue
            sides = (
                [(source, device) for source in devices if source != device],
                [(device, target) for target in devices if target != device],
            )
            for pairs in sides:
                costs = [int(min(seconds[pair] * scale, 2 * _UNITS)) for pair in pairs]
                if not any(costs):
                    continue
                # an outgoing tensor counts once, with its longest transfer
                paid = model.new_int_var(0, max(costs), f"{task} at {device}")
                terms[device].append(paid)
                for (source, target), cost in zip(pairs, costs, strict=True):
                    model.add(paid >= cost * (arrives[target] + on[own][source] - 1))


def _keep_together(model: Any, problem: PlanningProblem, on: Sequence[Sequence[Any]]) -> None:
    """Require that no path of forward tasks leaves a device and comes back to it."""
    for device in range(len(problem.devices)):
        left: dict[int, Any] = {}
        for task in problem.order:
            if problem.tasks[task].is_backward:
                continue
            here = on[problem.group_of[task]][device]
            sources = [source for source in problem.inputs[task] if source in left]
            left[task] = model.new_bool_var(f"a path to {task} left {device}") if sources else 0
            for source in sources:
                model.add(left[source] <= left[task])
                model.add(on[problem.group_of[source]][device] - here <= left[task])
            if sources:
                model.add(left[task] + here <= 1)


def _hint(model: Any, problem: PlanningProblem, on: Sequence[Sequence[Any]], best: Plan) -> None:
    for group, members in enumerate(problem.groups):
        for device, choice in enumerate(on[group]):
            if not _is_never(choice):
                model.add_hint(choice, best.devices[members[0]] == device)


def solve_makespan(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Minimise the makespan on devices and links that differ, and yield increasingly better plans.

    The solver's model is a relaxation, so its bounds are valid. In the model, links are never busy, and streams and slots run
    one task at a time in the best order. Its solutions are evaluated by simulation. While the bound is below the best plan,
    solutions that were already evaluated are excluded, and the solver runs again.
    """
    count, movable = len(problem.devices), problem.movable
    if not has_solver() or not movable or len(problem.tasks) * count > MAX_PLACES:
        return
    measured, best = assignments(problem), search.start
    if best is None:
        best = next(end_first(problem, search), None)
        if best is None:
            return
        yield best
    model = _Makespan(problem, best.value)
    while not search.is_over and not search.is_met(best.value):
        model.improve(best, search.target)
        solver, status, found = _collect(model, search)
        if status == _cp_model().INFEASIBLE:
            search.prove(best.value)
            return
        search.prove(min(best.value, solver.best_objective_bound / model.scale))
        # the solver's improvements need not be better in the simulation
        for of_group in found:
            plan = measured.plan([of_group[group] for group in problem.group_of])
            search.spend(1)
            if plan.value < best.value:
                best = plan
                yield plan
            model.exclude(of_group)
        if status != _cp_model().OPTIMAL:
            return


class _Makespan:
    """The solver's model of a makespan; a second has `scale` units."""

    def __init__(self, problem: PlanningProblem, most: float) -> None:
        self.problem = problem
        self.scale = _UNITS / max(most, math.ulp(1.0))
        self.model: Any = _cp_model().CpModel()
        self._windows = Windows(problem)
        self._devices = range(len(problem.devices))
        self._on = _choices(self.model, problem)
        self.end = self.model.new_int_var(0, _UNITS, "end")
        self._begins: list[Any] = []
        self._ends: list[Any] = []
        for task, group in enumerate(problem.group_of):
            self._time(task, self._on[group])
        for task, group in enumerate(problem.group_of):
            for source in problem.inputs[task]:
                self._wait(task, source, self._on[group], self._on[problem.group_of[source]])
        self._share_devices()
        self.model.minimize(self.end)

    def _units(self, seconds: float) -> int:
        # times longer than the best plan are excluded, so their exact value does not matter
        return int(min(seconds * self.scale, 2 * _UNITS))

    def _time(self, task: int, on: Sequence[Any]) -> None:
        """Add the variables for a task's start and end, with their bounds from time windows."""
        begin = self.model.new_int_var(0, _UNITS, f"begin of {task}")
        windows, can = self._windows, [d for d in self._devices if not _is_never(on[d])]
        end = begin + sum(on[d] * self._units(windows.paths[task, d]) for d in can)
        self.model.add(begin >= sum(on[d] * self._units(windows.begins[task, d]) for d in can))
        rest = sum(on[d] * self._units(windows.paths[task, d] + windows.after[task, d]) for d in can)
        # a sum of rounded-down times is less than the rounded sum by at most one unit per task
        self.model.add(begin + rest <= self.end + len(self.problem.tasks))
        self.model.add(end <= self.end)
        self._begins.append(begin)
        self._ends.append(end)

    def _wait(self, task: int, source: int, on: Sequence[Any], source_on: Sequence[Any]) -> None:
        begin, there, problem = self._begins[task], self._ends[source], self.problem
        self.model.add(begin >= there)
        if problem.group_of[task] == problem.group_of[source]:
            return
        ways, launches = self._windows.ways.seconds(problem.tasks[source].sent), self._windows.launches
        senders = [device for device in self._devices if not _is_never(source_on[device])]
        later, waits = begin - there, dict[int, Any]()  # one constraint for all transfers that take equal time
        for target in self._devices:
            if _is_never(on[target]):
                continue
            for device in senders:
                moved = self._units(ways[device, target] + launches[task, target])
                if device == target or not moved:
                    continue
                if moved not in waits:
                    waits[moved] = later >= moved
                self.model.add(waits[moved]).only_enforce_if(on[target], source_on[device])

    def _share_devices(self) -> None:
        """Limit the tasks that run at the same time: one per stream, or one per slot of a device if there is no layout."""
        problem, layout = self.problem, self.problem.layout
        places = grouped((device if layout is None else layout.places[device], device) for device in self._devices)
        for place, devices in places.items():
            if layout is not None and isinstance(layout.resources[place], Cores):
                continue  # tasks share cores, so no core is reserved for one
            busy = [
                self.model.new_optional_fixed_size_interval_var(self._begins[task], work, self._on[group][device], "")
                for device in devices
                for task, group in enumerate(problem.group_of)
                if not _is_never(self._on[group][device]) and not problem.tasks[task].is_divided
                if (work := self._units(problem.tasks[task].work_seconds[problem.devices[device].kind]))
            ]
            slots = problem.devices[devices[0]].slots if layout is None else 1
            if slots == 1:
                self.model.add_no_overlap(busy)
            else:
                self.model.add_cumulative(busy, [1] * len(busy), slots)

    def improve(self, best: Plan, least: float) -> None:
        """Require a value between `least` and the value of the best plan."""
        self.model.add(self.end <= self._units(best.value))
        self.model.add(self.end >= self._units(least) - len(self.problem.tasks))
        self.model.clear_hints()
        _hint(self.model, self.problem, self._on, best)

    def read(self, solver: Any) -> tuple[int, ...]:
        """Return the device of each group in the solver's current solution."""
        return _read(solver, self._on)

    def exclude(self, of_group: Sequence[int]) -> None:
        """Exclude an assignment of groups to devices."""
        movable = self.problem.movable
        self.model.add(sum(self._on[group][of_group[group]] for group in movable) < len(movable))


def _choices(model: Any, problem: PlanningProblem) -> list[list[Any]]:
    """Return the variables that assign each group to each device; 0 for impossible pairs."""
    devices = range(len(problem.devices))
    on = [
        [model.new_bool_var(f"{group} on {device}") if problem.can_run(group, device) else 0 for device in devices]
        for group in range(len(problem.groups))
    ]
    for choices in on:
        model.add_exactly_one(choice for choice in choices if not _is_never(choice))
    for device in devices:
        if math.isfinite(problem.devices[device].capacity):
            _hold(model, problem, on, device)
        for row in problem.apart:
            model.add_at_most_one(on[group][device] for group in row if not _is_never(on[group][device]))
    return on


def _is_never(choice: Any) -> bool:
    return isinstance(choice, int)


def _read(solver: Any, on: Sequence[Sequence[Any]]) -> tuple[int, ...]:
    """Return the device of each group that the solver chose."""
    return tuple(next(d for d, choice in enumerate(row) if not _is_never(choice) and solver.value(choice)) for row in on)


def _most(problem: PlanningProblem) -> float:
    """Return an upper bound of any load."""
    times = (
        max(filter(math.isfinite, task.seconds), default=0.0) + 2 * task.makes * len(problem.devices) for task in problem.tasks
    )
    return math.fsum(times)


def _hold(model: Any, problem: PlanningProblem, on: list[list[Any]], device: int) -> None:
    """Limit the memory in use, rounded down, to the capacity, rounded up, so that no valid plan is excluded."""
    capacity = problem.devices[device].capacity
    unit = max(capacity, 1e-300) / _UNITS
    sizes = [int(min(held / unit, 2.0 * _UNITS)) for held in problem.held]
    model.add(sum(choices[device] * size for choices, size in zip(on, sizes, strict=True) if size) <= _UNITS)


def _cp_model() -> Any:
    """Import the solver, which takes long, and return its module."""
    from ortools.sat.python import cp_model

    return cp_model


def _solve(model: Any, search: Search) -> tuple[Any, bool]:
    """Run the solver.  Return it, and whether it found a solution."""
    solver, status = _run(model, search)
    return solver, status in (_cp_model().OPTIMAL, _cp_model().FEASIBLE)


def _collect(model: _Makespan, search: Search) -> tuple[Any, Any, list[tuple[int, ...]]]:
    """Run the solver.  Return it, its status, and the assignments of its solutions; the best comes first."""
    found: dict[tuple[int, ...], None] = {}

    class _Solutions(_cp_model().CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            found[model.read(self)] = None

    solver, status = _run(model.model, search, _Solutions())
    return solver, status, list(reversed(found))


def _run(model: Any, search: Search, told: Any = None) -> tuple[Any, Any]:
    """Run the solver. Return it and its status. `told` is a callback for solutions."""
    solver: Any = _cp_model().CpSolver()
    parameters = solver.parameters
    parameters.random_seed = search.seed % (1 << 31)
    if search.evaluations is None:
        parameters.max_time_in_seconds = min(search.seconds_left, 1e6)
        parameters.num_workers = WORKERS
    else:
        parameters.max_deterministic_time = search.evaluations_left * _DETERMINISTIC_PER_EVALUATION
        parameters.num_workers = 1
    parameters.catch_sigint_signal = False  # otherwise Python would lose its own handler
    # the solver does not return to Python on Ctrl-C, but waiting for a thread does
    with ThreadPoolExecutor(1) as threads:
        try:
            status = threads.submit(solver.solve, model, told).result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise
    search.spend(math.ceil(solver.response_proto.deterministic_time / _DETERMINISTIC_PER_EVALUATION))
    return solver, status
