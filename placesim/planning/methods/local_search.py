"""Local search for a makespan: groups move to other devices, and each assignment is scheduled in order of arrival."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

from placesim.planning.memory_limits import AllocationOrder, limited_peaks
from placesim.planning.methods.annealing import neighbours
from placesim.planning.methods.estimated_moves import MAX_TASKS, EstimatedMoves
from placesim.planning.methods.list_scheduling import end_first
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedules import assignments
from placesim.planning.search_budget import Search

FIRST_ROUND = 2000
WARM, COLD = 0.01, 1e-4
PENALTY = 3.0
"""Factor of the step time for each device's memory that an assignment lacks, while annealing."""
MAX_ANNEALED = 300
"""Maximum number of tasks for annealing if moves can be estimated: with more, annealing simulates too few moves."""
_TOWARDS_NEIGHBOUR = 0.7
_TOGETHER = 0.3


def anneal_moves(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better plans from rounds of annealing, each longer than the one before.

    A round starts from the best plan. A move is of one group, or of a few connected ones. On a simulated machine, moves that
    are estimated together improve the plan before each round. Large problems use only these moves.
    """
    best = search.start or next(end_first(problem, search), None)
    if best is None:
        return
    if search.start is None:
        yield best
    if not problem.movable:
        return
    is_estimated = problem.layout is not None and len(problem.tasks) <= MAX_TASKS
    estimated = EstimatedMoves(problem, search) if is_estimated else None
    if estimated is not None and len(problem.tasks) > MAX_ANNEALED:
        yield from estimated.plans(best)
        return
    near = [neighbours(problem, group) for group in range(len(problem.groups))]
    length = FIRST_ROUND
    while not search.is_over and not search.is_met(best.value):
        for plan in estimated.improve(best) if estimated is not None else ():
            best = plan
            yield best
        for plan in _anneal(problem, search, near, best, length):
            best = plan
            yield best
        length *= 2


def _anneal(problem: PlanningProblem, search: Search, near: Sequence[Sequence[int]], best: Plan, length: int) -> Iterator[Plan]:
    """Yield better plans than `best` from one round of annealing; `near` has the connected groups of each group."""
    measured, draw = assignments(problem), search.random
    devices, value = list(best.devices), best.value
    of_group = [devices[members[0]] for members in problem.groups]
    peaks = limited_peaks(problem, devices)
    order = None if peaks is None else AllocationOrder(problem)
    left = [device.capacity if peaks is None else math.inf for device in problem.devices]
    for group, device in enumerate(of_group):
        left[device] -= problem.held[group]
    temperature, cooling = value * WARM, (COLD / WARM) ** (1 / length)
    for _ in range(min(length, search.evaluations_left)):
        if search.is_over:
            break
        temperature *= cooling
        move = _draw_move(problem, near, of_group, left, draw)
        if move is None:
            search.skip()
            continue
        moved, old, new = move
        _put(problem, moved, new, devices)
        found = measured.seconds(devices)
        if peaks is not None:
            change = peaks.move(dict.fromkeys(moved, new))
            found *= 1 + PENALTY * peaks.excess
        search.spend(1)
        if found <= value or draw.random() < math.exp((value - found) / temperature):
            value = found
            for one in moved:
                of_group[one] = new
                left[old] += problem.held[one]
                left[new] -= problem.held[one]
            # with an excess, the value is above the makespan; only allocations decide
            if value < best.value and (order is None or not order.failing_devices(devices)):
                best = measured.plan(devices)
                yield best
        else:
            _put(problem, moved, old, devices)
            if peaks is not None:
                peaks.undo(change)


def _put(problem: PlanningProblem, groups: Sequence[int], device: int, devices: list[int]) -> None:
    """Set the device of all tasks of some groups."""
    for group in groups:
        for task in problem.groups[group]:
            devices[task] = device


def _draw_move(
    problem: PlanningProblem, near: Sequence[Sequence[int]], of_group: Sequence[int], left: Sequence[float], draw: Random
) -> tuple[list[int], int, int] | None:
    """Return random groups that can move together, with their old and their new device; None if the drawn move is impossible.

    `near` has the connected groups of each group, `of_group` their devices, and `left` the free capacity of each device.
    """
    group = problem.movable[draw.randrange(len(problem.movable))]
    old, others = of_group[group], near[group]
    is_near = others and draw.random() < _TOWARDS_NEIGHBOUR
    new = of_group[others[draw.randrange(len(others))]] if is_near else draw.randrange(len(problem.devices))
    if new == old:
        return None
    moved = [group, *(other for other in others if of_group[other] == old and draw.random() < _TOGETHER)]
    if not all(problem.can_run(one, new) for one in moved) or sum(problem.held[one] for one in moved) > left[new]:
        return None
    if problem.apart and any(of_group[rival] == new for one in moved for rival in problem.rivals[one]):
        return None
    return moved, old, new
