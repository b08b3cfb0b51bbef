"""Contiguous splits of a pipeline, by dynamic programming over an order of the groups.

A device's part is contiguous if no path leaves it and comes back. In a training graph only forward tasks count; backward tasks
follow their groups. Each segment of an order is a contiguous part. For a given order, this module finds the best division into
segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placesim.core.grouped import grouped
from placesim.planning.loads import load_plan
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.search_budget import Search

MAX_WHOLE = 3000
"""Maximum number of groups in an order that is cut completely even if the time is over; this takes some seconds."""


def split_orders(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better cuts of orders into segments: the natural order first, then random ones until the search is over."""
    best = math.inf
    while True:
        order = group_order(problem, search if best < math.inf else None)
        devices = split_order(problem, order, search)
        search.spend(len(order) ** 2)
        if devices is not None and (plan := load_plan(problem, devices)).value < best:
            best = plan.value
            yield plan
        if search.is_over or search.is_met(best):
            return


def group_order(problem: PlanningProblem, search: Search | None = None) -> list[int]:
    """Return the groups in an order of their forward tasks, each as late as its readers allow, so that few tensors are alive.

    With a search, the order of each task's inputs is random.  A group without forward tasks comes after the median of the
    groups that it is connected with.
    """
    tasks, group_of = problem.tasks, problem.group_of
    depth = [0] * len(tasks)
    for task in problem.order:
        for reader in problem.readers[task]:
            depth[reader] = max(depth[reader], depth[task] + 1)
    keys = [float(-d) for d in depth] if search is None else [search.random.random() for _ in tasks]
    place: dict[int, int] = {}
    for task in _late_order(problem, depth, keys):
        place.setdefault(group_of[task], len(place))
    found: dict[int, tuple[float, int]] = {group: (at, 0) for group, at in place.items()}
    waiting = [group for group in range(len(problem.groups)) if group not in place]
    while waiting:
        left = []
        for group in waiting:
            near = sorted(
                found[group_of[other]][0]
                for task in problem.groups[group]
                for other in (*problem.inputs[task], *problem.readers[task])
                if group_of[other] in found
            )
            if near:
                found[group] = near[len(near) // 2], 1
            else:
                left.append(group)
        if len(left) == len(waiting):
            found.update((group, (math.inf, 1)) for group in left)
            break
        waiting = left
    return sorted(found, key=lambda group: (*found[group], group))


def _late_order(problem: PlanningProblem, depth: Sequence[int], keys: Sequence[float]) -> Iterator[int]:
    """Yield the forward tasks, each just before the first task that reads it."""
    tasks, seen = problem.tasks, set()
    forward = [task for task in range(len(tasks)) if not tasks[task].is_backward]
    ends = [task for task in forward if all(tasks[reader].is_backward for reader in problem.readers[task])]
    for end in sorted(ends, key=lambda task: depth[task]):
        if end in seen:
            continue
        seen.add(end)
        path = [(end, iter(sorted(problem.inputs[end], key=keys.__getitem__)))]
        while path:
            task, sources = path[-1]
            source = next((s for s in sources if s not in seen and not tasks[s].is_backward), None)
            if source is None:
                yield task
                path.pop()
            else:
                seen.add(source)
                path.append((source, iter(sorted(problem.inputs[source], key=keys.__getitem__))))


class DeviceClass(NamedTuple):
    """Devices with equal properties."""

    devices: tuple[int, ...]
    kind: int
    capacity: float
    pays: bool


def group_devices(problem: PlanningProblem) -> list[DeviceClass]:
    """Group devices with equal kind, capacity and payment of transfers."""
    found = grouped(((device.kind, device.capacity, device.pays), number) for number, device in enumerate(problem.devices))
    return [DeviceClass(tuple(devices), *key) for key, devices in found.items()]


class Segment:
    """Load of a device that runs a segment: consecutive groups of an order, to which groups are added one by one.

    `seconds` are by device kind, `moved` are the seconds of transfers across the segment's ends, and `held` is the capacity in
    use.
    """

    def __init__(self, problem: PlanningProblem, order: Sequence[int]) -> None:
        self._problem = problem
        self._place = [0] * len(problem.tasks)
        for at, group in enumerate(order):
            for task in problem.groups[group]:
                self._place[task] = at
        self._pace = _usual_pace(problem)
        self._first = 0
        self._read: set[int] = set()
        self._outside: dict[int, int] = {}
        self.seconds = [0.0] * len(problem.kinds)
        self.moved = 0.0
        self.held = 0.0

    def begin(self, first: int) -> None:
        """Clear the segment; it begins at this position."""
        self._first = first
        self._read.clear()
        self._outside.clear()
        self.seconds = [0.0] * len(self.seconds)
        self.moved = self.held = 0.0

    def grow(self, at: int, group: int) -> None:
        """Add the group at the next position."""
        problem, place = self._problem, self._place
        self.seconds = [a + b for a, b in zip(self.seconds, problem.group_seconds[group], strict=True)]
        self.held += problem.held[group]
        for task in problem.groups[group]:
            makes = problem.tasks[task].makes * self._pace
            if task in self._read:
                self._read.discard(task)
                self.moved -= makes
            away = sum(1 for reader in problem.readers[task] if not self._first <= place[reader] <= at)
            if makes and away:
                self._outside[task] = away
                self.moved += makes
        for task in problem.groups[group]:
            for source in problem.inputs[task]:
                makes = problem.tasks[source].makes * self._pace
                where = place[source]
                if not makes or where == at:
                    continue
                if not self._first <= where <= at:
                    if source not in self._read:
                        self._read.add(source)
                        self.moved += makes
                elif source in self._outside:
                    self._outside[source] -= 1
                    if not self._outside[source]:
                        del self._outside[source]
                        self.moved -= makes


def split_order(problem: PlanningProblem, order: Sequence[int], search: Search | None = None) -> list[int] | None:
    """Return the best cut of an order of groups into a segment for each device, as devices by task.

    Return None if nothing fits, or if there are more than `MAX_WHOLE` groups and the search's time ends first.
    """
    kinds, segment = group_devices(problem), Segment(problem, order)
    used = used_counts(kinds)
    states = {counts: n for n, counts in enumerate(used)}
    steps = [
        [(states[counts], states[increment_count(counts, k)]) for counts in used if counts[k] < len(kind.devices)]
        for k, kind in enumerate(kinds)
    ]
    size = len(order)
    best = [[math.inf] * len(used) for _ in range(size + 1)]
    came: dict[tuple[int, int], tuple[int, int, int]] = {}
    best[0][0] = 0.0
    for first in range(size):
        here = best[first]
        if min(here) == math.inf:
            continue
        if size > MAX_WHOLE and search is not None and search.evaluations is None and search.is_over:
            return None
        segment.begin(first)
        for at in range(first, size):
            segment.grow(at, order[at])
            there = best[at + 1]
            is_held = False
            for k, kind in enumerate(kinds):
                if segment.held > kind.capacity:
                    continue
                is_held = True
                load = segment.seconds[kind.kind] + (segment.moved if kind.pays else 0.0)
                for before, after in steps[k]:
                    value = here[before] if here[before] > load else load
                    if value < there[after]:
                        there[after] = value
                        came[at + 1, after] = (first, before, k)
            if not is_held:
                break
    last = min(range(len(used)), key=lambda state: best[size][state])
    if best[size][last] == math.inf:
        return None
    return _read_back(problem, order, kinds, came, size, last)


def _usual_pace(problem: PlanningProblem) -> float:
    """Return the mean seconds per unit of size between paying devices. Plans are evaluated with the links' own values."""
    if problem.ways is None:
        return 1.0
    paying = [n for n, device in enumerate(problem.devices) if device.pays]
    paces = [problem.ways[a][b].pace for a in paying for b in paying if a != b] or [0.0]
    return math.fsum(paces) / len(paces)


def used_counts(kinds: Sequence[DeviceClass]) -> list[tuple[int, ...]]:
    """Return the possible numbers of used devices of each class. The combination without devices comes first."""
    found: list[tuple[int, ...]] = [()]
    for kind in kinds:
        found = [(*counts, n) for counts in found for n in range(len(kind.devices) + 1)]
    return found


def increment_count(counts: tuple[int, ...], kind: int) -> tuple[int, ...]:
    """Return the counts with one more device of a class."""
    return (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])


def _read_back(
    problem: PlanningProblem,
    order: Sequence[int],
    kinds: Sequence[DeviceClass],
    came: dict[tuple[int, int], tuple[int, int, int]],
    end: int,
    state: int,
) -> list[int]:
    devices, taken = [0] * len(problem.tasks), [0] * len(kinds)
    while end:
        first, state, k = came[end, state]
        device = kinds[k].devices[taken[k]]
        taken[k] += 1
        for group in order[first:end]:
            for task in problem.groups[group]:
                devices[task] = device
        end = first
    return devices
