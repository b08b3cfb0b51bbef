"""Lower bounds of plans, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from placesim.machine.timelines.workload import Cores
from placesim.planning.peaks import least_peak
from placesim.planning.problem import Objective, PlanningProblem
from placesim.planning.schedules import heads, tails
from placesim.planning.time_windows import MAX_TASKS as MAX_WINDOWS
from placesim.planning.time_windows import Windows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_INTERVAL_TASKS = 500
"""Maximum number of tasks for the interval bound, which considers all pairs of end points."""
MAX_WINDOW_POINTS = 400
"""Maximum number of window start times that are tried."""
MAX_RELAXED = 50_000
"""Maximum number of groups for which HiGHS solves the relaxation. With more, HiGHS would take gigabytes of memory, and
`_priced_work` is used instead.
"""
ALIVE_AT_ONCE = "tensors alive at one time, divided among the devices"
"""Reason of a bound for the peak of memory."""
_PRICE_STEPS, _PRICE_ROUNDS = 40, 2
_SLACK = 1e-9


class Bound(NamedTuple):
    """A lower bound for the value of every plan, with its reason."""

    value: float
    why: str

    def gap(self, value: float) -> float:
        """Return the largest possible improvement of a value, as a share of the value."""
        return max(0.0, 1 - self.value / value) if value else 0.0


def lower_bounds(problem: PlanningProblem) -> Iterator[Bound]:
    """Yield valid lower bounds of a problem, cheap ones first."""
    if not problem.tasks:
        return
    if problem.objective is Objective.PEAK:
        yield Bound(least_peak(problem), ALIVE_AT_ONCE)
        return
    least = [min(task.path_seconds) for task in problem.tasks]
    if problem.objective is not Objective.LOAD:
        before, after = heads(problem, least), tails(problem, least)
        path = max(a + b + c for a, b, c in zip(before, least, after, strict=True))
        yield Bound(path, "critical path with free transfers")
    if problem.objective is Objective.CALLS:
        return
    work, prices = relaxed_work(problem)
    yield Bound(work, "total work divided among the devices, free transfers")
    if problem.objective is Objective.MAKESPAN and len(problem.tasks) <= MAX_WINDOWS:
        windows = Windows(problem)
        yield Bound(float(windows.seconds().min(axis=1).max()), "critical path incl. unavoidable transfers")
        yield Bound(window_bound(problem, windows, prices), "work between the longest paths before and after it")
    if problem.objective is Objective.LOAD:
        yield Bound(max(min(row) for row in problem.group_seconds), "largest group")
    elif problem.are_devices_alike and len(problem.tasks) <= MAX_INTERVAL_TASKS and all(float(t).is_integer() for t in least):
        slots = _slots(problem, problem.devices[0].kind)
        floor = math.ceil(max(path, sum(least) / slots) - _SLACK)
        yield Bound(interval_bound(before, least, after, slots, floor), "work that must fall in one interval")


def best_bound(problem: PlanningProblem) -> Bound:
    """Return the highest lower bound."""
    return max(lower_bounds(problem), key=lambda bound: bound.value, default=Bound(0.0, "nothing to do"))


def relaxed_work(problem: PlanningProblem) -> tuple[float, dict[int, float]]:
    """Return the optimum of the linear relaxation, and for each kind of device the dual price of a second on one slot.

    In the relaxation, a group may be divided among kinds of devices. All slots of a kind work in parallel and share the kind's
    total memory. HiGHS solves it. The returned optimum is the dual value, because only this is certain to be a lower bound. The
    prices of all slots sum to 1.
    """
    kinds = [devices for devices in problem.kinds if devices]
    of_kind = [problem.devices[devices[0]].kind for devices in kinds]
    slots = [_slots(problem, kind) for kind in of_kind]
    work = [
        [math.fsum(problem.tasks[task].work_seconds[kind] for task in members) for kind in of_kind]
        for members in problem.groups
    ]
    if len(kinds) == 1:
        return math.fsum(row[0] for row in work) / slots[0], {of_kind[0]: 1 / slots[0]}
    count = len(problem.groups)
    seconds = np.array(work, float)
    if count > MAX_RELAXED:
        value, prices = _priced_work(seconds, np.array(slots, float))
        return value, {kind: float(price) for kind, price in zip(of_kind, prices, strict=True)}
    capacity = np.array([sum(problem.devices[n].capacity for n in devices) for devices in kinds])
    found = _solved_relaxation(seconds, slots, capacity, np.array(problem.held))
    if found is None:
        return 0.0, dict.fromkeys(of_kind, 1 / sum(slots))
    value, worth = found
    total = float(worth @ np.array(slots))
    return value, {kind: float(price / total) if total else 1 / sum(slots) for kind, price in zip(of_kind, worth, strict=True)}


def _solved_relaxation(
    seconds: np.ndarray, slots: Sequence[float], capacity: np.ndarray, held: np.ndarray
) -> tuple[float, np.ndarray] | None:
    """Return the least possible time of the busiest slot, and the dual price of a second on each kind of device.

    Return None if HiGHS finds no solution. `seconds` is `[groups, kinds]`, infinite if the kind cannot run the group. `held`
    has the memory of each group.
    """
    # these imports take longer than all others of a search
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array, vstack

    count, kinds = seconds.shape
    can = np.isfinite(seconds)
    scale = float(np.where(can, seconds, 0).max()) or 1.0
    # variables: the share of each group on each kind, then the load
    size = count * kinds + 1
    values, places, limits, load_rows = _relaxed_limits(np.where(can, seconds, 0) / scale, slots, capacity, held)
    upper = coo_array((values, places), (len(limits), size))
    whole = coo_array((np.ones(count * kinds), (np.repeat(np.arange(count), kinds), np.arange(count * kinds))), (count, size))
    highest: list[tuple[float, float | None]] = [(0.0, 1.0 if allowed else 0.0) for allowed in can.ravel()]
    highest.append((0.0, None))
    cost = np.zeros(size)
    cost[-1] = 1
    solve: Any = linprog  # its type stubs lack sparse matrices
    found = solve(cost, upper, limits, whole, np.ones(count), highest, method="highs")
    if found.status != 0:
        return None
    value = max(0.0, _certain(found, cost, csr_array(vstack([upper, whole])), [*limits, *np.ones(count)], highest)) * scale
    return value, -np.minimum(found.ineqlin.marginals, 0)[load_rows]


def _relaxed_limits(
    seconds: np.ndarray, slots: Sequence[float], capacity: np.ndarray, held: np.ndarray
) -> tuple[list[float], tuple[list[int], list[int]], list[float], list[int]]:
    """Return constraints: matrix entries, their (rows, columns), the upper limits of rows, and the indices of load rows."""
    count, kinds = seconds.shape
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    limits: list[float] = []
    load_rows: list[int] = []
    for kind in range(kinds):
        load_rows.append(len(limits))
        at = np.arange(count) * kinds + kind
        rows += [len(limits)] * (count + 1)
        columns += [*at, count * kinds]
        values += [*seconds[:, kind], -slots[kind]]
        limits.append(0.0)
        if np.isfinite(capacity[kind]) and capacity[kind] > 0:
            rows += [len(limits)] * count
            columns += [*at]
            values += [*held / capacity[kind]]
            limits.append(1.0)
    return values, (rows, columns), limits, load_rows


def window_bound(problem: PlanningProblem, windows: Windows, prices: Mapping[int, float]) -> float:
    """Return a lower bound of the makespan from time windows.

    Take all tasks that start at `begin` or later, and are followed by paths of at least `after` seconds. The makespan is at
    least `begin`, plus their work shared among all slots, plus `after`. `prices` weights the seconds of each device kind; any
    prices that sum to 1 over all slots give a valid bound.
    """
    kinds = [device.kind for device in problem.devices]
    work = np.array([[task.work_seconds[kind] for kind in kinds] for task in problem.tasks], float)
    priced = np.where(np.isinf(work), np.inf, np.where(np.isinf(work), 0, work) * np.array([prices[kind] for kind in kinds]))
    cost = priced.min(axis=1)
    begins = np.where(np.isinf(work), np.inf, windows.begins).min(axis=1)
    after = np.where(np.isinf(work), np.inf, windows.after).min(axis=1)
    rank = np.argsort(-after, kind="stable")
    cost, begins, after = cost[rank], begins[rank], after[rank]
    points, best = np.unique(begins), 0.0
    for begin in points[:: -(-len(points) // MAX_WINDOW_POINTS)]:
        inside = np.cumsum(np.where(begins >= begin, cost, 0.0))
        best = max(best, float(np.where(begins >= begin, begin + inside + after, 0.0).max()))
    return best * (1 - _SLACK)


def _priced_work(seconds: np.ndarray, slots: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the total cost if each group runs on its cheapest kind, and the price of a second on each kind.

    `seconds` is `[groups, kinds]`. For any prices that sum to 1 over all slots, the total is at most the optimum of the
    relaxation. Without capacities, it equals the optimum at the best prices. The search moves price between pairs of kinds.
    """
    finite = np.where(np.isfinite(seconds), seconds, 0.0)

    def worth(shares: np.ndarray) -> float:
        priced = np.where(np.isfinite(seconds), finite * (shares / slots), np.inf)
        return float(priced.min(axis=1).sum())

    best = slots / slots.sum()
    for first, second in list(combinations(range(len(slots)), 2)) * _PRICE_ROUNDS:
        both = best[first] + best[second]
        low, high = 0.0, float(both)
        for _ in range(_PRICE_STEPS):
            near, far = best.copy(), best.copy()
            near[first], far[first] = low + (high - low) / 3, high - (high - low) / 3
            near[second], far[second] = both - near[first], both - far[first]
            if worth(near) < worth(far):
                low = near[first]
            else:
                high = far[first]
        trial = best.copy()
        trial[first] = (low + high) / 2
        trial[second] = both - trial[first]
        if worth(trial) > worth(best):
            best = trial
    return worth(best) * (1 - _SLACK), best / slots


