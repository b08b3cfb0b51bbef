"""Local search for a makespan on a simulated machine: many moves are estimated together, and only the best are simulated.

A move takes groups to other devices. The groups are those of a cluster (a task, a chain, a part of an order), or those that run
on a device during a time interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple, Self

import numpy as np

from placesim.planning.coarsening import clusterings, join_groups
from placesim.planning.memory_limits import AllocationOrder, limited_peaks
from placesim.planning.methods.annealing import neighbours
from placesim.planning.methods.peak_repair import lower_peaks, tensor_units
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedule_estimates import ScheduleEstimates
from placesim.planning.schedules import SimulatedSchedule
from placesim.planning.search_budget import Search

MAX_TASKS = 50_000
"""Maximum number of tasks; with more, one round takes too long."""
MOVES, MAX_CELLS = 512, 600_000
"""Number of moves that a round estimates, and the maximum number of its tasks times its moves, which limits the memory."""
KEPT = 128
"""Maximum number of moves with good estimates that are estimated again in the next round."""
ROUND_COST = 12
"""Number of simulations that take about as long as the estimates of a round."""
MAX_ALONE = 3
"""Number of best moves that are simulated alone if no combination of moves improves the plan."""
MAX_REPAIRED = 2
"""Maximum number of best moves beyond the limits of peaks that are tried with a repair if no other move improves the plan."""
MAX_WEIGHED = 64
"""Number of moves with the best estimates whose peaks are computed, if peaks are limited."""
FIRST_DRAWS = 20
"""Number of successful draws with which each kind of move begins; later, kinds that often gain time are drawn more often."""
LEAST_GAIN = 1e-5
"""Share of the step time that a move must gain by its estimate."""
MAX_FAILURES = 6
"""Number of consecutive rounds without a better plan after which another plan is improved."""
SHAKEN, MAX_LOSS = 8, 0.005
"""Number of random moves that give another plan, and the maximum loss of these or of lower peaks, as a share of the time."""
TIGHTER = 0.99
"""Factor by which a limit is lowered if an allocation fails although the peak is within the limit."""
ROOM, LEAST_ROOM = 0.985, 0.94
"""Share of a device's memory that peaks should not exceed, and its minimum after failed allocations.

