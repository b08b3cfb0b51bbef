"""Memory limits of plans: on the permanent memory of tasks, or if peaks are limited, on all allocations of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placesim.machine.memory.device_allocators import make_allocator
from placesim.planning.peaks import Peaks
from placesim.planning.problem import PlanningProblem
from placesim.planning.schedules import SimulatedSchedule
from placesim.runtime.accounting.trace_replay import replay


def limited_peaks(problem: PlanningProblem, devices: Sequence[int]) -> Peaks | None:
    """Return the peaks of an assignment if the problem limits peaks; None if it limits only permanent memory."""
    if problem.memory is None:
        return None
    return Peaks(problem.memory.problem, _extended(problem, devices))


def find_overfull_devices(problem: PlanningProblem, devices: Sequence[int]) -> list[int]:
    """Return the devices whose memory would exceed their capacity."""
    if problem.memory is not None:
        return AllocationOrder(problem).failing_devices(devices)
    held = [0.0] * len(problem.devices)
    for task, device in enumerate(devices):
        held[device] += problem.tasks[task].holds
    return [n for n, device in enumerate(problem.devices) if held[n] > device.capacity]


def _extended(problem: PlanningProblem, devices: Sequence[int]) -> list[int]:
    """Return the device of each task of the memory problem: that of its group in the plan, and the start for all others."""
    assert problem.memory is not None
    found = list(problem.memory.start)
    for members, tasks in zip(problem.memory.problem.groups, problem.groups, strict=False):
        for task in members:
            found[task] = devices[tasks[0]]
    return found


class AllocationOrder:
    """The allocations of plans on a machine with limited peaks, in the order in which TensorFlow's executors make them.

    The last step has the order of the plan, and earlier steps have the order of the dry run.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        assert problem.memory is not None
        self._problem = problem
        self._limits = problem.memory
        self._schedule = SimulatedSchedule(problem)
        tasks = self._limits.problem.tasks
        number_of = {task.name: number for number, task in reversed(list(enumerate(problem.tasks)))}
        # the step's task that is the same as each task of the memory problem, if any
        self._task_of = [number_of.get(task.name) for task in tasks]

    def failing_devices(self, devices: Sequence[int]) -> list[int]:
        """Return the GPUs on which an allocation would fail."""
        where = _extended(self._problem, devices)
        traces = self._traces(devices, where)
        return [
            number
            for number, gpu in enumerate(self._limits.gpus)
            if gpu is not None
            and replay(traces[number], make_allocator(gpu, int(self._limits.problem.devices[number].capacity))) is not None
        ]

    def _traces(self, devices: Sequence[int], where: Sequence[int]) -> list[list[int]]:
        """Return the allocations and releases of each device: a size, or -1 - n for the release of the n-th allocation."""
        problem, first = self._limits.problem, self._limits.last_step
        made = self._schedule.memories(devices)
        at: dict[tuple[int, int], int] = {}
        for number, (task, memory, is_received) in enumerate(self._schedule.turns(devices)):
            if is_received or memory == made[task]:
                at[task, memory] = number
        found: list[list[int]] = [[] for _ in problem.devices]
        events: list[list[tuple[float, bool, int]]] = [[] for _ in problem.devices]
        for row, device in zip(problem.tasks, where, strict=True):
            if row.holds:
                found[device].append(int(row.holds))

        def moment(task: int, dry: int) -> float:
            own = self._task_of[task]
            return float(dry - first) if dry < first or own is None else float(at[own, made[own]])

        for number, tensor in enumerate(problem.tensors):
            own = where[tensor.task]
            if not tensor.size or (tensor.only_on and own not in tensor.only_on):
                continue
            begins = {} if tensor.is_kept else {own: moment(tensor.task, tensor.made)}
            ends = dict(begins)
            for task, dry in tensor.reads:
                device = where[task]
                if tensor.is_kept and device == own:
                    continue
                last = moment(task, dry) if self._task_of[task] is not None or dry < first else math.inf
                ends[device] = max(last, ends.get(device, -math.inf))
                if device != own:
                    begin = self._arrival(tensor.task, task, device, at, made) if dry >= first else float(tensor.made - first)
                    begins[device] = min(begin, begins.get(device, math.inf), last)
                    if own in ends:
                        ends[own] = max(ends[own], begins[device])
            for device, begin in begins.items():
                events[device].append((begin, False, number))
                events[device].append((max(begin, ends[device]), True, number))
        for device, rows in enumerate(events):
            place: dict[int, int] = {}
            count = len(found[device])
            for _, is_end, number in sorted(rows):
                if is_end:
                    found[device].append(-1 - place[number])
                else:
                    found[device].append(int(problem.tensors[number].size))
                    place[number] = count
                    count += 1
        return found

    def _arrival(self, maker: int, reader: int, device: int, at: dict[tuple[int, int], int], made: Sequence[int]) -> float:
        """Return the turn in which a copy for a reader arrives on its device."""
        own, reading = self._task_of[maker], self._task_of[reader]
        if own is not None and (own, device) in at:
            return float(at[own, device])
        if reading is None:
            return math.inf
        group = self._limits.problem.group_of[maker]
        turns = [
            at[source, device]
            for source in self._problem.inputs[reading]
            if made[source] != device
            and (source, device) in at
            and (own is not None or self._problem.group_of[source] == group)
        ]
        return float(min(turns, default=at[reading, made[reading]]))
