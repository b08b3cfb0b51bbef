"""Memory in a search for fast plans: the memory problem of all steps gives the memory of groups, and the peaks of plans."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from placesim.planning.graphs.assignments import planned_devices
from placesim.planning.graphs.problem_building import GraphProblem, relax_capacities
from placesim.planning.memory_limits import limited_peaks
from placesim.planning.methods.estimated_moves import MAX_CELLS
from placesim.planning.methods.peak_repair import MAX_MOVES, lower_peaks, tensor_units
from placesim.planning.objectives import measure
from placesim.planning.peaks import Peaks
from placesim.planning.problem import MemoryLimits, Objective, are_apart
from placesim.planning.schedule_estimates import ScheduleEstimates

MAX_TIMED = 8
"""Number of moves whose step times are compared if they cannot be estimated."""
MORE = 1.1
"""Factor of the missing bytes by which a capacity is lowered."""
_ROUNDED_UP = 1 + 1e-9
"""Factor that covers the rounding of sums in another order."""


def hold_peak_memory(drawn: GraphProblem, memory: GraphProblem) -> GraphProblem:
    """Return the problem of a fast plan in which each group holds its memory at the peak of the dry run.

    The fast plan's own estimate counts the same share of each output, no matter how long the output lives.
    """
    problem = memory.problem
    state = Peaks(problem, [0] * len(problem.tasks))
    held = list(problem.held)
    for number in state.largest_at_peak(0):
        if not problem.tensors[number].is_kept:
            held[problem.group_of[problem.tensors[number].task]] += problem.tensors[number].size
    of_name = {name: size for size, group in zip(held, memory.groups, strict=True) for name in group.nodes[:1]}
    tasks = list(drawn.problem.tasks)
    for members, group in zip(drawn.problem.groups, drawn.groups, strict=True):
        size = sum(of_name.get(name, 0.0) for name in group.nodes)
        for number, task in enumerate(members) if group.nodes else ():
            tasks[task] = tasks[task]._replace(holds=0.0 if number else size)
    return replace(drawn, problem=relax_capacities(replace(drawn.problem, tasks=tuple(tasks)), drawn.groups))


def extend_assignment(memory: GraphProblem, planned: Mapping[str, str]) -> tuple[int, ...]:
    """Return the assignment of a memory problem with the planned devices, by node.

    Other groups, such as initializers, go to the device that shares the most bytes with them, if they may run there.
    """
    problem, numbers = memory.problem, {device.name: number for number, device in enumerate(memory.devices)}

    def choose(group: int, near: Counter[int]) -> int:
        allowed = (device for device, _ in near.most_common() if device in memory.groups[group].choices)
        return next(allowed, memory.start[problem.groups[group][0]])

    found = _spread(memory, {name: numbers[device] for name, device in planned.items()}, choose)
    return tuple(
        found.get(group, memory.start[task]) for task, group in zip(range(len(problem.tasks)), problem.group_of, strict=True)
    )


def _spread(memory: GraphProblem, of_node: Mapping[str, int], choose: Callable[[int, Counter[int]], int]) -> dict[int, int]:
    """Return a number for each group: that of a node in it, or else the choice among the numbers of connected groups.

    `choose` gets the group, and the bytes that the group shares with each number. Groups without a connection have no number.
    """
    problem = memory.problem
    found = {
        group: of_node[name]
        for group, own in enumerate(memory.groups)
        if (name := next((name for name in own.nodes if name in of_node), None)) is not None
    }
    shared: dict[int, Counter[int]] = {}
    for tensor in problem.tensors:
        own = problem.group_of[tensor.task]
        for other in {problem.group_of[task] for task, _ in tensor.reads} - {own}:
            for one, two in ((own, other), (other, own)):
                if one not in found:
                    shared.setdefault(one, Counter())[two] += int(tensor.size)
    # an initializer may have several nodes in a row, so that the last one follows first
    while ready := [group for group in shared if group not in found and any(other in found for other in shared[group])]:
        for group in ready:
            near = Counter[int]()
            for other, size in shared[group].items():
                if other in found:
                    near[found[other]] += size
            found[group] = choose(group, near)
    return found


def limit_peaks(
    drawn: GraphProblem, memory: GraphProblem, room: float, last_step: int, fitting: Sequence[int] = ()
) -> GraphProblem:
    """Return the problem with peaks limited to a share `room` of the capacities, but not below those of `fitting`.

    `last_step` is the moment at which the step of the problem begins. A group that runs only in other steps, such as an
    initializer, moves with the group with which it shares the most bytes.
    """
    number_of = {name: number for number, group in enumerate(drawn.groups) for name in group.nodes}
    follows = _spread(memory, number_of, lambda _, near: near.most_common(1)[0][0])
    groups: list[list[int]] = [[] for _ in drawn.groups]
    for group, tasks in enumerate(memory.problem.groups):
        if group in follows:
            groups[follows[group]] += tasks
        else:
            groups.append(list(tasks))
    limited = replace(memory.problem, groups=tuple(map(tuple, groups)))
    limits = MemoryLimits(limited, memory.start, tuple(device.gpu for device in drawn.devices), last_step)
    problem = replace(drawn.problem, memory=limits)
    peaks = limited_peaks(problem, fitting) if fitting else None
    least = np.zeros(len(limited.devices)) if peaks is None else peaks.peaks * _ROUNDED_UP
    rooms = (
        device._replace(capacity=max(device.capacity * room, float(own)))
        for device, own in zip(limited.devices, least, strict=True)
    )
    limits = limits._replace(problem=replace(limited, devices=tuple(rooms)))
    return replace(drawn, problem=replace(problem, memory=limits))


def lower_capacities(
    drawn: GraphProblem, memory: GraphProblem, devices: Sequence[int], fitting: Sequence[int] = ()
) -> GraphProblem:
    """Return the problem with a lower capacity for each device whose peak in an assignment exceeds its memory.

    Capacities stay high enough for `fitting`, an assignment that is known to fit, so that the next search can start from it.
    """
    planned = planned_devices(drawn, devices)
    peaks = Peaks(memory.problem, extend_assignment(memory, planned)).peaks
    rooms = []
    for number, (room, peak) in enumerate(zip(drawn.problem.devices, peaks, strict=True)):
        over = peak - memory.problem.devices[number].capacity
        held, least = (
            math.fsum(task.holds for task, own in zip(drawn.problem.tasks, rows, strict=False) if own == number)
            for rows in (devices, fitting)
        )
        capacity = room.capacity if over <= 0 else max(held - MORE * over, held / 2)
        rooms.append(room._replace(capacity=max(capacity, least * _ROUNDED_UP)))
    return replace(drawn, problem=relax_capacities(replace(drawn.problem, devices=tuple(rooms)), drawn.groups))


def repair_peaks(
    drawn: GraphProblem, memory: GraphProblem, devices: Sequence[int], room: float, is_over: Callable[[], bool]
) -> tuple[int, ...] | None:
    """Return a similar assignment of the memory problem with peaks of at most a share `room` of the capacities.

    A move takes a tensor that is alive at a peak to another device, together with all its readers on the device. Return None if
    no move helps, or once `is_over` returns true; see `lower_peaks`.
    """
    problem = memory.problem
    state, step = Peaks(problem, devices), _StepTimes(drawn, memory)
    state.capacities = [device.capacity * room for device in problem.devices]
    before = dict(enumerate(state.of_group))

    def rate(moves: Sequence[Mapping[int, int]]) -> list[float]:
        return step.seconds([{**before, **move} for move in moves])

    def allows(move: Mapping[int, int]) -> bool:
        if not all(device in problem.homes[group] for group, device in move.items()):
            return False
        after = {**before, **move}
        return not problem.apart or are_apart(problem, [after[group] for group in problem.group_of])

    moved = lower_peaks(state, tensor_units(state), rate, allows, is_over, step.most)
    return None if moved is None else tuple(state.devices)


class _StepTimes:
    """Step times of assignments that were searched for low memory: estimates, or values if moves cannot be estimated.

    `most` is the number of moves whose step times should be compared.
    """

    def __init__(self, drawn: GraphProblem, memory: GraphProblem) -> None:
        number_of = {name: number for number, group in enumerate(memory.groups) for name in group.nodes}
        self._start, self._measured = drawn.start, measure(drawn.problem)
        self._rank = {task: place for place, task in enumerate(drawn.problem.order)}
        self._tasks = [
            (tasks, number_of[group.nodes[0]])
            for tasks, group in zip(drawn.problem.groups, drawn.groups, strict=True)
            if group.nodes and group.nodes[0] in number_of
        ]
        is_estimated = drawn.problem.objective is Objective.MAKESPAN and drawn.problem.layout is not None
        self._estimates = ScheduleEstimates(drawn.problem) if is_estimated else None
        self.most = min(MAX_MOVES, 1 + MAX_CELLS // max(1, len(drawn.problem.tasks))) if is_estimated else MAX_TIMED

    def seconds(self, of_groups: Sequence[Mapping[int, int]]) -> list[float]:
        rows = [list(self._start) for _ in of_groups]
        for of_group, devices in zip(of_groups, rows, strict=True):
            for tasks, group in self._tasks:
                for task in tasks:
                    devices[task] = of_group[group]
        if self._estimates is None:
            return [self._measured.plan(devices).value for devices in rows]
        starts = self._measured.plan(rows[-1]).starts
        order = sorted(range(len(starts)), key=lambda task: (starts[task], self._rank[task]))
        found: list[float] = self._estimates.seconds(np.array(rows).T, order).tolist()
        return found
