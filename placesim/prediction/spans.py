"""Diagram of a simulated step: rows (lanes), the spans on them, and the cause of each span's start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placesim.machine.timelines.timeline import WorkloadTimeline
from placesim.machine.timelines.workload import NOWHERE
from placesim.prediction.machine_resources import BETWEEN_GPUS, FROM_HOST, TO_HOST, SimulatedMachine
from placesim.prediction.step_tasks import ExecutionCost, transfer_ends
from placesim.prediction.step_trace import StepTrace
from placesim.runtime.recording.recorder import Execution, TypedShape


class StepLane(NamedTuple):
    """A row of a step's diagram: the `name` of a stream, host or network, and a short `label` for use within its group.

    Spans may overlap on the lanes of a host or network.
    """

    name: str
    label: str


class LaneGroup(NamedTuple):
    """Devices that share their lanes: the CPUs of a task, or the virtual devices of a GPU."""

    devices: tuple[str, ...]
    processor: str
    lanes: tuple[StepLane, ...]


class BeginCause(NamedTuple):
    """Reason for a span's start time.

    The span waited for an `input`, for its own `launch`, for its `turn` on a stream or core, or for `nothing`: `wait` is one of
    these words.  `span` is the number of the span that it waited for; -1 if there is none.
    """

    wait: str
    span: int


NO_CAUSE = BeginCause("nothing", NOWHERE)


class StepSpan(NamedTuple):
    """Execution of a node or transfer of a tensor, on one or more lanes, with times in seconds.

    - `launch_start`, `launch_end`: the launch on the host; both equal `start` if there is none.
    - `begin`, `launch`: causes of the start of the execution, and of the start of its launch.
    - `inputs`: numbers of the spans whose results this span needs.
    - `host_lane`: the lane of the device's host.
    - `op`, `device`: for a transfer, `op` is empty and `device` is the receiver.
    - `sender`, `bytes`: set only for a transfer.
    """

    name: str
    op: str
    device: str
    lanes: tuple[int, ...]
    host_lane: int
    start: float
    end: float
    seconds: float
    low: float
    high: float
    is_uncertain: bool
    launch_start: float
    launch_end: float
    begin: BeginCause
    launch: BeginCause
    inputs: tuple[int, ...]
    taken: tuple[TypedShape, ...]
    made: tuple[TypedShape, ...]
    sender: str = ""
    bytes: int = 0


class PathSpan(NamedTuple):
    """A segment of the critical path: a span, or its launch."""

    span: int
    is_launch: bool
    wait: str


class StepSpans(NamedTuple):
    """Everything that the diagram of a step shows; lanes are numbered consecutively across all groups."""

    groups: tuple[LaneGroup, ...]
    spans: tuple[StepSpan, ...]
    path: tuple[PathSpan, ...]


def step_spans(trace: StepTrace) -> StepSpans:
    """Return the spans of a step in execution order, with their lanes and the critical path."""
    lanes = _Lanes(trace.machine)
    pairs = zip(trace.step, trace.placed, strict=True)
    shown = [number for number, (execution, cost) in enumerate(pairs) if _is_shown(execution, cost)]
    numbers = {task: number for number, task in enumerate(shown)}
    causes = _Causes(trace.step, trace.timeline, numbers)
    found = tuple(_span(trace, task, lanes, causes) for task in shown)
    return StepSpans(lanes.groups, found, _path_spans(trace, numbers))


def _span(trace: StepTrace, task: int, lanes: _Lanes, causes: _Causes) -> StepSpan:
    """Return the span of one execution: a node that ran, or a transfer."""
    timeline, execution, cost = trace.timeline, trace.step[task], trace.placed[task]
    site = execution.site
    assert site is not None
    name, op, device, sender = site.name, site.instruction.node.op, site.program.state.device.name, ""
    if cost.route is not None:
        sender, device, name = transfer_ends(execution)
        op, on = "", lanes.of_route(cost.route.streams, device)
    else:
        on = (lanes.numbers[cost.resource],)
    start, end = timeline.starts[task], timeline.ends[task]
    launch = start, start
    if cost.launch and timeline.launch_starts:
        launch = timeline.launch_starts[task], timeline.launch_ends[task]
    seconds, low, high = cost.predicted if cost.route is None else (end - start,) * 3
    return StepSpan(
        name=name,
        op=op,
        device=device,
        lanes=on,
        host_lane=lanes.numbers[trace.machine.places[device].cores],
        start=start,
        end=end,
        seconds=seconds,
        low=low,
        high=high,
        is_uncertain=cost.is_assumed,
        launch_start=launch[0],
        launch_end=launch[1],
        begin=causes.of(task),
        launch=causes.of(task + len(trace.step)) if launch[1] > launch[0] else NO_CAUSE,
        inputs=causes.inputs(task),
        taken=execution.inputs,
        made=execution.outputs,
        sender=sender,
        bytes=cost.num_bytes,
    )


def _path_spans(trace: StepTrace, numbers: Mapping[int, int]) -> tuple[PathSpan, ...]:
    """Return the critical path; `numbers` has the number of each task's span."""
    return tuple(
        PathSpan(numbers[part.task], part.is_launch, part.wait.value)
        for part in trace.path
        if part.task in numbers and part.end > part.start
    )


