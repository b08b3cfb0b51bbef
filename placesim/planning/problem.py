"""Planning problem, as values: tasks that move in groups, devices, and the objective.

Seconds and bytes are the graph's own units where a published problem has others; nothing here depends on which they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

from placesim.core.errors import UsageError
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.workload import Resource

MAX_NAMED = 5


class Objective(Enum):
    """Objective of a plan; less is better."""

    MAKESPAN = auto()
    """One step after the other: when the last task ends."""
    LOAD = auto()
    """Steps overlap as in a pipeline: the busiest device's time per step, including its transfers."""
    CALLS = auto()
    """Like the makespan, but paying devices run connected parts as calls, which begin when all inputs are there and deliver all
    outputs at their end; other devices run any number of tasks at once.
    """
    PEAK = auto()
    """Highest peak of any device, from permanent memory of tasks and the problem's tensors."""


class ProblemTask(NamedTuple):
    """A task that runs once per step.

    `seconds` has an entry for each kind of device, infinity where none of the kind can run it.  `holds` is what it takes of its
    device's capacity, `makes` how much of its output must be moved to each other device that reads it.
    Where there is a layout, `launches` are the host's seconds before it and `cores` how many it asks for, by kind as well.
    A task that stands for several may take less than their sum: `path` and `work` are what bounds may count on, and `sends` how
    much of what it makes certainly must be moved to a device that reads it (None: all; UNSURE: maybe nothing has to).
    Where it `is_divided`, others may run between its parts.
    """

    name: str
    seconds: tuple[float, ...]
    holds: float = 0.0
    makes: float = 0.0
    is_backward: bool = False
    launches: tuple[float, ...] = ()
    cores: tuple[int, ...] = ()
    path: tuple[float, ...] = ()
    work: tuple[float, ...] = ()
    sends: float | None = None
    is_divided: bool = False

    @property
    def sent(self) -> float:
        """Bytes certainly moved to a device that reads them; UNSURE if that may be none."""
        return self.makes if self.sends is None else self.sends

    @property
    def path_seconds(self) -> tuple[float, ...]:
        """Certain time from start to end, by device kind."""
        return self.path or self.seconds

    @property
    def work_seconds(self) -> tuple[float, ...]:
        """Certain busy time of a slot, by device kind."""
        return self.work or self.seconds


class ProblemDevice(NamedTuple):
    """A device: number of simultaneous tasks, kind, and capacity for all its tasks.

    `pays` says whether transfers take the device's own time, which is false for a CPU's host memory.
    """

    name: str
    kind: int
    capacity: float = math.inf
    pays: bool = True
    slots: int = 1


UNSURE = -1.0
"""Less than an empty transfer, which takes a way's delay."""


class ProblemTensor(NamedTuple):
    """Output of a task at a moment, by the task's number; `reads` has its readers and their moments.

    It occupies its device until its last reader there has run, and each other device with readers from the same moment on until
    the last of these.  If it `is_kept`, it is part of its task's `holds`, and only copies count in addition.  If `only_on`
    names devices, it exists only while its task is on one of these.
    """

    size: float
    task: int
    made: int
    reads: tuple[tuple[int, int], ...] = ()
    is_kept: bool = False
    only_on: frozenset[int] = frozenset()


class DeviceLink(NamedTuple):
    """From one device to another: seconds before anything arrives, and seconds for each unit that a task makes."""

    delay: float = 0.0
    pace: float = 1.0


class MachineLayout(NamedTuple):
    """Machine for simulating a makespan: where each device runs its tasks, and the routes between devices.

    `places` has a resource for each device; `routes`, from and to devices, the links and the streams of a transfer, whose
    amount is in the links' unit.
    """

    resources: tuple[Resource, ...]
    links: tuple[Link, ...]
    places: tuple[int, ...]
    routes: tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], ...]


