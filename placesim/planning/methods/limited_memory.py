"""Search for a makespan with short memory that begins without limits: its best plan is then changed until memory suffices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from placesim.planning.memory_limits import AllocationOrder
from placesim.planning.methods.dispatch_simulation import dispatch_ready
from placesim.planning.methods.estimated_moves import (
    LEAST_GAIN,
    MAX_FAILURES,
    MAX_TASKS,
    TIGHTER,
    EstimatedMoves,
    Move,
    State,
    halves,
)
from placesim.planning.peaks import Peaks
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.search_budget import Search

DISPATCH_SHARE, FREE_SHARE = 0.1, 0.2
"""Shares of the remaining effort for passes, and for moves of the best of their plans, both without limits."""
PENALTIES = (1.0, 3.0, 10.0)
"""Factors of the step time for each device's memory that an assignment lacks, while a plan is made to fit."""
LEAST_WEIGHT = 0.02
"""Least share of the step time that an excess counts, so that a plan that nearly fits soon fits."""
HARDER = 1.05
"""Factor of the least penalty with which a move helps."""

MAX_TRIMS = 8
"""Maximum number of times that a plan is made to fit with ever lower limits, because fragments take memory."""
MAX_TRIM_LOSS = 1.03
"""Maximum factor by which a plan that is made to fit in this way may be slower than before."""


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
    unlimited = EstimatedMoves(free, search.share(FREE_SHARE))
    for plan in unlimited.improve(found):
        found = plan
    limited, unlimited = FittingMoves(problem, search), unlimited.within(search)
    best, start = math.inf if search.start is None else search.start.value, found
    while not search.is_over and not search.is_met(best):
        for plan in limited.fit(start):
            if plan.value < best:
                best = plan.value
                yield plan
        start = unlimited.shaken(found)


class FittingMoves(EstimatedMoves):
    """A search that changes plans until their peaks are within the limits of the problem."""

    _peaks: Peaks
    _order: AllocationOrder

    def __init__(self, problem: PlanningProblem, search: Search) -> None:
        super().__init__(problem, search)

    def fit(self, start: Plan) -> Iterator[Plan]:
        """Change a plan until all its allocations succeed, and yield better plans from then on."""
        search, peaks, failures = self._search, self._peaks, 0
        peaks.capacities = list(self._capacities)
        state, failing = self._trimmed(self._state(start.devices))
        peaks.capacities = list(self._capacities)
        penalty = search.random.choice(PENALTIES)
        while failing and failures < MAX_FAILURES and not search.is_over:
            penalty, moves = self._weighed(state, penalty)
            found = self._fitter(state, moves, penalty)
            failures += 1
            if found is not None:
                failures, state = 0, self._state(found)
                failing = self._order.failing_devices(found)
            peaks.move_to(state.of_group)
            self._tighten(failing)
        if not failing:
            yield state.plan
            yield from self.improve(state.plan)

    def _tighten(self, failing: Sequence[int]) -> None:
        """If all peaks are within the limits, lower those of devices on which an allocation fails: fragments take memory."""
        peaks = self._peaks
        for device in failing if not peaks.excess else ():
            peaks.capacities[device] = TIGHTER * min(float(peaks.peaks[device]), peaks.capacities[device])

    def _trimmed(self, start: State) -> tuple[State, list[int]]:
        """Return a state that fits after moves of units that hold tensors at peaks, and no failing devices.

        If that does not fit, or loses much time, return the start and its failing devices.
        """
        state, peaks = start, self._peaks
        failing = first = self._order.failing_devices(state.plan.devices)
        for _ in range(MAX_TRIMS if failing else 0):
            peaks.move_to(state.of_group)
            self._tighten(failing)
            move = self._lowering(state)
            if move is None:
                break
            state = self._state(self._moved(state.plan, move))
            failing = self._order.failing_devices(state.plan.devices)
            if not failing:
                break
        is_slow = state.plan.value > start.plan.value * MAX_TRIM_LOSS
        return (start, first) if failing or is_slow else (state, failing)

    def _fitter(self, state: State, moves: Sequence[Move], penalty: float) -> list[int] | None:
        """Return the devices after the best combination of moves by step time and excess; None if none is better."""
        peaks = self._peaks
        peaks.move_to(state.of_group)
        found, least = None, state.plan.value * (1 + penalty * peaks.excess)
        for together in halves(list(self._combined(state, moves, may_exceed=True))):
            devices = self._moved(state.plan, together)
            self._search.spend(1)
            peaks.move_to([devices[tasks[0]] for tasks in self._problem.groups])
            value = self._simulated.seconds(devices) * (1 + penalty * peaks.excess)
            if value < least:
                found, least = devices, value
        return found

    def _weighed(self, state: State, penalty: float) -> tuple[float, list[Move]]:
        """Return drawn moves that are better by their estimates and excesses, the best first, and the penalty for that.

        If no move is better, the penalty grows until one is: the move that loses the least time for the memory that it frees.
        """
        peaks = self._peaks
        peaks.move_to(state.of_group)
        excess = peaks.excess
        penalty = max(penalty, LEAST_WEIGHT / excess) if excess else penalty
        alive = [number for device in np.flatnonzero(peaks.over) for number in peaks.largest_at_peak(int(device))]
        crowded = [peaks.problem.group_of[peaks.problem.tensors[number].task] for number in alive]
        movable = [group for group in dict.fromkeys(crowded) if group in self._unit_of[0]]
        rows = []
        for ratio, move in self._rated(state._replace(critical=movable or state.critical), (), math.inf):
            change = peaks.move(move)
            rows.append((ratio, peaks.excess, move))
            peaks.undo(change)
        if all(ratio * (1 + penalty * own) >= (1 + penalty * excess) * (1 - LEAST_GAIN) for ratio, own, _ in rows):
            needed = [(ratio - 1) / (excess - ratio * own) for ratio, own, _ in rows if ratio * own < excess * (1 - LEAST_GAIN)]
            penalty = max(penalty, HARDER * min(needed, default=penalty))
        limit = (1 + penalty * excess) * (1 - LEAST_GAIN)
        scores = [ratio * (1 + penalty * own) for ratio, own, _ in rows]
        order = sorted(range(len(rows)), key=scores.__getitem__)
        return penalty, [rows[number][2] for number in order if scores[number] < limit]