With higher peaks, allocations of most similar plans fail.
"""
_WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_PART, _CRITICAL, _TOWARDS_NEIGHBOUR, _NEAR, _JOINED, _SWAP = 0.5, 0.8, 0.5, 0.3, 0.3, 0.25

Move = dict[int, int]
"""The new device of each moved group."""
_NO_MOVE: Move = {}


class EstimatedMoves:
    """The search. Its parts that do not depend on a plan are computed once, so that several plans can be improved."""

    def __init__(self, problem: PlanningProblem, search: Search) -> None:
        self._problem = problem
        self._search = search
        self._simulated = SimulatedSchedule(problem)
        self._estimates = ScheduleEstimates(problem)
        self._near = [neighbours(problem, group) for group in range(len(problem.groups))]
        self._units = [units for clusters in clusterings(problem) if len(units := _movable_units(problem, clusters)) > 1]
        self._units = self._units or [[(group,) for group in problem.movable]]
        # for each size of clusters, the cluster of each group
        self._unit_of = [{group: unit for unit in units for group in unit} for units in self._units]
        # for each size of clusters, and last for time intervals: the number of draws, and of those that gained time
        self._drawn, self._gained = ([FIRST_DRAWS] * (1 + len(self._units)) for _ in range(2))
        self._group_of = np.array(problem.group_of, np.intp)
        self._rank = {task: place for place, task in enumerate(problem.order)}
        self._moves = min(MOVES, MAX_CELLS // max(1, len(problem.tasks)))
        self._order = None if problem.memory is None else AllocationOrder(problem)
        self._peaks = limited_peaks(problem, [min(problem.homes[group], default=0) for group in problem.group_of])
        self._capacities = () if self._peaks is None else tuple(self._peaks.capacities)
        self._rooms = [ROOM * capacity for capacity in self._capacities]

    def within(self, search: Search) -> Self:
        """Return the same moves within another budget."""
        other = copy(self)
        other._search = search
        return other

    def plans(self, start: Plan) -> Iterator[Plan]:
        """Yield better plans until the search is over. If moves no longer help, random moves give another plan to improve."""
        best = start
        while True:
            for plan in self.improve(start):
                if plan.value < best.value:
                    best = plan
                    yield best
            if self._search.is_over or self._search.is_met(best.value):
                return
            start = self.shaken(best)

    def improve(self, start: Plan) -> Iterator[Plan]:
        """Yield better plans until several consecutive rounds find none, or the search is over."""
        search, failures, promising = self._search, 0, list[Move]()
        state, least = self._roomy(self._state(start.devices)), start.value
        while failures < MAX_FAILURES and not search.is_over and not search.is_met(state.plan.value):
            promising = self._estimated(state, promising, 1 - LEAST_GAIN)
            found = self._best_of(state, promising)
            failures += 1
            if found is not None:
                failures, state = 0, found
                if state.plan.value < least:
                    least = state.plan.value
                    yield state.plan

    def _roomy(self, state: State) -> State:
        """Return a similar state with lower peaks if little memory is left, so that later moves have room.

        Return the same state if that does not fit, or loses much time.
        """
        peaks = self._peaks
        if peaks is None:
            return state
        peaks.move_to(state.of_group)
        peaks.capacities = list(self._rooms)
        move = self._lowering(state) if peaks.over.any() else None
        if not move:
            return state
        lower = self._state(self._moved(state.plan, move))
        is_slow = lower.plan.value > state.plan.value * (1 + MAX_LOSS)
        return state if is_slow or not self._succeeds(lower.plan.devices) else lower

    def shaken(self, plan: Plan) -> Plan:
        """Return a plan after a few random moves that lose little time by their estimates."""
        state, together = self._state(plan.devices), Move()
        moves = self._estimated(state, (), 1 + MAX_LOSS)
        for combined in self._combined(state, self._search.random.sample(moves, min(SHAKEN, len(moves)))):
            together = combined
        self._search.spend(1)
        return self._simulated.plan(self._moved(plan, together))

    def _state(self, devices: Sequence[int]) -> State:
        return self._state_of(*self._simulated.critical_tasks(devices))

    def _state_of(self, plan: Plan, critical: Sequence[int]) -> State:
        """Return the state of a simulated plan with its critical tasks."""
        problem = self._problem
        starts, of_group = plan.starts, [plan.devices[tasks[0]] for tasks in problem.groups]
        left = [device.capacity if problem.memory is None else math.inf for device in problem.devices]
        for group, device in enumerate(of_group):
            left[device] -= problem.held[group]
        order = sorted(range(len(starts)), key=lambda task: (starts[task], self._rank[task]))
        movable = self._unit_of[0]
        chain = [group for group in dict.fromkeys(problem.group_of[task] for task in critical) if group in movable]
        first = [min(starts[task] for task in tasks) for tasks in problem.groups]
        return State(plan, of_group, left, first, order, chain or list(movable))

    def _estimated(self, state: State, earlier: Sequence[Move], most: float) -> list[Move]:
        """Return the moves of `_rated` without their estimates."""
        return [move for _, move in self._rated(state, earlier, most)]

    def _rated(self, state: State, earlier: Sequence[Move], most: float) -> list[tuple[float, Move]]:
        """Draw moves. Return the moves with the lowest estimates among new and earlier moves, the best first.

        An estimate is a multiple of the plan's estimate, and at most `most`.
        """
        again = ({group: new for group, new in move.items() if state.of_group[group] != new} for move in earlier[:KEPT])
        drawn = ((kind, self._draw(state, kind)) for kind in self._draw_kinds(self._moves))
        distinct: dict[tuple[tuple[int, int], ...], tuple[int | None, Move]] = {}
        for kind, move in (*((None, move) for move in again), *drawn):
            if move and self._is_possible(state, move):
                distinct[tuple(sorted(move.items()))] = kind, move
        rows = [move for _, move in distinct.values()]
        seconds = self._estimated_seconds(state, [*rows, {}])
        ratios = seconds / seconds[-1]
        for (kind, _), ratio in zip(distinct.values(), ratios, strict=False):
            if kind is not None and ratio < 1 - LEAST_GAIN:
                self._gained[kind] += 1
        return [
            (float(ratios[number]), rows[number]) for number in np.argsort(seconds[:-1], kind="stable") if ratios[number] < most
        ]

    def _estimated_seconds(self, state: State, moves: Sequence[Mapping[int, int]]) -> np.ndarray:
        """Return the estimated step time of a plan after each of several moves."""
        of_group = np.repeat(np.array(state.of_group)[:, None], len(moves), axis=1)
        changes = [(group, number, device) for number, move in enumerate(moves) for group, device in move.items()]
        groups, numbers, targets = np.array(changes, np.intp).reshape(-1, 3).T
        of_group[groups, numbers] = targets
        self._search.spend(ROUND_COST)
        return self._estimates.seconds(of_group[self._group_of], state.order)

    def _draw_kinds(self, count: int) -> list[int]:
        """Return random kinds of moves: the number of a size of clusters, or the number of sizes for a time interval."""
        rates = [gained / drawn for gained, drawn in zip(self._gained, self._drawn, strict=True)]
        kinds = self._search.random.choices(range(len(rates)), rates, k=count)
        for kind in kinds:
            self._drawn[kind] += 1
        return kinds

    def _draw(self, state: State, kind: int) -> Move:
        """Return a random move of a kind, which may be impossible."""
        draw, of_group, count = self._search.random, state.of_group, len(self._problem.devices)
        if kind == len(self._units):
            width = draw.choice(_WIDTHS) * state.plan.value
            begin, old, new = draw.uniform(-width, state.plan.value), draw.randrange(count), draw.randrange(count)
            share = draw.random() if draw.random() < _PART else 1.0
            end = begin + width
            moved = [group for group in self._problem.movable if begin <= state.starts[group] < end]
            moved = [group for group in moved if of_group[group] == old and draw.random() < share]
        else:
            first = draw.choice(state.critical if draw.random() < _CRITICAL else self._problem.movable)
            moved = list(self._unit_of[kind][first])
            old, near = of_group[first], self._near[first]
            is_near = near and draw.random() < _TOWARDS_NEIGHBOUR
            new = of_group[near[draw.randrange(len(near))]] if is_near else draw.randrange(count)
            if draw.random() < _NEAR:
                moved += [group for group in near if of_group[group] == old and draw.random() < _JOINED]
        back: Sequence[int] = draw.choice(draw.choice(self._units)) if draw.random() < _SWAP else ()
        move: Move = {**dict.fromkeys(back, old), **dict.fromkeys(moved, new)}
        homes = self._problem.homes
        return {group: device for group, device in move.items() if of_group[group] != device and device in homes[group]}

    def _is_possible(self, state: State, move: Mapping[int, int]) -> bool:
        """Return whether devices have room for the permanent memory of moved groups, and groups that must be apart stay so."""
        problem, left = self._problem, state.left.copy()
        for group, device in move.items():
            left[device] -= problem.held[group]
            left[state.of_group[group]] += problem.held[group]
        return all(left[device] >= 0 for device in move.values()) and not (
            problem.apart
            and any(
                move.get(rival, state.of_group[rival]) == device
                for group, device in move.items()
                for rival in problem.rivals[group]
            )
        )

    def _best_of(self, state: State, moves: Sequence[Move]) -> State | None:
        """Simulate combinations of the best moves. Return the best result; None if it is not better."""
        combined = list(self._combined(state, moves))
        # until fewer moves gain less
        best = self._best_simulated(state, halves(combined), stops_early=True)
        if best is not None:
            return best
        alone, too_large = list[Move](), list[Move]()
        for move in moves[:MAX_WEIGHED]:
            (alone if self._fits(state, move) else too_large).append(move)
            if len(alone) == MAX_ALONE:
                break
        best = self._best_simulated(state, alone[1:])
        if best is not None:
            return best
        repaired = (self._repaired(state, move) for move in too_large[:MAX_REPAIRED])
        return self._best_simulated(state, (move for move in repaired if move))

    def _combined(self, state: State, moves: Sequence[Move], *, may_exceed: bool = False) -> Iterator[Move]:
        """Yield the first move, and then its combinations with more and more of the other moves, if these are possible.

        With `may_exceed`, peaks may exceed their limits, but no further move may increase the excess.
        """
        together: Move = {}
        peaks = self._peaks
        if peaks is not None and may_exceed:
            peaks.move_to(state.of_group)
        elif peaks is not None:
            self._limit(state)
        for move in moves if peaks is None else moves[:MAX_WEIGHED]:
            if not move.keys().isdisjoint(together) or not self._is_possible(state, {**together, **move}):
                continue
            most = 0.0 if peaks is None or not may_exceed else peaks.excess if together else math.inf
            if peaks is None or peaks.takes(move, most):
                together = {**together, **move}
                yield together

    def _fits(self, state: State, move: Move) -> bool:
        """Return whether peaks are within their limits after a move."""
        if self._peaks is None:
            return True
        self._limit(state)
        return self._peaks.takes(move)

    def _repaired(self, state: State, move: Move) -> Move | None:
        """Return a move that exceeds the limits of peaks, with further moves that lower the peaks; None if there are none."""
        assert self._peaks is not None
        self._limit(state)
        self._peaks.move(move)
        lower = self._lowering(state, move)
        return None if lower is None else {**move, **lower}

    def _limit(self, state: State) -> None:
        """Set the peaks to those of a plan, and the limits to the room for peaks, but not below the plan's peaks."""
        assert self._peaks is not None
        self._peaks.move_to(state.of_group)
        self._peaks.capacities = [max(pair) for pair in zip(self._rooms, self._peaks.peaks.tolist(), strict=True)]

    def _succeeds(self, devices: Sequence[int]) -> bool:
        """Return whether all allocations succeed.

        If they fail although peaks are within the limits, later peaks must be lower: fragments take memory, and a plan's order
        differs from that of the dry run.
        """
        failing = [] if self._order is None else self._order.failing_devices(devices)
        if failing and self._peaks is not None:
            self._peaks.move_to([devices[tasks[0]] for tasks in self._problem.groups])
            peaks = self._peaks.peaks
            for device in failing:
                tighter = TIGHTER * min(self._rooms[device], float(peaks[device]))
                self._rooms[device] = max(LEAST_ROOM * self._capacities[device], tighter)
        return not failing

    def _best_simulated(self, state: State, moves: Iterable[Move], *, stops_early: bool = False) -> State | None:
        """Return the state after the best move; None if no move gains time.

        With `stops_early`, no move is simulated after one that is worse than an earlier move that gains time.
        """
        best, least = None, state.plan.value
        for move in moves:
            self._search.spend(1)
            found = self._simulated.critical_tasks(self._moved(state.plan, move))
            plan, _ = found
            if plan.value < least and self._succeeds(plan.devices):
                best, least = found, plan.value
            elif (best is not None and stops_early) or self._search.is_over:
                break
        return None if best is None else self._state_of(*best)

    def _lowering(self, state: State, first: Mapping[int, int] = _NO_MOVE) -> Move | None:
        """Return the move of `lower_peaks` for the peaks of a plan after a first move."""
        assert self._peaks is not None

        def rate(moves: Sequence[Mapping[int, int]]) -> list[float]:
            found: list[float] = self._estimated_seconds(state, [{**first, **move} for move in moves]).tolist()
            return found

        def allows(move: Mapping[int, int]) -> bool:
            return self._allows(state, {**first, **move})

        return lower_peaks(self._peaks, self._units_at, rate, allows, lambda: self._search.is_over, self._moves)

    def _units_at(self, number: int) -> Iterator[Sequence[int]]:
        """Yield the units that hold a tensor of the memory problem: its maker and readers, and its maker's units."""
        assert self._peaks is not None
        own, problem = self._unit_of[0], self._peaks.problem
        for unit in tensor_units(self._peaks)(number):
            yield tuple(group for group in unit if group in own)
        maker = problem.group_of[problem.tensors[number].task]
        for unit_of in self._unit_of if maker in own else ():
            yield unit_of[maker]

    def _allows(self, state: State, move: Mapping[int, int]) -> bool:
        """Return whether groups can move to devices that can run them."""
        homes = self._problem.homes
        return all(device in homes[group] for group, device in move.items()) and self._is_possible(state, move)

    def _moved(self, plan: Plan, move: Mapping[int, int]) -> list[int]:
        """Return the devices of a plan after a move."""
        devices = list(plan.devices)
        for group, device in move.items():
            for task in self._problem.groups[group]:
                devices[task] = device
        return devices


class State(NamedTuple):
    """The plan from which moves are drawn.

    - `of_group`: the device of each group; `left`: the free memory of each device.
    - `starts`: the start of each group; `order`: the tasks in the order in which they start.
    - `critical`: the movable groups of tasks that determine the step time, or all if there are none.
    """

    plan: Plan
    of_group: list[int]
    left: list[float]
    starts: list[float]
    order: list[int]
    critical: list[int]


def halves(combined: Sequence[Move]) -> Iterator[Move]:
    """Yield the combination of all moves, then of the best half of them, and so on."""
    return (combined[(len(combined) >> shift) - 1] for shift in range(len(combined).bit_length()))


def _movable_units(problem: PlanningProblem, clusters: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the movable groups of each cluster."""
    movable, units = set(problem.movable), dict[int, dict[int, None]]()
    for task, unit in enumerate(join_groups(problem, clusters)):
        if problem.group_of[task] in movable:
            units.setdefault(unit, {})[problem.group_of[task]] = None
    return list(map(tuple, units.values()))
