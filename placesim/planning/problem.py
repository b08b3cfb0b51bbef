"""A planning problem as values: tasks that move in groups, devices, and the objective.

For graphs, times are in seconds and sizes in bytes. Published problems have other units; nothing here depends on the units.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

from placesim.core.errors import UsageError
from placesim.machine.gpu_memory import GpuMemory
from placesim.machine.timelines.bandwidth_sharing import Link, byte_seconds, route_latency
from placesim.machine.timelines.workload import Resource

MAX_NAMED = 5


class Objective(Enum):
    """Objective of a plan; smaller values are better."""

    MAKESPAN = auto()
    """Steps run one after another: the end of the last task."""
    LOAD = auto()
    """Steps overlap as in a pipeline: the time per step of the busiest device, including its transfers."""
    CALLS = auto()
    """Like the makespan, but paying devices run connected parts as calls.

    A call begins when all its inputs are available and delivers all outputs at its end. Other devices run any number of tasks
    at once.
    """
    PEAK = auto()
    """Highest peak of any device, from the permanent memory of tasks and the problem's tensors."""


class ProblemTask(NamedTuple):
    """A task that runs once per step.

    - `seconds`: its time on each kind of device, infinite if the kind cannot run it.
    - `holds`: the capacity of its device that it occupies permanently.
    - `makes`: the size of its output, which is moved to each other device that reads it.
    - `launches`, `cores`: with a layout, the host's seconds before the task and the number of cores it requests, by device
      kind.
    - `path`, `work`: for a task that stands for several nodes, the time from its start to its end, and the busy time of a slot.
      Bounds use these, because nodes that overlap take less than the sum of their times. Work that a GPU leaves to its host is
      none of the GPU's.
    - `sends`: the part of `makes` that is certainly moved to another device that reads it (None: all; UNSURE: maybe nothing).
    - `is_divided`: whether other tasks may run between its parts.
    - `on_host`: whether a GPU keeps its output in host memory; `runs_on_host`: whether a GPU leaves its work to the host.
    - `host_inputs`: the tasks whose outputs a GPU reads from host memory for it.
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
    on_host: bool = False
    runs_on_host: bool = False
    host_inputs: frozenset[int] = frozenset()

    @property
    def sent(self) -> float:
        """Size that is certainly moved to another device that reads it; UNSURE if that may be nothing."""
        return self.makes if self.sends is None else self.sends

    @property
    def path_seconds(self) -> tuple[float, ...]:
        """Least time from start to end, by device kind."""
        return self.path or self.seconds

    @property
    def work_seconds(self) -> tuple[float, ...]:
        """Least busy time of a slot, by device kind."""
        return self.work or self.seconds


class ProblemDevice(NamedTuple):
    """A device: its kind, the capacity for all its tasks, and the number of tasks that it runs at once (`slots`).

    `pays` says whether transfers take the device's own time, which is false for a CPU's host memory.
    """

    name: str
    kind: int
    capacity: float = math.inf
    pays: bool = True
    slots: int = 1


UNSURE = -1.0
"""Marks an unknown size. It is below 0, as 0 is a known size: an empty transfer, which takes the delay of a link."""


class ProblemTensor(NamedTuple):
    """A tensor that a task makes at the moment `made`; `reads` has its readers, by task number, with their moments.

    It occupies its task's device until the last reader on that device has run. From `made` on, it also occupies each other
    device with readers until the last of them has run. If `is_kept` is set, it is part of its task's `holds`, and only copies
    count in addition. If `only_on` names devices, it exists only if its task is on one of them.
    """

    size: float
    task: int
    made: int
    reads: tuple[tuple[int, int], ...] = ()
    is_kept: bool = False
    only_on: frozenset[int] = frozenset()


class MemoryLimits(NamedTuple):
    """Limits on the peaks of plans: the memory problem, whose devices have the capacities.

    Groups with equal numbers in both problems move together. All other tasks stay on the devices `start`. `gpus` has the
    allocator settings of each GPU, on which all allocations of a plan must succeed. `last_step` is the moment at which the last
    step begins; the plan is for this step.
    """

    problem: PlanningProblem
    start: tuple[int, ...]
    gpus: tuple[GpuMemory | None, ...]
    last_step: int = 0


class DeviceLink(NamedTuple):
    """Transfer time from one device to another: seconds before anything arrives, and seconds for each unit of size."""

    delay: float = 0.0
    pace: float = 1.0


class MachineLayout(NamedTuple):
    """Machine for simulating a makespan: the resource that runs each device's tasks, and the routes between devices.

    `places` has the resource of each device.  `routes[from][to]` has the links and the streams of a transfer.

    With `hosts`, the cores of each device's host, a GPU may have tensors in host memory: `memory_routes[from][to]` has the
    routes between memories. The memory of device d has number d. The host memory of a GPU d has number d plus the number of
    devices.
    """

    resources: tuple[Resource, ...]
    links: tuple[Link, ...]
    places: tuple[int, ...]
    routes: tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], ...]
    hosts: tuple[int, ...] = ()
    memory_routes: tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], ...] = ()

    def way(self, source: int, target: int) -> DeviceLink:
        """Return the link from one device to another if each transfer is alone on its route."""
        links, _ = self.routes[source][target]
        return DeviceLink(route_latency(links, self.links), byte_seconds(links, self.links))


@dataclass(frozen=True)
class PlanningProblem:
    """A planning problem: tasks, the tasks that each of them reads (`inputs`), groups that stay on one device, and devices.

    - `ways`: the links `[from][to]` between devices; if None, each transfer takes one second per unit.
    - `layout`: the machine on which makespans are simulated, if any.
    - `tensors`: the tensors that determine peaks.
    - `apart`: rows of groups, by number; no two groups of a row may share a device.
    - `memory`: limits of peaks, which replace the limits of permanent memory.

    `check` raises UsageError if no plan is possible.
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
    memory: MemoryLimits | None = None

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Readers of each task, in order."""
        found: list[list[int]] = [[] for _ in self.tasks]
        for task, sources in enumerate(self.inputs):
            for source in sources:
                found[source].append(task)
        return tuple(map(tuple, found))

    @cached_property
    def group_of(self) -> tuple[int, ...]:
        """Group of each task."""
        found = [0] * len(self.tasks)
        for number, members in enumerate(self.groups):
            for task in members:
                found[task] = number
        return tuple(found)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Tasks in the order in which an executor runs them: in the order in which they become ready.

        Empty if there is a cycle.
        """
        waiting = [len(sources) for sources in self.inputs]
        ready = deque(task for task, count in enumerate(waiting) if not count)
        found = []
        while ready:
            task = ready.popleft()
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
        """Total time of each group's tasks on each kind of device."""
        return tuple(
            tuple(sum(parts) for parts in zip(*(self.tasks[task].seconds for task in members), strict=True))
            for members in self.groups
        )

    @cached_property
    def kinds(self) -> tuple[tuple[int, ...], ...]:
        """Devices of each kind."""
        count = 1 + max((device.kind for device in self.devices), default=-1)
        return tuple(tuple(n for n, device in enumerate(self.devices) if device.kind == kind) for kind in range(count))

    @cached_property
    def are_devices_alike(self) -> bool:
        """Whether all devices have equal properties, so that only their number counts."""
        return len({device[1:] for device in self.devices}) == 1

    @cached_property
    def movable(self) -> tuple[int, ...]:
        """Groups that more than one device can run and hold."""
        return tuple(group for group, homes in enumerate(self.homes) if len(homes) > 1)

    @cached_property
    def homeless(self) -> tuple[int, ...]:
        """Groups that no device can run and hold."""
        return tuple(group for group, homes in enumerate(self.homes) if not homes)

    @cached_property
    def homes(self) -> tuple[frozenset[int], ...]:
        """Devices that can run and hold each group."""
        count = len(self.devices)
        return tuple(frozenset(n for n in range(count) if self.can_run(group, n)) for group in range(len(self.groups)))

    @cached_property
    def rivals(self) -> tuple[tuple[int, ...], ...]:
        """For each group, the groups that may not share its device."""
        found: list[set[int]] = [set() for _ in self.groups]
        for row in self.apart:
            for group in row:
                found[group].update(row)
        return tuple(tuple(sorted(others - {group})) for group, others in enumerate(found))

    def way(self, source: int, target: int) -> DeviceLink:
        """Return the link from one device to another."""
        return _PLAIN if self.ways is None else self.ways[source][target]

    def can_run(self, group: int, device: int) -> bool:
        """Return whether a device can run a group and has room for it alone."""
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
        """Raise UsageError unless each task is in exactly one group, and inputs and tensors refer to existing tasks."""
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
        """Return whether groups of a row must share a device, by bipartite matching with augmenting paths."""
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
        """Return the names of the tasks of a cycle."""
        alive = set(range(len(self.tasks)))
        # a task without readers or without inputs in `alive` is in no cycle
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
    """A plan: the device of each task, by number, and the objective's value.

    For a makespan, `starts` are the start times of tasks. For the objective CALLS, `calls` has for each task the number of its
    call on its device.
    """

    value: float
    devices: tuple[int, ...]
    starts: tuple[float, ...] = ()
    calls: tuple[int, ...] = ()


def are_apart(problem: PlanningProblem, devices: Sequence[int]) -> bool:
    """Return whether groups that must be apart are on different devices."""
    return all(len({devices[problem.groups[group][0]] for group in row}) == len(row) for row in problem.apart)


def can_run_all(problem: PlanningProblem, devices: Sequence[int]) -> bool:
    """Return whether each task is on a device that can run it."""
    kinds = [device.kind for device in problem.devices]
    return all(task.seconds[kinds[device]] < math.inf for task, device in zip(problem.tasks, devices, strict=True))
