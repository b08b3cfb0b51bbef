"""Recorded steps -> how long they take and why: one record, of which reports are readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placesim.errors import PlacesimError
from placesim.prediction.costs import Prediction
from placesim.prediction.hosts import DISPATCH_SECONDS, HOST_ASSUMPTION, LAUNCH_SECONDS
from placesim.prediction.machines import BETWEEN_GPUS, FROM_HOST, LINK_ASSUMPTION, TO_HOST, SimulatedMachine
from placesim.prediction.memory_curves import MemoryCurve, memory_curve
from placesim.prediction.step_trace import StepTrace
from placesim.prediction.steps import Placed, StepCosts, transfer_ends, workload
from placesim.runtime.accounting.lifetimes import Lifetime
from placesim.runtime.recording import Execution
from placesim.timelines.bounds import bounds
from placesim.timelines.events import simulate
from placesim.timelines.timeline import Timeline, critical_path
from placesim.timelines.workload import NOWHERE, Task, Transfer

COMPUTE, LAUNCH, TRANSFER = "compute", "launch", "transfer"


class StepTime(NamedTuple):
    """A step of `run:`: its steady time with the interval, and the time of its first repetition, in seconds."""

    number: int
    repeat: int
    seconds: float
    low: float
    high: float
    first_seconds: float

    @property
    def total_seconds(self) -> float:
        """All repetitions."""
        return self.first_seconds + (self.repeat - 1) * self.seconds


class Bound(NamedTuple):
    """Seconds below which no order of nodes brings the step, and what says so."""

    kind: str
    what: str
    seconds: float


class DeviceTime(NamedTuple):
    """A device in the step: for how many seconds its nodes ran and its copies, the bytes in and out, and its memory.

    `busy` is that of a GPU's compute stream; of a CPU, the seconds in which its task's host ran anything, launches among it.
    `peak` is None where no memory was used, `limit` where there is none.
    """

    device: str
    processor: str
    nodes: int
    busy: float
    copies: float
    bytes_in: int
    bytes_out: int
    peak: int | None
    limit: int | None


class LinkTime(NamedTuple):
    """A link in the step: bytes, and the seconds in which any transfer used it."""

    name: str
    bandwidth: float
    latency: float
    bytes: float
    busy: float


class NodeRun(NamedTuple):
    """One execution of a node; `is_uncertain` where it ran on the assumed host."""

    node: str
    op: str
    device: str
    stream: str
    start: float
    end: float
    seconds: float
    low: float
    high: float
    is_uncertain: bool


class TransferRun(NamedTuple):
    """One tensor on its way, on the copy streams of GPUs that it takes."""

    tensor: str
    sender: str
    receiver: str
    bytes: int
    start: float
    end: float
    streams: tuple[str, ...] = ()


class PathPart(NamedTuple):
    """A stretch of the critical path: `kind` is compute, launch or transfer, `wait` why it began no earlier."""

    node: str
    device: str
    kind: str
    start: float
    end: float
    wait: str


@dataclass(frozen=True)
class TimeStudy:
    """How long the steps of a graph take; all but `steps` is of the last one, in its steady state.

    `error` is TensorFlow's, where a device runs out of memory.  `memory` has each device that held anything, `trace`, where
    it was asked for, what the last step's trace is made from.
    """

    name: str
    steps: tuple[StepTime, ...]
    bounds: tuple[Bound, ...]
    devices: tuple[DeviceTime, ...]
    links: tuple[LinkTime, ...]
    nodes: tuple[NodeRun, ...]
    transfers: tuple[TransferRun, ...]
    critical_path: tuple[PathPart, ...]
    assumptions: tuple[str, ...]
    error: PlacesimError | None = None
    memory: tuple[MemoryCurve, ...] = ()
    trace: StepTrace | None = field(default=None, repr=False, compare=False)

    @property
    def step(self) -> StepTime:
        """The last step."""
        return self.steps[-1]

    @property
    def bound(self) -> Bound:
        """The bound that is nearest to the step's time."""
        return max(self.bounds, key=lambda bound: bound.seconds)


class WalkedStep(NamedTuple):
    """A step of `run:`: what its first repetition executed, what a further one does, and how many there are."""

    first: Sequence[Execution]
    steady: Sequence[Execution]
    repeat: int


class Memory(NamedTuple):
    """A device's peak and limit in bytes, None where nothing was used and where there is none; `buffers` of the last step."""

    peak: int | None
    limit: int | None
    buffers: Sequence[Lifetime] = ()


