"""Simulated annealing of a pipeline's loads: groups move to other devices, or swap places with a neighbour.

The cost is a p-norm of the loads, since the maximum alone does not rank most moves.  Each round starts from the best plan at a
high temperature, and is longer than the previous one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from placesim.planning.loads import Loads, load_plan
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.methods.contiguous import group_order, split_order
from placesim.planning.methods.first_fit import first_fit
from placesim.planning.problem import Plan, PlanningProblem, can_run_all
from placesim.planning.search_budget import Search

FIRST_ROUND = 150_000
LONGER = 2
WARM, COLD = 0.02, 1e-5
"""Temperatures as shares of the load at the beginning of a round."""
NORM = 24
FIRST_SHARE = 0.2
"""Maximum share of the search's time to find the plan from which annealing starts."""
_LOOK = 512
_TOWARDS_NEIGHBOUR, _SWAP = 0.6, 0.25


def anneal_loads(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield plans from rounds of annealing. The first round starts from `search.start`, or from a cut of the natural order."""
    best, current = search.start, search.start
    if current is None or (problem.needs_contiguous and not _Stages(problem, current.devices).is_ordered):
        current = _first(problem, search)
    if current is None:
        return
    if best is None or current.value < best.value:
        best = current
        yield best
    if not problem.movable:
        return
    length, speed = FIRST_ROUND, 0.0
    while not search.is_over and not search.is_met(best.value):
        began = time.monotonic()
        if speed and math.isfinite(search.deadline):
            # a last round that the deadline cuts off would never reach the low temperature
            left = int(search.seconds_left * speed)
            length = left if left < length * (1 + LONGER) else length
        length = min(length, search.evaluations_left)
        if length < _LOOK:
            return
        round_ = _Round(problem, current, search)
        found = round_.run(length)
        search.spend(length)
        speed = length / max(1e-6, time.monotonic() - began)
        current = min(current, found, key=lambda plan: plan.value)
        if current.value < best.value:
            best = current
            yield best
        length *= LONGER


def _first(problem: PlanningProblem, search: Search) -> Plan | None:
    if problem.apart:
        devices = first_fit(problem)
    else:
        devices = split_order(problem, group_order(problem), search.share(FIRST_SHARE)) or _fill(problem)
    return None if devices is None else load_plan(problem, devices)


def _fill(problem: PlanningProblem) -> list[int] | None:
    """Assign groups, largest memory first, to the least loaded device with room.  Return None if a group finds no room.

    If parts must be contiguous, all groups go to one device.
    """
    loads, left = [0.0] * len(problem.devices), [device.capacity for device in problem.devices]
    if problem.needs_contiguous:
        whole = ([device] * len(problem.tasks) for device in range(len(loads)))
        fitting = [
            devices for devices in whole if can_run_all(problem, devices) and not find_overfull_devices(problem, devices)
        ]
        return min(fitting, key=lambda devices: load_plan(problem, devices).value, default=None)
    found = [0] * len(problem.groups)
    for group in sorted(range(len(problem.groups)), key=lambda group: -problem.held[group]):
        held, seconds = problem.held[group], problem.group_seconds[group]
        rooms = [n for n in range(len(loads)) if held <= left[n] and problem.can_run(group, n)]
        if not rooms:
            return None
        device = min(rooms, key=lambda n: loads[n] + seconds[problem.devices[n].kind])
        loads[device] += seconds[problem.devices[device].kind]
        left[device] -= held
        found[group] = device
    return [found[group] for group in problem.group_of]


class _Round:
    """One round of annealing, from a high to a low temperature."""

    def __init__(self, problem: PlanningProblem, start: Plan, search: Search) -> None:
        self._problem = problem
        self._loads = Loads(problem, start.devices)
        self._search = search
        self._random = search.random
        self.neighbours = [neighbours(problem, group) for group in range(len(problem.groups))]
        self._stages = _Stages(problem, start.devices) if problem.needs_contiguous else None
        self._reference = max(start.value, math.ulp(1.0))

    def run(self, length: int) -> Plan:
        """Return the best plan found in `length` moves."""
        loads, draw, reference = self._loads, self._random, self._reference
        groups, devices = self._problem.movable, range(len(self._problem.devices))
        neighbours, stages = self.neighbours, self._stages
        current = self._norm()
        best, best_devices = max(loads.loads), list(loads.devices)
        temperature, cooling = reference * WARM, (COLD / WARM) ** (_LOOK / length)
        choose, below, exp = draw.random, draw.randrange, math.exp
        for number in range(length):
            if not number % _LOOK and number:
                temperature *= cooling
                if self._search.evaluations is None and self._search.is_over:
                    break
            group = groups[below(len(groups))]
            old = loads.of_group[group]
            near = neighbours[group]
            dice = choose()
            is_near = bool(near) and dice < _TOWARDS_NEIGHBOUR
            new = loads.of_group[near[below(len(near))]] if is_near else below(len(devices))
            if new == old or not loads.has_room(group, new) or (stages and not stages.allows(group, new, loads.of_group)):
                continue
            loads.move(group, new)
            other = -1
            if near and choose() < _SWAP:
                candidate = near[below(len(near))] if is_near else groups[below(len(groups))]
                is_there = candidate != group and loads.of_group[candidate] == new
                if (
                    is_there
                    and loads.has_room(candidate, old)
                    and not (stages and not stages.allows(candidate, old, loads.of_group))
                ):
                    other = candidate
                    loads.move(other, old)
            value = self._norm()
            if value <= current or choose() < exp((current - value) / temperature):
                current = value
                highest = max(loads.loads)
                if highest < best - 1e-12 * reference:
                    best, best_devices = highest, list(loads.devices)
                    if self._search.is_met(best):
                        break
            else:
                if other >= 0:
                    loads.move(other, new)
                loads.move(group, old)
        return load_plan(self._problem, best_devices)

    def _norm(self) -> float:
        scale = 1 / self._reference
        total = 0.0
        for load in self._loads.loads:
            if load > 0:  # rounding errors of cancelling sums may be below 0
                total += (load * scale) ** NORM
        norm: float = self._reference * total ** (1 / NORM)
        return norm


def neighbours(problem: PlanningProblem, group: int) -> Sequence[int]:
    """Return the groups that read from a group or are read by it."""
    found = {
        problem.group_of[other] for task in problem.groups[group] for other in (*problem.inputs[task], *problem.readers[task])
    }
    return sorted(found - {group})


class _Stages:
    """Order of a plan's devices along the pipeline: forward tensors go only to the same or later devices.

    Moves that keep this order keep every part contiguous. If a plan has no such order (`is_ordered` is false), moves may make
    its parts not contiguous.
    """

    def __init__(self, problem: PlanningProblem, devices: Sequence[int]) -> None:
        self._before: list[list[int]] = []
        self._after: list[list[int]] = []
        for members in problem.groups:
            group = problem.group_of[members[0]] if members else -1
            forward = [task for task in members if not problem.tasks[task].is_backward]
            before = {problem.group_of[s] for t in forward for s in problem.inputs[t] if not problem.tasks[s].is_backward}
            after = {problem.group_of[r] for t in forward for r in problem.readers[t] if not problem.tasks[r].is_backward}
            self._before.append(sorted(before - {group}))
            self._after.append(sorted(after - {group}))
        of_group = [devices[members[0]] for members in problem.groups]
        self._stage = _stage_order(len(problem.devices), of_group, self._after)
        self.is_ordered = all(self.allows(group, device, of_group) for group, device in enumerate(of_group))

    def allows(self, group: int, device: int, of_group: Sequence[int]) -> bool:
        """Return whether all inputs of the group are on no later device, and all its readers on no earlier one."""
        stage = self._stage
        here = stage[device]
        for other in self._before[group]:
            if stage[of_group[other]] > here:
                return False
        return all(stage[of_group[other]] >= here for other in self._after[group])


def _stage_order(count: int, of_group: Sequence[int], after: Sequence[Sequence[int]]) -> list[int]:
    """Return the position of each of `count` devices in the pipeline, such that all edges go forward if possible."""
    edges: dict[int, set[int]] = {device: set() for device in range(count)}
    for own, readers in zip(of_group, after, strict=True):
        edges[own].update(of_group[reader] for reader in readers if of_group[reader] != own)
    stage, place = [0] * count, 0
    while edges:
        reached = set().union(*edges.values())
        first = min(edges, key=reached.__contains__)
        stage[first] = place
        place += 1
        del edges[first]
    return stage
