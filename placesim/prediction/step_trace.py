"""Trace records of a simulated step.

Each device has a process `DEVICE Compute`; its rows are host threads, with nodes and kernel launches.  A GPU also has a process
`DEVICE/stream:all Compute` for its compute stream, and `DEVICE/memcpy Compute` for its copy streams.  Transfers over the
network are in `DEVICE/network Compute`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from placesim.machine.timelines.timeline import PathStep, WorkloadTimeline
from placesim.machine.timelines.trace_events import (
    STEPS,
    Arrow,
    Count,
    TraceRecord,
    TraceSlice,
    Track,
    TrackLanes,
    arrow,
    memory_counts,
    nanoseconds,
    node_args,
)
from placesim.machine.timelines.workload import NOWHERE, Cores, host_of
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.prediction.memory_curves import MemoryCurve
from placesim.prediction.step_tasks import ExecutionCost, transfer_ends
from placesim.runtime.recording.recorder import Execution

LINKS = "Links"
UNDER_WAY = "transfers in flight"
STEP, PATH = Track(STEPS, "step"), Track(STEPS, "critical path")
COMPUTE, STREAM, COPIES, NETWORK = KINDS = (" Compute", "/stream:all Compute", "/memcpy Compute", "/network Compute")
"""Suffixes of the names of a device's processes."""
TO_GPU, FROM_GPU, BETWEEN_GPUS, BY_NETWORK = "MEMCPYHtoD", "MEMCPYDtoH", "MEMCPYPtoP", "RecvTensor"
"""Names of the four kinds of transfers in TensorFlow's timeline."""


class StepTrace(NamedTuple):
    """Data for the trace of step `number`: its executions, their costs and times, the critical path, and the memory in use."""

    number: int
    step: Sequence[Execution]
    placed: Sequence[ExecutionCost]
    machine: SimulatedMachine
    timeline: WorkloadTimeline
    path: Sequence[PathStep]
    memory: Sequence[MemoryCurve]

    def records(self) -> Iterator[TraceRecord]:
        """Yield the tracks, then slices, arrows and counters, in a fixed order."""
        return _Records(self).records()


class _End(NamedTuple):
    """A track that shows a transfer, and the transfer's label on that track."""

    track: Track
    op: str


