"""Enumeration of all assignments of a small problem, each with a lower bound of its step time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from placesim.machine.timelines.workload import Cores
from placesim.planning.problem import PlanningProblem
from placesim.planning.time_windows import LinkTimes

MAX_ASSIGNMENTS = 100_000
"""Maximum number of assignments that are enumerated; more would take hundreds of megabytes."""


def count_assignments(problem: PlanningProblem) -> int:
    """Return the number of ways to place all groups."""
    return math.prod(len(homes) for homes in problem.homes)


def assignments_below(problem: PlanningProblem, limit: float) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield the assignments whose lower bound is below `limit` seconds, the lowest bound first.

    Each row has the bound, and the device of each task. The problem needs a layout, and at most MAX_ASSIGNMENTS assignments.
    """
    chosen = np.array(list(product(*(sorted(homes) for homes in problem.homes))), np.intp)
    devices = chosen.T[list(problem.group_of)]
    bounds = makespan_bounds(problem, devices)
    for number in np.argsort(bounds, kind="stable"):
        if bounds[number] >= limit:
            return
        yield float(bounds[number]), tuple(map(int, devices[:, number]))


def makespan_bounds(problem: PlanningProblem, devices: np.ndarray) -> np.ndarray:
    """Return a lower bound of the makespan, in seconds, of each assignment.

    `devices` is `[tasks, assignments]`. A bound is the longest path with its transfers, or the work of a resource plus the
    shortest paths before and after this work, whichever is greater.
    """
    layout = problem.layout
    assert layout is not None
    kinds = [device.kind for device in problem.devices]
    ways = LinkTimes(problem)
    moved = [ways.seconds(task.sent) for task in problem.tasks]
    rows = list(zip(problem.tasks, devices, strict=True))
    path = np.array([np.array([task.path_seconds[kind] for kind in kinds])[row] for task, row in rows])
    work = np.array([np.array([task.work_seconds[kind] for kind in kinds])[row] for task, row in rows])
    before, after = np.zeros(devices.shape), np.zeros(devices.shape)
    for task in problem.order:
        for source in problem.inputs[task]:
            arrival = before[source] + path[source] + moved[source][devices[source], devices[task]]
            np.maximum(before[task], arrival, out=before[task])
    for task in reversed(problem.order):
        for source in problem.inputs[task]:
            rest = moved[source][devices[source], devices[task]] + path[task] + after[task]
            np.maximum(after[source], rest, out=after[source])
    found: np.ndarray = (before + path + after).max(axis=0)
    places = np.array(layout.places)[devices]
    for place, resource in enumerate(layout.resources):
        slots = resource.cores if isinstance(resource, Cores) else 1  # several devices may share the cores of one host
        is_here = places == place
        busy = np.where(is_here, work, 0.0).sum(axis=0) / slots
        first, last = (np.where(is_here, paths, math.inf).min(axis=0) for paths in (before, after))
        np.maximum(found, np.where(is_here.any(axis=0), first + busy + last, 0.0), out=found)
    return found