@dataclass(frozen=True)
class PlanningProblem:
    """Tasks by number with the numbers of those that they read from; tasks of one group stay on one device.

    `ways` is a matrix, from and to devices by number; None if any way takes one second for each unit and nothing else.  With
    a `layout` makespans are simulated on that machine; `tensors` are what a peak is of.  Of each row of `apart`, groups by
    number, no two may be on one device.
    Raises UsageError from `check` where no plan can be.
    """

    objective: Objective
    tasks: tuple[ProblemTask, ...]
    inputs: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    devices: tuple[ProblemDevice, ...]
    ways: tuple[tuple[DeviceLink, ...], ...] | None = None
    needs_contiguous: bool = False
    layout: MachineLayout | None = None
    tensors: tuple[ProblemTensor, ...] = ()
    apart: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the tasks that read from each, in order."""
        found: list[list[int]] = [[] for _ in self.tasks]
        for task, sources in enumerate(self.inputs):
            for source in sources:
                found[source].append(task)
        return tuple(map(tuple, found))

    @cached_property
    def group_of(self) -> tuple[int, ...]:
        """Each task's group."""
        found = [0] * len(self.tasks)
        for number, members in enumerate(self.groups):
            for task in members:
                found[task] = number
        return tuple(found)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Tasks in topological order; empty if there is a cycle."""
        waiting = [len(sources) for sources in self.inputs]
        ready = [task for task, count in enumerate(waiting) if not count]
        found = []
        while ready:
            task = ready.pop()
            found.append(task)
            for reader in self.readers[task]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
        return tuple(found) if len(found) == len(self.tasks) else ()

    @cached_property
    def held(self) -> tuple[float, ...]:
        """Permanent memory of each group."""
        return tuple(math.fsum(self.tasks[task].holds for task in members) for members in self.groups)

    @cached_property
    def group_seconds(self) -> tuple[tuple[float, ...], ...]:
        """For each group, the time of its tasks on each kind of device."""
        return tuple(
            tuple(sum(parts) for parts in zip(*(self.tasks[task].seconds for task in members), strict=True))
            for members in self.groups
        )

    @cached_property
    def kinds(self) -> tuple[tuple[int, ...], ...]:
        """The devices of each kind."""
        count = 1 + max((device.kind for device in self.devices), default=-1)
        return tuple(tuple(n for n, device in enumerate(self.devices) if device.kind == kind) for kind in range(count))

    @cached_property
    def are_devices_alike(self) -> bool:
        """Whether all devices run and hold the same, so that only their number counts."""
        return len({device[1:] for device in self.devices}) == 1

    @cached_property
    def movable(self) -> tuple[int, ...]:
        """The groups that more than one device could run."""
        count = len(self.devices)
        return tuple(group for group in range(len(self.groups)) if sum(self.can_run(group, n) for n in range(count)) > 1)

    @cached_property
    def homeless(self) -> tuple[int, ...]:
        """The groups that no device can run or hold."""
        count = len(self.devices)
        return tuple(group for group in range(len(self.groups)) if not any(self.can_run(group, n) for n in range(count)))

    @cached_property
    def homes(self) -> tuple[frozenset[int], ...]:
        """The devices that could run and hold each group."""
        count = len(self.devices)
        return tuple(frozenset(n for n in range(count) if self.can_run(group, n)) for group in range(len(self.groups)))

    @cached_property
    def rivals(self) -> tuple[tuple[int, ...], ...]:
        """For each group those that must be elsewhere."""
        found: list[set[int]] = [set() for _ in self.groups]
        for row in self.apart:
            for group in row:
                found[group].update(row)
        return tuple(tuple(sorted(others - {group})) for group, others in enumerate(found))

    def are_apart_on(self, of_group: Sequence[int]) -> bool:
        """Whether groups that must not share a device have one each."""
        return all(len({of_group[group] for group in row}) == len(row) for row in self.apart)

    def way(self, source: int, target: int) -> DeviceLink:
        """From a device to another."""
        return _PLAIN if self.ways is None else self.ways[source][target]

    def can_run(self, group: int, device: int) -> bool:
        """Whether a device has kernels for a group, and room for it alone."""
        found = self.devices[device]
        return self.group_seconds[group][found.kind] < math.inf and self.held[group] <= found.capacity

    def check(self) -> None:
        """Raise UsageError, naming tasks, for invalid times, a cycle, or a group that no device can run or hold."""
        for task in self.tasks:
            figures = (*task.seconds, *task.launches, *task.path, *task.work)
            wrong = next((x for x in (*figures, task.holds, task.makes) if math.isnan(x) or x < 0), None)
            if wrong is not None:
                raise UsageError(f"{task.name}: got a time or size of {wrong:g}, expected 0 or more")
            if not math.isfinite(task.holds) or not math.isfinite(task.makes):
                raise UsageError(f"{task.name}: got an infinite size, expected one that fits a device")
            if len(task.seconds) != len(self.kinds):
                raise UsageError(
                    f"{task.name}: got {len(task.seconds)} times, expected {len(self.kinds)}, one per kind of device"
                )
        self._check_numbers()
        if self.tasks and not self.order:
            raise UsageError(f"cycle of tasks: got {_named(self._circle())}")
        for number in self.homeless:
            names = _named(self.tasks[task].name for task in self.groups[number])
            most = max((device.capacity for device in self.devices), default=0.0)
            raise UsageError(f"no device fits {names}: got {self.held[number]:g} in total, expected at most {most:g}")

        for row in self.apart:
            lacking = self._without_device(row)
            if lacking:
                names = _named(self.tasks[self.groups[group][0]].name for group in row)
                homes = len(frozenset().union(*(self.homes[group] for group in row)))
                raise UsageError(
                    f"too few devices to keep groups apart: got {homes} for {len(row)} groups ({names})"
                    if homes < len(row)
                    else f"cannot keep {names} apart: some are allowed on too few devices"
                )

    def _check_numbers(self) -> None:
        """Check that each task exists in exactly one group, and that tensors and groups refer to existing tasks."""
        count = len(self.tasks)
        for task, sources in zip(self.tasks, self.inputs, strict=True):
            if any(not 0 <= source < count for source in sources):
                raise UsageError(f"{task.name}: got an unknown input task, expected numbers from 0 to {count - 1}")
        grouped = Counter(task for members in self.groups for task in members)
        for number, task in enumerate(self.tasks):
            if grouped[number] != 1:
                raise UsageError(f"{task.name}: got {grouped[number]} groups, expected one")
        for tensor in self.tensors:
            if not 0 <= tensor.size < math.inf or not 0 <= tensor.task < count:
                named = self.tasks[tensor.task].name if 0 <= tensor.task < count else f"task {tensor.task}"
                raise UsageError(f"{named}: got a tensor of size {tensor.size:g}, expected 0 or more, from an existing task")

    def _without_device(self, row: Sequence[int]) -> bool:
        """Whether groups can't have a device each: a matching in a graph of two sides, along augmenting paths."""
        group_on: dict[int, int] = {}

        def takes_one(group: int, tried: set[int]) -> bool:
            for device in sorted(self.homes[group] - tried):
                tried.add(device)
                if device not in group_on or takes_one(group_on[device], tried):
                    group_on[device] = group
                    return True
            return False

        return not all(takes_one(group, set()) for group in row)

    def _circle(self) -> list[str]:
        """The names along a circle of tasks."""
        alive = set(range(len(self.tasks)))
        # what nothing alive reads, or what reads nothing alive, is on no circle
        while True:
            inner = {t for t in alive if any(s in alive for s in self.inputs[t]) and any(r in alive for r in self.readers[t])}
            if inner == alive:
                break
            alive = inner
        walk, at = [], min(alive)
        while at not in walk:
            walk.append(at)
            at = next(source for source in self.inputs[at] if source in alive)
        return [self.tasks[task].name for task in reversed(walk[walk.index(at) :])]


