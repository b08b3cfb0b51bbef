"""Search for a makespan with short memory that begins without limits: its best plan is then changed until memory suffices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from placesim.planning.methods.dispatch_simulation import dispatch_ready
from placesim.planning.methods.estimated_moves import MAX_TASKS, EstimatedMoves
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.search_budget import Search

DISPATCH_SHARE, FREE_SHARE = 0.1, 0.2
"""Shares of the remaining effort for passes, and for moves of the best of their plans, both without limits."""


def fit_memory(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better plans that fit, from moves of plans that were found without limits of memory."""
    if problem.memory is None or len(problem.tasks) > MAX_TASKS or not problem.movable:
        return
    devices = tuple(device._replace(capacity=math.inf) for device in problem.devices)
    free = replace(problem, memory=None, devices=devices)
    found = None
    for plan in dispatch_ready(free, replace(search.share(DISPATCH_SHARE), start=None)):
        found = plan
    if found is None:
        return
    for plan in EstimatedMoves(free, search.share(FREE_SHARE)).improve(found):
        found = plan
    limited, unlimited = EstimatedMoves(problem, search), EstimatedMoves(free, search)
    best, start = math.inf if search.start is None else search.start.value, found
    while not search.is_over and not search.is_met(best):
        for plan in limited.fit(start):
            if plan.value < best:
                best = plan.value
                yield plan
        start = unlimited.shaken(found)