def study_steps(
    name: str,
    steps: Sequence[WalkedStep],
    machine: SimulatedMachine,
    memory: dict[str, Memory],
    error: PlacesimError | None = None,
    *,
    is_traced: bool = False,
) -> TimeStudy:
    """What the steps take on the machine; raises what `StepCosts.placed` raises."""
    costs = StepCosts(machine)
    readings: dict[int, _Reading] = {}

    def read(step: Sequence[Execution]) -> _Reading:
        found = readings.get(id(step))
        if found is None:
            placed = costs.placed(step)
            found = readings[id(step)] = _Reading(step, placed, machine, *_run(step, placed, machine, _middle))
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
    curves = tuple(reading.memory(memory))
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
        curves,
        reading.trace(len(steps) - 1, curves) if is_traced else None,
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
    said = [HOST_ASSUMPTION]
    launches = (
        f" and {LAUNCH_SECONDS * 1e6:g} us to launch a kernel on a GPU" if any(p.gpu for p in machine.places.values()) else ""
    )
    said.append(f"a thread of the host is assumed to take {DISPATCH_SECONDS * 1e6:g} us for each node{launches}")
    if machine.links:
        said.append(LINK_ASSUMPTION)
    said.append(
        "the interval takes all nodes at the 10th, or all at the 90th, percentile of what was measured in their families"
    )
    if any(dtype.size == 0 and dtype.name == "string" for e in step for _, dtype in (*e.inputs, *e.outputs)):
        said.append("strings are counted as no bytes")
    return tuple(said)


class _Reading:
    """What a simulated step tells."""

    def __init__(
        self,
        step: Sequence[Execution],
        placed: Sequence[Placed],
        machine: SimulatedMachine,
        tasks: Sequence[Task | Transfer],
        timeline: Timeline,
    ) -> None:
        self._step = step
        self.placed = placed
        self.seconds = timeline.seconds
        self._machine = machine
        self._tasks = tasks
        self._timeline = timeline

    def nodes(self) -> Iterator[NodeRun]:
        resources = self._machine.resources
        spans = zip(self._step, self.placed, self._timeline.starts, self._timeline.ends, strict=True)
        for execution, cost, start, end in spans:
            if execution.site is not None and cost.resource != NOWHERE:
                stream = resources[cost.resource].name
                op, device = execution.site.instruction.node.op, execution.site.program.state.device.name
                yield NodeRun(execution.site.name, op, device, stream, start, end, *cost.predicted, cost.is_host)

    def transfers(self) -> Iterator[TransferRun]:
        spans = zip(self._step, self.placed, self._timeline.starts, self._timeline.ends, strict=True)
        for execution, cost, start, end in spans:
            if cost.route is not None and cost.route.links:
                sender, receiver, tensor = transfer_ends(execution)
                streams = tuple(dict.fromkeys(self._machine.resources[stream].name for stream in cost.route.streams))
                yield TransferRun(tensor, sender, receiver, cost.num_bytes, start, end, streams)

    def links(self) -> Iterator[LinkTime]:
        for link, traffic in zip(self._machine.links, self._timeline.traffic, strict=True):
            yield LinkTime(link.name, link.bandwidth, link.latency, traffic.bytes, traffic.busy_seconds)

    def bounds(self) -> Iterator[Bound]:
        found = bounds(self._tasks, self._machine.resources, self._machine.links)
        yield Bound("path", "the critical path with transfers free", found.longest_path)
        if found.busiest_resource != NOWHERE:
            yield Bound("resource", self._machine.resources[found.busiest_resource].name, found.busiest_seconds)
        if found.most_loaded_link != NOWHERE:
            yield Bound("link", self._machine.links[found.most_loaded_link].name, found.most_loaded_seconds)

    def devices(self, memory: dict[str, Memory]) -> Iterator[DeviceTime]:
        usage = self._timeline.usage
        counts: dict[str, int] = {}
        bytes_in: dict[str, int] = {}
        bytes_out: dict[str, int] = {}
        for execution, cost in zip(self._step, self.placed, strict=True):
            if cost.route is not None:
                sender, receiver, _ = transfer_ends(execution)
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

    def memory(self, memory: dict[str, Memory]) -> Iterator[MemoryCurve]:
        for name in self._machine.places:
            if name in memory and memory[name].buffers:
                yield memory_curve(name, memory[name].buffers, self._timeline, memory[name].limit)

    def trace(self, number: int, memory: Sequence[MemoryCurve]) -> StepTrace:
        path = critical_path(self._tasks, self._timeline)
        return StepTrace(number, self._step, self.placed, self._machine, self._timeline, path, memory)

    def path(self) -> Iterator[PathPart]:
        for part in critical_path(self._tasks, self._timeline):
            execution, cost = self._step[part.task], self.placed[part.task]
            if execution.site is None or part.end == part.start:
                continue
            node, device, kind = execution.site.name, execution.site.program.state.device.name, COMPUTE
            if cost.route is not None:
                _, device, node = transfer_ends(execution)
                kind = TRANSFER
            elif part.is_launch:
                kind = LAUNCH
            yield PathPart(node, device, kind, part.start, part.end, part.wait.value)


