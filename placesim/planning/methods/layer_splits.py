"""Plans for a simulated machine that give each device consecutive layers, cut at several places.

The gradients of a layer's weights are near the end of a step, as few other tasks wait for them. So with an order by distance
from the nearest end of the step, the devices work side by side.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from placesim.planning.memory_limits import find_overfull_devices, limited_peaks
from placesim.planning.methods.estimated_moves import MAX_TASKS
from placesim.planning.methods.limited_memory import FittingMoves
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedules import SimulatedSchedule, heads, tails
from placesim.planning.search_budget import Search

POWERS = (1.0, 0.5, 2.0, 0.7, 1.4)
"""Powers of the equal shares at which an order is cut: with a power above 1, the first devices get less."""
MAX_SIMULATED = 8
"""Maximum number of cuts that are simulated if peaks are limited."""
FINALISTS, NEAR = 3, 1.03
"""Maximum number of cuts of which one is made to fit, and the factor within which they count as equally good.

A cut is made to fit only if it is better than the best plan by more than this factor.
"""


def split_layers(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better plans: the cuts that fit and, if peaks are limited, changes of one of the best cuts until it fits."""
    if problem.layout is None or len(problem.tasks) > MAX_TASKS:
        return
    simulated, best = SimulatedSchedule(problem), math.inf if search.start is None else search.start.value
    ranked: list[tuple[float, tuple[int, ...]]] = []
    for devices, excess in easiest_splits(problem):
        if search.is_over or search.is_met(best):
            return
        search.spend(1)
        seconds = simulated.seconds(devices)
        ranked.append((seconds * (1 + excess), devices))
        if seconds < best and not find_overfull_devices(problem, devices):
            best = seconds
            yield simulated.plan(devices)
    ranked = [row for row in sorted(ranked)[:FINALISTS] if row[0] * NEAR < best]
    if problem.memory is None or not ranked:
        return
    _, devices = search.random.choice([row for row in ranked if row[0] <= NEAR * ranked[0][0]])
    for plan in FittingMoves(problem, search).fit(simulated.plan(devices)):
        if plan.value < best:
            best = plan.value
            yield plan


def easiest_splits(problem: PlanningProblem) -> list[tuple[tuple[int, ...], float]]:
    """Return the assignments of cuts with their excesses of memory; if peaks are limited, only those with the least excess."""
    splits = list(layer_splits(problem))
    peaks = limited_peaks(problem, splits[0]) if splits else None
    if peaks is None:
        return [(devices, 0.0) for devices in splits]
    found = []
    for devices in splits:
        peaks.move_to([devices[tasks[0]] for tasks in problem.groups])
        found.append((devices, peaks.excess))
    return sorted(found, key=lambda row: row[1])[:MAX_SIMULATED]


def layer_splits(problem: PlanningProblem) -> Iterator[tuple[int, ...]]:
    """Yield the distinct assignments of all cuts: for each power, one of each order by memory and one by work."""
    paying = [number for number, device in enumerate(problem.devices) if device.pays]
    work = [min(seconds) for seconds in problem.group_seconds]
    weights = [weight for weight in (problem.held, work) if sum(weight) > 0]
    orders, seen = list(_orders(problem)), set[tuple[int, ...]]()
    for power in POWERS if len(paying) > 1 else ():
        for order in orders:
            for weight in weights:
                of_group = _cut(problem, order, weight, paying, power)
                devices = tuple(of_group[group] for group in problem.group_of)
                if devices not in seen:
                    seen.add(devices)
                    yield devices


def _orders(problem: PlanningProblem) -> Iterator[list[int]]:
    """Yield orders of groups: by distance from the nearest end of the step, in tasks and in seconds, and by remaining time."""
    least = [min(task.seconds) for task in problem.tasks]
    for steps in ([1.0] * len(problem.tasks), least):
        yield _ordered(problem, list(map(min, heads(problem, steps), tails(problem, steps))))
    yield _ordered(problem, [-seconds for seconds in tails(problem, least)])


def _ordered(problem: PlanningProblem, turns: Sequence[float]) -> list[int]:
    return sorted(range(len(problem.groups)), key=lambda group: min(turns[task] for task in problem.groups[group]))


def _cut(
    problem: PlanningProblem, order: Sequence[int], weight: Sequence[float], paying: Sequence[int], power: float
) -> dict[int, int]:
    """Return the device of each group. Paying devices get segments of the order, whose ends are powers of equal shares."""
    total, filled, found = sum(weight), 0.0, dict[int, int]()
    ends = [total * (place / len(paying)) ** power for place in range(1, len(paying))]
    for group in order:
        device = paying[bisect_right(ends, filled)]
        homes = problem.homes[group]
        found[group] = device if device in homes else min(homes, key=lambda home: (home not in paying, home))
        filled += weight[group]
    return found