def _is_shown(execution: Execution, cost: ExecutionCost) -> bool:
    if execution.site is None:
        return False
    return bool(cost.route.links) if cost.route is not None else cost.resource != NOWHERE


class _Lanes:
    """Lanes of a machine, and the lane number of each of its resources."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self.numbers: dict[int, int] = {}
        self._network: dict[str, int] = {}
        groups: list[LaneGroup] = []
        places = machine.places
        several = len({place.task for place in places.values()}) > 1
        members: dict[tuple[int, int], list[str]] = {}
        for name, place in places.items():
            # a host's lanes come before those of its GPUs, even if it has no CPU device
            members.setdefault((place.cores, NOWHERE), [])
            members.setdefault((place.cores, NOWHERE if place.gpu is None else place.gpu.compute), []).append(name)
        for (cores, compute), devices in members.items():
            lanes = []
            if compute == NOWHERE:
                host = machine.resources[cores].name
                lanes.append((cores, StepLane(host, "host")))
                if several:
                    lanes.append((NOWHERE, StepLane(host.removesuffix("host") + "network", "network")))
                processor = "host"
            else:
                gpu = places[devices[0]].gpu
                assert gpu is not None
                processor = gpu.processor.name
                streams = (compute, gpu.from_host, gpu.to_host, gpu.to_others)
                labels = ("compute", FROM_HOST, TO_HOST, BETWEEN_GPUS)
                lanes += [(n, StepLane(machine.resources[n].name, label)) for n, label in zip(streams, labels, strict=True)]
            for number, (resource, _) in enumerate(lanes, sum(len(group.lanes) for group in groups)):
                if resource != NOWHERE:
                    self.numbers[resource] = number
                else:
                    self._network |= {name: number for name, place in places.items() if place.cores == cores}
            groups.append(LaneGroup(tuple(devices), processor, tuple(lane for _, lane in lanes)))
        self.groups = tuple(groups)

    def of_route(self, streams: Sequence[int], receiver: str) -> tuple[int, ...]:
        """Return the lanes of a transfer's streams; for a transfer without any, the lane of the receiver's network."""
        found = tuple(dict.fromkeys(self.numbers[stream] for stream in streams))
        return found or (self._network[receiver],)


class _Causes:
    """Causes of the start times in a timeline; `numbers` has the span number of each task that the diagram shows."""

    def __init__(self, step: Sequence[Execution], timeline: WorkloadTimeline, numbers: dict[int, int]) -> None:
        self._step = step
        self._waited_for = timeline.waited_for
        self._numbers = numbers
        self._seen: dict[int, int] = {}

    def of(self, phase: int) -> BeginCause:
        """Return the cause of the start of a phase; execution n is phase n, and its launch has a larger number.

        Tasks that the diagram does not show, such as sends, are skipped.
        """
        count = len(self._step)
        task, before = phase % count, self._waited_for[phase]
        if before == NOWHERE:
            return NO_CAUSE
        if before == task + count:
            return BeginCause("launch", NOWHERE)
        wait = "input" if before % count in self._step[task].sources else "turn"
        span = self._shown(before)
        return BeginCause(wait if span != NOWHERE else "nothing", span)

    def _shown(self, phase: int) -> int:
        """Return the span number of a phase.  A phase that is not shown has the number of the last shown phase before it."""
        count, passed = len(self._step), []
        while phase != NOWHERE and phase % count not in self._numbers:
            if phase in self._seen:
                phase = self._seen[phase]
                break
            passed.append(phase)
            phase = self._waited_for[phase]
        self._seen.update(dict.fromkeys(passed, phase))
        return self._numbers[phase % count] if phase != NOWHERE else NOWHERE

    def inputs(self, task: int) -> tuple[int, ...]:
        """Return the numbers of the spans whose results a task needs, without duplicates."""
        found: dict[int, None] = {}
        for source in self._step[task].sources:
            # a task that is not shown is replaced by its source or, with many sources (the end of a function), by the last one
            while source not in self._numbers and len(self._step[source].sources) == 1:
                (source,) = self._step[source].sources
            span = self._numbers[source] if source in self._numbers else self._shown(source)
            if span != NOWHERE:
                found[span] = None
        return tuple(found)