# --- where the time goes ----------------------------------------------------------------------------------------------


class NodeCost(NamedTuple):
    """All executions of a node in the step."""

    node: str
    op: str
    device: str
    stream: str
    number: int
    seconds: float
    low: float
    high: float
    is_uncertain: bool


def dearest_nodes(study: TimeStudy, limit: int) -> list[NodeCost]:
    """At most so many, the one that takes most first."""
    found: dict[tuple[str, str], list[NodeRun]] = {}
    for run in study.nodes:
        found.setdefault((run.node, run.device), []).append(run)
    rows = [
        NodeCost(
            *runs[0][:4],
            len(runs),
            sum(run.seconds for run in runs),
            sum(run.low for run in runs),
            sum(run.high for run in runs),
            runs[0].is_uncertain,
        )
        for runs in found.values()
    ]
    return sorted(rows, key=lambda row: -row.seconds)[:limit]


def dearest_transfers(study: TimeStudy, limit: int) -> list[TransferRun]:
    """At most so many, the one that takes longest first."""
    return sorted(study.transfers, key=lambda run: run.start - run.end)[:limit]


class FoldedPath(NamedTuple):
    """What a scope holds of the critical path, in one kind of work."""

    scope: str
    kind: str
    number: int
    seconds: float


def folded_path(study: TimeStudy, limit: int) -> list[FoldedPath]:
    """The critical path by outermost scope and kind, the largest part first; from the limit on, the rest in one row."""
    found: dict[tuple[str, str], list[float]] = {}
    for part in study.critical_path:
        scope, slash, _ = part.node.partition("/")
        found.setdefault((scope + slash, part.kind), []).append(part.end - part.start)
    rows = [FoldedPath(*key, len(seconds), sum(seconds)) for key, seconds in found.items()]
    rows.sort(key=lambda row: -row.seconds)
    if len(rows) <= limit:
        return rows
    rest = rows[limit - 1 :]
    return [*rows[: limit - 1], FoldedPath("*", "all", sum(row.number for row in rest), sum(row.seconds for row in rest))]


def lane(study: TimeStudy, device: str, cells: int) -> list[float]:
    """For each part of the step, for what share of it any of the device's nodes ran."""
    return _shares(study, ((run.start, run.end) for run in study.nodes if run.device == device), cells)


def copies_lane(study: TimeStudy, device: str, cells: int) -> list[float]:
    """For each part of the step, for what share of it any of the device's copy streams was in use."""
    return _shares(study, ((run.start, run.end) for run in study.transfers if _copies(run, device)), cells)


def _copies(run: TransferRun, device: str) -> bool:
    """Whether a transfer takes a copy stream at a device's end; a tensor in host memory takes none there."""
    ways = ({FROM_HOST, BETWEEN_GPUS} if run.receiver == device else set()) | (
        {TO_HOST, BETWEEN_GPUS} if run.sender == device else set()
    )
    return any(stream.endswith(tuple(ways)) for stream in run.streams)


def _shares(study: TimeStudy, spans: Iterable[tuple[float, float]], cells: int) -> list[float]:
    width = study.step.seconds / cells
    shares = [0.0] * cells
    until = 0.0
    if not width:
        return shares
    for start, end in sorted(spans):
        at = max(start, until)
        until = max(end, until)
        cell = min(cells - 1, int(at / width))
        while at < end:
            # rounding may put a time into the cell that ends there
            stop = end if cell == cells - 1 else min(end, (cell + 1) * width)
            shares[cell] += max(0.0, stop - at) / width
            at = max(at, stop)
            cell += 1
    return [min(1.0, share) for share in shares]