class _Records:
    def __init__(self, trace: StepTrace) -> None:
        self._trace = trace
        timeline = trace.timeline
        self._runs = list(zip(map(nanoseconds, timeline.starts), map(nanoseconds, timeline.ends), strict=True))
        self._launches = list(
            zip(map(nanoseconds, timeline.launch_starts), map(nanoseconds, timeline.launch_ends), strict=True)
        )
        self._order = {device: number for number, device in enumerate(trace.machine.places)}
        self._tracks: dict[Track, tuple[int, int, int]] = {}
        self._run_tracks: list[Track | None] = [None] * len(trace.step)
        self._launch_tracks: list[Track | None] = [None] * len(trace.step)
        self._ends: dict[int, tuple[_End, ...]] = {}
        self._place_on_hosts()
        self._place_on_streams()
        self._place_transfers()

    def records(self) -> Iterator[TraceRecord]:
        yield STEP
        yield PATH
        yield from sorted(self._tracks, key=self._tracks.__getitem__)
        yield from self._step_slices()
        for number in range(len(self._trace.step)):
            yield from self._slices(number)
        yield from self._arrows()
        for curve in self._trace.memory:
            yield from memory_counts(curve.device, ((nanoseconds(time), held) for time, held in curve.changes))
        yield from self._link_counts()

    # --- rows

    def _track(self, device: str, kind: str, name: str, lane: int = 0) -> Track:
        track = Track(device + kind, name)
        self._tracks.setdefault(track, (self._order[device], KINDS.index(kind), lane))
        return track

    def _place_on_hosts(self) -> None:
        """Assign nodes and launches to the first free thread of their host."""
        resources = self._trace.machine.resources
        waiting: dict[int, list[tuple[int, int, int, bool]]] = {}
        for number, (execution, cost) in enumerate(zip(self._trace.step, self._trace.placed, strict=True)):
            if execution.site is None or cost.resource == NOWHERE:
                continue
            host, is_launch = host_of(resources[cost.resource]), True
            if host == NOWHERE:
                host, is_launch = cost.resource, False
            if isinstance(resources[host], Cores):
                start, end = (self._launches if is_launch else self._runs)[number]
                waiting.setdefault(host, []).append((start, end, number, is_launch))
        for host, spans in waiting.items():
            lanes = TrackLanes()
            for start, end, number, is_launch in sorted(spans):
                lane = lanes.take(start, end)
                tracks = self._launch_tracks if is_launch else self._run_tracks
                tracks[number] = self._track(self._device(number), COMPUTE, f"{resources[host].name} thread {lane}", lane)

    def _device(self, number: int) -> str:
        site = self._trace.step[number].site
        assert site is not None
        return site.program.state.device.name

    def _place_on_streams(self) -> None:
        resources = self._trace.machine.resources
        for number, cost in enumerate(self._trace.placed):
            if cost.resource == NOWHERE or isinstance(resources[cost.resource], Cores):
                continue
            if cost.predicted.seconds:  # a node that only costs its dispatch has just its launch
                name = resources[cost.resource].name
                self._run_tracks[number] = self._track(self._device(number), STREAM, name, cost.resource)

    def _place_transfers(self) -> None:
        places = self._trace.machine.places
        lanes: dict[Track, TrackLanes] = {}
        on_network: list[tuple[int, int, int]] = []
        for number, (execution, cost) in enumerate(zip(self._trace.step, self._trace.placed, strict=True)):
            if cost.route is None or not cost.route.links:
                continue
            sender, receiver, _ = transfer_ends(execution)
            if places[sender].task != places[receiver].task:
                on_network.append((*self._runs[number], number))
            ends = self._copies(places[sender], cost.route.streams, is_sender=True)
            self._ends[number] = (*ends, *self._copies(places[receiver], cost.route.streams, is_sender=False))
        for start, end, number in sorted(on_network):
            sender, receiver, _ = transfer_ends(self._trace.step[number])
            rows = []
            for device, way in ((sender, "out"), (receiver, "in")):
                lane = lanes.setdefault(Track(device, way), TrackLanes()).take(start, end)
                rows.append(_End(self._track(device, NETWORK, f"{way} {lane}", lane), BY_NETWORK))
            copies = self._ends[number]
            # a copy out of a GPU precedes the network transfer, and one into a GPU follows it
            first = tuple(copy for copy in copies if copy.op == FROM_GPU)
            self._ends[number] = (*first, *rows, *(copy for copy in copies if copy.op != FROM_GPU))

    def _copies(self, place: DevicePlace, streams: Sequence[int], *, is_sender: bool) -> Iterator[_End]:
        """Yield the tracks of the copy streams that a transfer uses on the GPU at its sending or receiving end."""
        gpu = place.gpu
        if gpu is None:
            return
        own = {gpu.to_others: BETWEEN_GPUS} | ({gpu.to_host: FROM_GPU} if is_sender else {gpu.from_host: TO_GPU})
        for stream in streams:
            if stream in own:
                name = self._trace.machine.resources[stream].name
                yield _End(self._track(place.device.name, COPIES, name, stream), own[stream])

    # --- slices

    def _step_slices(self) -> Iterator[TraceSlice]:
        trace = self._trace
        end = nanoseconds(trace.timeline.seconds)
        yield TraceSlice(STEP, 0, end, f"step {trace.number}", "Step", {"seconds": trace.timeline.seconds})
        for part in trace.path:
            if part.start == part.end:
                continue
            execution = trace.step[part.task]
            name = "" if execution.site is None else execution.site.name
            kind = "launch" if part.is_launch else "compute" if trace.placed[part.task].route is None else "transfer"
            args = {"name": name, "kind": kind, "waited for": part.wait.value}
            yield TraceSlice(PATH, nanoseconds(part.start), nanoseconds(part.end), name or kind, "Path", args)

    def _slices(self, number: int) -> Iterator[TraceSlice]:
        execution = self._trace.step[number]
        site = execution.site
        if site is None:
            return
        ends = self._ends.get(number)
        if ends is not None:
            sender, receiver, tensor = transfer_ends(execution)
            for track, op in ends:
                args = {"name": tensor, "op": op, "bytes": self._trace.placed[number].num_bytes, "from": sender, "to": receiver}
                yield TraceSlice(track, *self._runs[number], op, "Op", args)
            return
        node, graph = site.instruction.node, site.program.graph
        for found, spans in ((self._launch_tracks[number], self._launches), (self._run_tracks[number], self._runs)):
            if found is not None:
                yield TraceSlice(found, *spans[number], node.op, "Op", node_args(site.name, node.op, graph.input_texts(node)))

    # --- arrows and counters

    def _shown(self, number: int) -> tuple[tuple[Track, int, int], ...]:
        """Return the slices of an execution that arrows connect: all slices of a transfer, in order, or one slice of a node."""
        if number in self._ends:
            return tuple((track, *self._runs[number]) for track, _ in self._ends[number])
        for found, spans in ((self._run_tracks[number], self._runs), (self._launch_tracks[number], self._launches)):
            if found is not None:
                return ((found, *spans[number]),)
        return ()

    def _arrows(self) -> Iterator[Arrow]:
        """Yield arrows along each transfer: from the tensor's producer through the slices of the transfer to each reader."""
        step = self._trace.step
        for number, execution in enumerate(step):
            if number in self._ends:
                tensor = transfer_ends(execution)[2]
                made = [shown for source in execution.sources for maker in step[source].sources for shown in self._shown(maker)]
                rows = self._shown(number)
                chain = (*made[:1], *rows)
                for source, target in pairwise(chain):
                    yield arrow(tensor, source, target)
            else:
                for source_number in execution.sources:
                    if source_number in self._ends:
                        tensor = transfer_ends(step[source_number])[2]
                        for target in self._shown(number)[:1]:
                            yield arrow(tensor, self._shown(source_number)[-1], target)

    def _link_counts(self) -> Iterator[Count]:
        machine = self._trace.machine
        changes: list[Counter[int]] = [Counter() for _ in machine.links]
        for number in self._ends:
            route = self._trace.placed[number].route
            assert route is not None
            start, end = self._runs[number]
            for link in route.links:
                changes[link][start] += 1
                changes[link][end] -= 1
        for used, found in zip(machine.links, changes, strict=True):
            under_way = 0
            for time in sorted(found):
                under_way += found[time]
                yield Count(LINKS, used.name, UNDER_WAY, time, under_way)