def _slots(problem: PlanningProblem, kind: int) -> int:
    """Return the number of tasks that the devices of a kind run at once. Cores that several devices share count once."""
    devices = problem.kinds[kind]
    if problem.layout is None:
        return sum(problem.devices[n].slots for n in devices)
    places = {problem.layout.places[n] for n in devices}
    found = (problem.layout.resources[place] for place in places)
    return sum(resource.cores if isinstance(resource, Cores) else 1 for resource in found)


def _certain(
    found: Any, cost: np.ndarray, matrix: csr_array, sides: Sequence[float], limits: Sequence[tuple[float, float | None]]
) -> float:
    """Return the dual objective for the solver's multipliers, which is a valid bound even for rounded multipliers."""
    duals = np.concatenate([np.minimum(found.ineqlin.marginals, 0), found.eqlin.marginals])
    # the load's column has no upper limit, so its reduced cost must not be below 0
    column = matrix[:, [matrix.shape[1] - 1]].toarray().ravel()
    worth = float(duals @ column)
    if worth > cost[-1]:
        duals *= cost[-1] / worth
    reduced = cost - matrix.T @ duals
    below = sum(min(0.0, float(r)) * high for r, (_, high) in zip(reduced, limits, strict=True) if high)
    return float(duals @ np.asarray(sides)) + below - _SLACK


def interval_bound(
    before: Sequence[float], seconds: Sequence[float], after: Sequence[float], slots: int, floor: float
) -> float:
    """Return the smallest integer makespan for which no time interval has more work than the slots can do in that interval.

    Times are integers. Each task has an earliest and a latest start. Only the part of a task that lies in the interval at every
    allowed start counts. Source: Fernandez and Bussell, 1973.
    """
    counted = [n for n, time in enumerate(seconds) if time]
    release, time = (np.array([row[n] for n in counted]) for row in (before, seconds))
    tail = np.array([after[n] for n in counted])
    value = floor
    while True:
        due = value - tail
        points = np.unique(np.concatenate([release, due]))
        points = points[(points >= 0) & (points <= value)]
        over = 0.0
        for begin in points:
            ends = points[points > begin]
            if not len(ends):
                continue
            width = ends - begin
            early = np.clip(release + time - begin, 0, time)
            late = np.clip(ends[:, None] - (due - time)[None], 0, time[None])
            inside = np.minimum(np.minimum(early[None], late), width[:, None]).sum(axis=1)
            over = max(over, float((inside - slots * width).max()))
        if over <= _SLACK:
            return value
        value += max(1.0, math.ceil(over / slots - _SLACK))
