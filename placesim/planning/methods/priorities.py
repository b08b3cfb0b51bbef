"""Schedules on equal devices: tasks by longest remaining path, and then by annealed ranks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedules import PrioritySchedules, tails
from placesim.planning.search_budget import Search

DRAWN = 200
"""Number of task lists sorted by longest remaining path; all but the first have random noise."""
NOISES = (0.02, 0.05, 0.1, 0.2)
FIRST_ROUND = 40_000
WARM, COLD = 0.0002, 0.0001
"""Temperatures as shares of the makespan."""
SWAPS = 0.5
_LOOK = 64
_LATE = 6
"""Weight of the makespan relative to the imbalance of the devices' ends."""


def rank_by_tails(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better schedules: first by longest remaining path, then by the same ranks with noise."""
    schedules = PrioritySchedules(problem)
    behind = tails(problem, schedules.seconds)
    ranks = [-(tail + time) for tail, time in zip(behind, schedules.seconds, strict=True)]
    best = math.inf
    for number in range(DRAWN):
        noise = search.random.choice(NOISES) * -min(ranks, default=0.0) if number else 0.0
        plan = schedules.plan(schedules.starts(_noisy(ranks, noise, search))[0])
        search.spend(1)
        if plan.value < best:
            best = plan.value
            yield plan
        if search.is_over or search.is_met(best):
            return


def _noisy(ranks: list[float], noise: float, search: Search) -> list[int]:
    """Return the tasks by rank, with noise added to the ranks."""
    drawn = [rank + noise * search.random.gauss() for rank in ranks] if noise else ranks
    return sorted(range(len(ranks)), key=drawn.__getitem__)


def anneal_ranks(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better schedules from annealed task ranks; a move exchanges two tasks, or moves one.

    The cost includes the spread of the devices' end times, since a device that ends early is idle.
    """
    schedules = PrioritySchedules(problem)
    behind = tails(problem, schedules.seconds)
    ranks = [-(tail + time) for tail, time in zip(behind, schedules.seconds, strict=True)]
    count, draw = len(problem.tasks), search.random
    if count < 2:
        return
    best, length, speed = search.start.value if search.start else math.inf, FIRST_ROUND, 0.0
    while not search.is_over and not search.is_met(best):
        if speed and math.isfinite(search.deadline):
            # a last round that the deadline cuts off would never reach the low temperature
            left = int(search.seconds_left * speed)
            length = max(_LOOK, left) if left < 3 * length else length
        began, counted = time.monotonic(), length
        order = _noisy(ranks, 0.05 * -min(ranks), search)
        current = math.inf
        temperature = -min(ranks) * WARM
        cooling = (COLD / WARM) ** (_LOOK / length)
        for number in range(min(length, search.evaluations_left)):
            if not number % _LOOK:
                temperature *= cooling
                if search.is_over:
                    return
            one, other = draw.randrange(count), draw.randrange(count)
            is_swap = draw.random() < SWAPS
            if is_swap:
                order[one], order[other] = order[other], order[one]
            else:
                order.insert(other, order.pop(one))
            starts, ends = schedules.starts(order)
            search.spend(1)
            last = ends[-1]
            value = _LATE * last + math.sqrt(sum([(last - end) ** 2 for end in ends]))
            if value <= current or draw.random() < math.exp((current - value) / temperature):
                current = value
                if last < best:
                    plan = schedules.plan(starts)
                    best = plan.value
                    yield plan
                    if search.is_met(best):
                        return
            elif is_swap:
                order[one], order[other] = order[other], order[one]
            else:
                order.insert(one, order.pop(other))
        speed = counted / max(1e-6, time.monotonic() - began)
        length *= 2
