"""Recorded steps -> when everything of them ran on a machine, and the study of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from placesim.errors import PlacesimError
from placesim.prediction.costs import Prediction
from placesim.prediction.machines import LINK_ASSUMPTION, SimulatedMachine
from placesim.prediction.steps import Placed, StepCosts, workload
from placesim.prediction.study import (
    COMPUTE,
    LAUNCH,
    TRANSFER,
    Bound,
    DeviceTime,
    LinkTime,
    Memory,
    NodeRun,
    PathPart,
    StepTime,
    TimeStudy,
    TransferRun,
)
from placesim.runtime.recording import Execution
from placesim.timelines.bounds import bounds
from placesim.timelines.events import simulate
from placesim.timelines.timeline import Timeline, critical_path
from placesim.timelines.workload import NOWHERE, Task, Transfer

_EDGE = re.compile(r"^edge_\d+_")


class WalkedStep(NamedTuple):
    """A step of `run:`: what its first repetition executed, what a further one does, and how many there are."""

    first: Sequence[Execution]
    steady: Sequence[Execution]
    repeat: int


def study_steps(
    name: str,
    steps: Sequence[WalkedStep],
    machine: SimulatedMachine,
    memory: dict[str, Memory],
    error: PlacesimError | None = None,
) -> TimeStudy:
    """What the steps take on the machine; raises what `StepCosts.placed` raises."""
    costs = StepCosts(machine)
    readings: dict[int, SimulatedStep] = {}

    def read(step: Sequence[Execution]) -> SimulatedStep:
        found = readings.get(id(step))
        if found is None:
            placed = costs.placed(step)
            found = readings[id(step)] = SimulatedStep(step, placed, machine, *_run(step, placed, machine, _middle))
        return found

    def interval(step: Sequence[Execution]) -> tuple[float, float, float]:
        reading = read(step)
        low, high = (_run(step, reading.placed, machine, pick)[1].seconds for pick in (_low, _high))
        # an order that happens to be worse may cost more than shorter nodes save
        return reading.seconds, min(low, reading.seconds), max(reading.seconds, high)

    rows = tuple(
        StepTime(number, step.repeat, *interval(step.steady), read(step.first).seconds) for number, step in enumerate(steps)
    )
    last = steps[-1].steady
    reading = read(last)
    return TimeStudy(
        name,
        rows,
        tuple(reading.bounds()),
        tuple(reading.devices(memory)),
        tuple(reading.links()),
        tuple(reading.nodes()),
        tuple(reading.transfers()),
        tuple(reading.path()),
        _assumptions(last, machine),
        error,
    )


def _middle(prediction: Prediction) -> float:
    return prediction.seconds


def _low(prediction: Prediction) -> float:
    return prediction.low


def _high(prediction: Prediction) -> float:
    return prediction.high


def _run(
    step: Sequence[Execution], placed: Sequence[Placed], machine: SimulatedMachine, pick: Callable[[Prediction], float]
) -> tuple[list[Task | Transfer], Timeline]:
    tasks = workload(step, placed, pick)
    return tasks, simulate(tasks, machine.resources, machine.links)


def _assumptions(step: Sequence[Execution], machine: SimulatedMachine) -> tuple[str, ...]:
    has_gpus = any(place.gpu for place in machine.places.values())
    said = list(dict.fromkeys(line for host in machine.hosts.values() for line in host.assumptions(has_gpus=has_gpus)))
    if machine.links:
        said.append(LINK_ASSUMPTION)
    said.append(
        "the interval takes all nodes at the 10th, or all at the 90th, percentile of what was measured in their families"
    )
    if any(dtype.size == 0 and dtype.name == "string" for e in step for _, dtype in (*e.inputs, *e.outputs)):
        said.append("strings are counted as no bytes")
    return tuple(said)


class SimulatedStep:
    """A step as it ran on the machine: execution n of `step` is task n of `timeline`, at the cost `placed[n]`."""

    def __init__(
        self,
        step: Sequence[Execution],
        placed: Sequence[Placed],
        machine: SimulatedMachine,
        tasks: Sequence[Task | Transfer],
        timeline: Timeline,
    ) -> None:
        self.step = step
        self.placed = placed
        self.seconds = timeline.seconds
        self._machine = machine
        self._tasks = tasks
        self.timeline = timeline

    def nodes(self) -> Iterator[NodeRun]:
        resources = self._machine.resources
        spans = zip(self.step, self.placed, self.timeline.starts, self.timeline.ends, strict=True)
        for execution, cost, start, end in spans:
            if execution.site is not None and cost.resource != NOWHERE:
                stream = resources[cost.resource].name
                op, device = execution.site.instruction.node.op, execution.site.program.state.device.name
                yield NodeRun(execution.site.name, op, device, stream, start, end, *cost.predicted, cost.is_assumed)

    def transfers(self) -> Iterator[TransferRun]:
        spans = zip(self.step, self.placed, self.timeline.starts, self.timeline.ends, strict=True)
        for execution, cost, start, end in spans:
            if cost.route is not None and cost.route.links:
                sender, receiver, tensor = _key(execution)
                yield TransferRun(tensor, sender, receiver, cost.num_bytes, start, end)

    def links(self) -> Iterator[LinkTime]:
        for link, traffic in zip(self._machine.links, self.timeline.traffic, strict=True):
            yield LinkTime(link.name, link.bandwidth, link.latency, traffic.bytes, traffic.busy_seconds)

    def bounds(self) -> Iterator[Bound]:
        found = bounds(self._tasks, self._machine.resources, self._machine.links)
        yield Bound("path", "the critical path with transfers free", found.longest_path)
        if found.busiest_resource != NOWHERE:
            yield Bound("resource", self._machine.resources[found.busiest_resource].name, found.busiest_seconds)
        if found.most_loaded_link != NOWHERE:
            yield Bound("link", self._machine.links[found.most_loaded_link].name, found.most_loaded_seconds)

    def devices(self, memory: dict[str, Memory]) -> Iterator[DeviceTime]:
        usage = self.timeline.usage
        counts: dict[str, int] = {}
        bytes_in: dict[str, int] = {}
        bytes_out: dict[str, int] = {}
        for execution, cost in zip(self.step, self.placed, strict=True):
            if cost.route is not None:
                sender, receiver, _ = _key(execution)
                bytes_out[sender] = bytes_out.get(sender, 0) + cost.num_bytes
                bytes_in[receiver] = bytes_in.get(receiver, 0) + cost.num_bytes
            elif execution.site is not None and cost.resource != NOWHERE:
                device = execution.site.program.state.device.name
                counts[device] = counts.get(device, 0) + 1
        for name, place in self._machine.places.items():
            gpu = place.gpu
            busy = usage[place.cores if gpu is None else gpu.compute].busy_seconds
            copies = 0.0 if gpu is None else sum(usage[s].busy_seconds for s in (gpu.from_host, gpu.to_host, gpu.to_others))
            held = memory.get(name, Memory(None, None))
            moved = bytes_in.get(name, 0), bytes_out.get(name, 0)
            yield DeviceTime(name, place.name, counts.get(name, 0), busy, copies, *moved, held.peak, held.limit)

    def path(self) -> Iterator[PathPart]:
        for part in critical_path(self._tasks, self.timeline):
            execution, cost = self.step[part.task], self.placed[part.task]
            if execution.site is None or part.end == part.start:
                continue
            node, device, kind = execution.site.name, execution.site.program.state.device.name, COMPUTE
            if cost.route is not None:
                _, device, node = _key(execution)
                kind = TRANSFER
            elif part.is_launch:
                kind = LAUNCH
            yield PathPart(node, device, kind, part.start, part.end, part.wait.value)


def _key(execution: Execution) -> tuple[str, str, str]:
    """A transfer's sender, receiver and the tensor, without what the partitioner puts before its name."""
    assert execution.site is not None
    key = execution.site.instruction.key
    assert key is not None
    return key[0], key[1], _EDGE.sub("", key[2])