_PLAIN = DeviceLink()


def _named(names: Iterable[str]) -> str:
    found = list(names)
    more = f", and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(found[:MAX_NAMED]) + more


class Plan(NamedTuple):
    """Device of each task, by number, and the objective's value.

    `starts` are the tasks' start times for a makespan; `calls` are the numbers of the tasks' calls on their devices for the
    calls objective.
    """

    value: float
    devices: tuple[int, ...]
    starts: tuple[float, ...] = ()
    calls: tuple[int, ...] = ()


def find_overfull_devices(problem: PlanningProblem, devices: Sequence[int]) -> list[int]:
    """Devices whose memory would exceed their capacity."""
    held = [0.0] * len(problem.devices)
    for task, device in enumerate(devices):
        held[device] += problem.tasks[task].holds
    return [n for n, device in enumerate(problem.devices) if held[n] > device.capacity]


def are_apart(problem: PlanningProblem, devices: Sequence[int]) -> bool:
    """Whether groups that must not share a device have one each."""
    return not problem.apart or problem.are_apart_on([devices[members[0]] for members in problem.groups])


def can_run_all(problem: PlanningProblem, devices: Sequence[int]) -> bool:
    """Whether each task is on a device that has a kernel for it."""
    kinds = [device.kind for device in problem.devices]
    return all(task.seconds[kinds[device]] < math.inf for task, device in zip(problem.tasks, devices, strict=True))
