"""List scheduling (HEFT: Topcuoglu and others, 2002): tasks by longest remaining path, each on the device where it ends first.

The device must have room for the task's whole group, whose other tasks then follow it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop, heappush

from placesim.planning.methods.first_fit import first_fit
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedules import assignments
from placesim.planning.search_budget import Search


def end_first(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better plans from four task lists, ranked by mean or least times, with or without transfers."""
    measured, best = assignments(problem), math.inf
    for is_mean in (True, False):
        for counts_transfers in (True, False):
            devices = _schedule(problem, _ranks(problem, is_mean=is_mean, counts_transfers=counts_transfers))
            if devices is None:
                devices = first_fit(problem)
            search.spend(1)
            if devices is None:
                continue
            plan = measured.plan(devices)
            if plan.value < best:
                best = plan.value
                yield plan
            if search.is_over or search.is_met(best):
                return


def _ranks(problem: PlanningProblem, *, is_mean: bool, counts_transfers: bool) -> list[float]:
    """Return for each task the seconds of the longest path from its beginning to the end."""
    count = len(problem.devices)
    pairs = [problem.way(a, b) for a in range(count) for b in range(count) if a != b]
    delay = math.fsum(way.delay for way in pairs) / max(1, len(pairs)) if counts_transfers else 0.0
    pace = math.fsum(way.pace for way in pairs) / max(1, len(pairs)) if counts_transfers else 0.0
    found = [0.0] * len(problem.tasks)
    for task in reversed(problem.order):
        times = [seconds for seconds in problem.tasks[task].seconds if math.isfinite(seconds)]
        own = (math.fsum(times) / max(1, len(times))) if is_mean else min(times, default=0.0)
        moved = delay + pace * problem.tasks[task].makes
        found[task] = own + max((moved + found[reader] for reader in problem.readers[task]), default=0.0)
    return found


def _schedule(problem: PlanningProblem, ranks: list[float]) -> list[int] | None:
    """Return a device for each task; None if a group finds no room."""
    count = len(problem.devices)
    left = [device.capacity for device in problem.devices]
    free = [[0.0] * device.slots for device in problem.devices]
    of_group: list[int | None] = [None] * len(problem.groups)
    devices, ends = [0] * len(ranks), [0.0] * len(ranks)
    waiting = [len(sources) for sources in problem.inputs]
    ready = [(-ranks[task], task) for task, number in enumerate(waiting) if not number]
    ready.sort()
    while ready:
        task = heappop(ready)[1]
        group = problem.group_of[task]
        fixed = of_group[group]
        choices = range(count) if fixed is None else (fixed,)
        best, where = math.inf, -1
        for device in choices:
            if fixed is None and (not problem.can_run(group, device) or problem.held[group] > left[device]):
                continue
            if fixed is None and any(of_group[rival] == device for rival in problem.rivals[group]):
                continue
            end = _begin(problem, task, device, devices, ends, free) + problem.tasks[task].seconds[problem.devices[device].kind]
            if end < best:
                best, where = end, device
        if where < 0:
            return None
        if fixed is None:
            of_group[group] = where
            left[where] -= problem.held[group]
        devices[task], ends[task] = where, best
        heappop(free[where])
        heappush(free[where], best)
        for reader in problem.readers[task]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, (-ranks[reader], reader))
    return devices


def _begin(
    problem: PlanningProblem, task: int, device: int, devices: list[int], ends: list[float], free: list[list[float]]
) -> float:
    """Return the time at which the device is free and all inputs have arrived."""
    begin = free[device][0]
    for source in problem.inputs[task]:
        there = ends[source]
        if devices[source] != device:
            way = problem.way(devices[source], device)
            there += way.delay + way.pace * problem.tasks[source].makes
        begin = max(begin, there)
    return begin
