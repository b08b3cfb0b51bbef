"""Planning method for calls: a sequence of calls cut from an order, improved by annealing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from placesim.planning.call_latency import ALONE, Calls
from placesim.planning.methods.contiguous import Segment, group_order
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.search_budget import Search

CALLS_PER_DEVICE = 3
WARM, COLD = 0.03, 1e-5
FIRST_ROUND = 2000
_ORDERS = 6


def anneal_calls(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield plans: first all tasks individually, then the best cuts of orders, then rounds of annealing from the best plan."""
    calls = Calls(problem)
    best, value = [ALONE] * len(problem.tasks), math.inf
    for number in range(1 + _ORDERS):
        found = best
        if number:
            found = cut_calls(problem, calls, group_order(problem, search if number > 1 else None))
        search.spend(1)
        if (seconds := calls.seconds(found)) < value:
            best, value = found, seconds
            yield calls.plan(best)
        if search.is_over:
            return
    if not problem.groups:
        return
    length = FIRST_ROUND
    while not search.is_over and not search.is_met(value):
        found, seconds = _anneal(problem, calls, best, min(length, search.evaluations_left), search)
        if seconds < value:
            best, value = found, seconds
            yield calls.plan(best)
        length *= 2


def cut_calls(problem: PlanningProblem, calls: Calls, order: Sequence[int]) -> list[int]:
    """Return the best cut of an order of groups into one call per device, with individual tasks between the calls.

    The cut is the best if all calls and tasks run one after another.
    """
    segment, size, most = Segment(problem, order), len(order), len(calls.paying)
    paying = problem.devices[calls.paying[0]] if most else None
    rooms = [problem.devices[device].capacity for device in calls.paying]
    free = problem.devices[calls.free].kind if calls.free != ALONE else None
    best = [[math.inf] * (most + 1) for _ in range(size + 1)]
    came: dict[tuple[int, int], int] = {}
    best[0][0] = 0.0
    for first in range(size):
        if free is not None:
            alone = problem.group_seconds[order[first]][free]
            for taken in range(most + 1):
                if best[first][taken] + alone < best[first + 1][taken]:
                    best[first + 1][taken] = best[first][taken] + alone
                    came[first + 1, taken] = ALONE
        segment.begin(first)
        for at in range(first, size if paying else first):
            assert paying is not None
            segment.grow(at, order[at])
            if segment.held > max(rooms):
                break
            seconds = segment.seconds[paying.kind] + segment.moved
            for taken in range(most):
                value = best[first][taken] + seconds
                if segment.held <= rooms[taken] and value < best[at + 1][taken + 1]:
                    best[at + 1][taken + 1] = value
                    came[at + 1, taken + 1] = first
    found, end = [ALONE] * len(problem.tasks), size
    taken = min(range(most + 1), key=lambda count: best[size][count])
    while end and best[end][taken] < math.inf:
        first = came[end, taken]
        if first == ALONE:
            end -= 1
            continue
        taken -= 1
        for group in order[first:end]:
            for task in problem.groups[group]:
                found[task] = taken
        end = first
    return found


def _anneal(
    problem: PlanningProblem, calls: Calls, start: Sequence[int], length: int, search: Search
) -> tuple[list[int], float]:
    """Anneal once and return the best calls with their seconds.

    A move lets a group join a neighbour's call or another call, or run alone.
    """
    draw, groups = search.random, problem.groups
    count = len(calls.paying) * CALLS_PER_DEVICE
    devices = max(1, len(calls.paying))
    current = list(start)
    held = [0.0] * devices
    for group, members in enumerate(groups):
        if current[members[0]] != ALONE:
            held[current[members[0]] % devices] += problem.held[group]
    capacity = [problem.devices[device].capacity for device in calls.paying]
    value = best_value = calls.seconds(current)
    best = list(current)
    temperature = max(value, math.ulp(1.0)) * WARM
    cooling = (COLD / WARM) ** (1 / max(1, length))
    for _ in range(length):
        if search.is_over:
            break
        temperature *= cooling
        group = draw.randrange(len(groups))
        members = groups[group]
        old = current[members[0]]
        new = _target(problem, current, group, count, search)
        if new == old or (new != ALONE and not _has_room(problem, group, new % devices, old, devices, held, capacity)):
            search.skip()
            continue
        for task in members:
            current[task] = new
        search.spend(1)
        found = calls.seconds(current)
        if found <= value or draw.random() < math.exp((value - found) / temperature):
            value = found
            for call, sign in ((old, -1), (new, 1)):
                if call != ALONE:
                    held[call % devices] += sign * problem.held[group]
            if value < best_value:
                best, best_value = list(current), value
        else:
            for task in members:
                current[task] = old
    return best, best_value


def _target(problem: PlanningProblem, current: Sequence[int], group: int, count: int, search: Search) -> int:
    draw = search.random
    task = problem.groups[group][draw.randrange(len(problem.groups[group]))]
    near = (*problem.inputs[task], *problem.readers[task])
    dice = draw.random()
    if near and dice < 0.75:
        return current[near[draw.randrange(len(near))]]
    return ALONE if dice < 0.9 or not count else draw.randrange(count)


def _has_room(
    problem: PlanningProblem, group: int, device: int, old: int, devices: int, held: Sequence[float], capacity: Sequence[float]
) -> bool:
    is_there = old != ALONE and old % devices == device
    return held[device] + (0.0 if is_there else problem.held[group]) <= capacity[device]
