"""Simulation of a recorded step on a machine: times of all its executions and transfers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import hypot

from placesim.machine.timelines.compiled_workload import make_plan
from placesim.machine.timelines.event_simulation import plan_seconds, simulate_plan
from placesim.machine.timelines.lower_bounds import plan_bounds
from placesim.machine.timelines.timeline import PathStep, critical_path
from placesim.machine.timelines.workload import NOWHERE
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.prediction.memory_curves import MemoryCurve, memory_curve
from placesim.prediction.processors import Evidence, Processor
from placesim.prediction.step_tasks import ExecutionCost, transfer_ends, transfer_key, workload
from placesim.prediction.step_trace import StepTrace
from placesim.prediction.time_breakdown import (
    COMPUTE,
    LAUNCH,
    TRANSFER,
    DeviceTime,
    LinkTime,
    Memory,
    NodeRun,
    PathPart,
    StepBound,
    TransferRun,
)
from placesim.runtime.recording.recorder import Execution

DEVIATION_SCALE = 1.65
"""Factor between the deviation of a step on GPUs, and the deviation of kernels that deviate independently of each other.

With it, four of five measured steps of published networks lie in the interval, and three of four on each GPU of which at least
ten were measured (`tests/benchmarks/timing_bench.py`).
"""
RECENT_DEVIATION_SCALE = 0.85
"""`DEVIATION_SCALE` for GPUs with narrow tensor cores since Ampere, whose libraries differ less than the early ones."""
BOARD_DEVIATIONS: Mapping[Evidence, float] = {"measured": 0.03, "similar": 0.07, "none": 0.5}
"""Deviation of all kernels of a GPU together, relative to their time, by the measurements that the constants have of it.

- measured: boards, drivers and clocks.  Studies of clusters found some 8 % between boards of a model (Sinha et al., SC 2022;
  recalled).
- similar: networks on a GPU that had no part in the constants are 5 % too slow (RTX 4090; RTX 3090 with the others' forward
  share) or 7 % too fast (RTX 5090 and RTX PRO 6000 with RTX 3090's share).  With 7 %, four of five of the steps of these four
  are in their intervals (with 3 %: 63 %).
- none: libraries of another maker reach another share of the data sheet's figures.  DeepBench's kernels on AMD's MI25 and Vega
  FE take 1.25 and 1.29 times as long as predicted (medians).  If such ratios are normally distributed around 1, the interval
  that holds four of five of further GPUs reaches 1.89 times the root mean square of these two, by Student's distribution.
"""


def deviation_scale(processors: Iterable[Processor]) -> float:
    """Return the factor for a step on these GPUs: the larger one if they differ, 1 without any."""
    scales = [RECENT_DEVIATION_SCALE if processor.has_narrow_tf32_cores else DEVIATION_SCALE for processor in processors]
    return max(scales, default=1.0)


def board_deviation(processors: Iterable[Processor]) -> float:
    """Return the deviation of all kernels on these GPUs together, relative to their time: the larger one if they differ."""
    return max((BOARD_DEVIATIONS[gpu.evidence] for gpu in processors), default=0.0)


class SimulatedStep:
    """Simulation of a step on a machine: execution n of `step` is task n of `timeline`, with the cost `placed[n]`."""

    def __init__(self, step: Sequence[Execution], placed: Sequence[ExecutionCost], machine: SimulatedMachine) -> None:
        self.step = step
        self.placed = placed
        self.machine = machine
        self.plan = make_plan(workload(step, placed), machine.resources, machine.links)
        self.timeline = simulate_plan(self.plan)

    @property
    def seconds(self) -> float:
        """Duration of the step in seconds."""
        return self.timeline.seconds

    @cached_property
    def interval(self) -> tuple[float, float]:
        """10th and 90th percentile of the duration in seconds.

        Equal kernels are quicker or slower together, and different kernels of GPUs independently of each other, so a step
        deviates less than with all nodes at an end of their intervals.  Nodes on hosts deviate together; a
        calibration tells how far.  All kernels of GPUs deviate with their board, too.
        """
        low, high = self.extremes
        scale = deviation_scale(self._gpus)
        below, above = (min(1.0, scale * share) for share in self.independent_shares())
        board = self.board_deviation
        low = self.seconds - hypot(below * (self.seconds - low), board)
        high = self.seconds + hypot(above * (high - self.seconds), board)
        power = self._host_deviation()
        return (low, high) if power == 1 else (self._deviating(low, power), self._deviating(high, power))

    def _host_deviation(self) -> float:
        """Return the deviation of a step on measured hosts alone, relative to that of its kernels together."""
        places = self.machine.places.values()
        if self._compute_streams or not self.seconds:
            return 1.0
        pools = {place.cores for place in places if place.caller != NOWHERE}
        uses_pool = any(cost.resource in pools and cost.caller == NOWHERE for cost in self.placed)
        name = "pool_deviation" if uses_pool else "deviation"
        profiles = [place.host.profile for place in places if place.host.profile is not None]
        return max((profile.seconds.get(name, 1.0) for profile in profiles), default=1.0)

    def _deviating(self, end: float, power: float) -> float:
        """Return an end of the interval with `power` times its deviation, in logarithms."""
        return self.seconds * float((end / self.seconds) ** power)

    @property
    def board_deviation(self) -> float:
        """Seconds by which a step deviates with its GPUs."""
        streams = self._compute_streams
        kernels = sum(cost.predicted.seconds for cost in self.placed if cost.resource in streams)
        return board_deviation(self._gpus) * min(self.seconds, kernels)

    @property
    def _gpus(self) -> list[Processor]:
        return [place.gpu.processor for place in self.machine.places.values() if place.gpu is not None]

    @property
    def _compute_streams(self) -> set[int]:
        return {place.gpu.compute for place in self.machine.places.values() if place.gpu is not None}

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """Duration in seconds with all nodes at the low ends, and with all nodes at the high ends, of their intervals."""
        low = self._seconds_with([cost.predicted.low for cost in self.placed])
        high = self._seconds_with([cost.predicted.high for cost in self.placed])
        # a worse order may cost more time than shorter nodes save
        return min(low, self.seconds), max(self.seconds, high)

    def independent_shares(self) -> tuple[float, float]:
        """Return the step's deviation if kernels of GPUs deviate independently, as shares of all deviations added up.

        The first is towards the low ends of the nodes' intervals, the second towards the high ends.
        """
        streams = self._compute_streams
        below: dict[object, float] = defaultdict(float)
        above: dict[object, float] = defaultdict(float)
        for execution, cost in zip(self.step, self.placed, strict=True):
            seconds, low, high = cost.predicted
            if execution.site is not None and low < high:
                of_gpu = cost.is_rare or (execution.site.instruction.node.op, cost.predicted)
                kernel = of_gpu if cost.resource in streams else None
                below[kernel] += seconds - low
                above[kernel] += high - seconds
        return _independent_share(below.values()), _independent_share(above.values())

    def _seconds_with(self, runs: list[float]) -> float:
        """Return the duration of the step in seconds if execution n took `runs[n]` seconds."""
        plan = self.plan.with_seconds(runs)
        return self.seconds if plan.seconds == self.plan.seconds else plan_seconds(plan)

    @cached_property
    def critical_path(self) -> tuple[PathStep, ...]:
        """The critical path: a chain of executions, each of which waited for the previous one."""
        return critical_path(self.plan.tasks, self.timeline)

    def nodes(self) -> Iterator[NodeRun]:
        resources = self.machine.resources
        spans = zip(self.step, self.placed, self.timeline.starts, self.timeline.ends, strict=True)
        for execution, cost, start, end in spans:
            if execution.site is not None and cost.resource != NOWHERE:
                stream = resources[cost.resource].name
                op, device = execution.site.instruction.node.op, execution.site.program.state.device.name
                yield NodeRun(execution.site.name, op, device, stream, start, end, *cost.predicted, cost.is_assumed)

    def transfers(self) -> Iterator[TransferRun]:
        resources = self.machine.resources
        names: dict[tuple[int, ...], tuple[str, ...]] = {}
        spans = zip(self.step, self.placed, self.timeline.starts, self.timeline.ends, strict=True)
        for execution, cost, start, end in spans:
            if cost.route is not None and cost.route.links:
                sender, receiver, tensor = transfer_ends(execution)
                streams = names.get(cost.route.streams)
                if streams is None:
                    streams = names[cost.route.streams] = tuple(dict.fromkeys(resources[n].name for n in cost.route.streams))
                yield TransferRun(tensor, sender, receiver, cost.num_bytes, start, end, streams)

    def links(self) -> Iterator[LinkTime]:
        for link, traffic in zip(self.machine.links, self.timeline.traffic, strict=True):
            yield LinkTime(link.name, link.bandwidth, link.latency, traffic.bytes, traffic.busy_seconds)

    def bounds(self) -> Iterator[StepBound]:
        found = plan_bounds(self.plan)
        yield StepBound("path", "critical path with free transfers", found.longest_path)
        if found.busiest_resource != NOWHERE:
            yield StepBound("resource", self.machine.resources[found.busiest_resource].name, found.busiest_seconds)
        if found.most_loaded_link != NOWHERE:
            yield StepBound("link", self.machine.links[found.most_loaded_link].name, found.most_loaded_seconds)

    def devices(self, memory: dict[str, Memory]) -> Iterator[DeviceTime]:
        usage = self.timeline.usage
        counts: Counter[str] = Counter()
        operations: Counter[str] = Counter()
        at_peak: dict[str, float] = {}
        bytes_in: Counter[str] = Counter()
        bytes_out: Counter[str] = Counter()
        for execution, cost in zip(self.step, self.placed, strict=True):
            if cost.route is not None:
                sender, receiver, _ = transfer_key(execution)
                bytes_out[sender] += cost.num_bytes
                bytes_in[receiver] += cost.num_bytes
            elif execution.site is not None and cost.resource != NOWHERE:
                name = execution.site.program.state.device.name
                counts[name] += 1
                operations[name] += cost.operations
                at_peak[name] = at_peak.get(name, 0.0) + cost.peak_seconds
        hosts: set[int] = set()
        for name, place in self.machine.places.items():
            gpu = place.gpu
            busy = self._busy_seconds(place) if gpu is None else usage[gpu.compute].busy_seconds
            if gpu is None and place.cores in hosts and name not in counts:
                busy = 0.0  # the host's time is reported for its first device, and for those that run nodes
            hosts.add(place.cores)
            copies = 0.0 if gpu is None else sum(usage[s].busy_seconds for s in (gpu.from_host, gpu.to_host, gpu.to_others))
            held = memory.get(name, Memory(None, None))
            moved = bytes_in[name], bytes_out[name]
            computed = operations[name], at_peak.get(name, 0.0)
            yield DeviceTime(name, place.name, counts[name], busy, copies, *moved, held.peak, held.limit, *computed)

    def _busy_seconds(self, place: DevicePlace) -> float:
        """Return the seconds in which a host runs or launches at least one node."""
        line, cores = self.timeline, place.cores
        if place.caller == NOWHERE:
            return line.usage[cores].busy_seconds
        runs, launches = zip(line.starts, line.ends, strict=True), zip(line.launch_starts, line.launch_ends, strict=True)
        used = [cost.resource for cost in self.placed]
        spans = [span for resource, span in zip(used, runs, strict=True) if resource == cores]
        # without any launched resource, the timeline has no launches
        spans += [span for resource, span in zip(used, launches, strict=False) if self.plan.hosts[resource] == cores]
        busy = reached = 0.0
        for start, end in sorted(spans):
            busy += max(0.0, end - max(start, reached))
            reached = max(end, reached)
        return busy

    def memory(self, memory: dict[str, Memory]) -> Iterator[MemoryCurve]:
        for name in self.machine.places:
            if name in memory and memory[name].buffers:
                yield memory_curve(name, memory[name].buffers, self.timeline, memory[name].limit)

    def trace(self, number: int, memory: Sequence[MemoryCurve]) -> StepTrace:
        """Return the trace data of this step; `number` is the step's number."""
        return StepTrace(number, self.step, self.placed, self.machine, self.timeline, self.critical_path, memory)

    def path(self) -> Iterator[PathPart]:
        for part in self.critical_path:
            execution, cost = self.step[part.task], self.placed[part.task]
            if execution.site is None or part.end == part.start:
                continue
            node, device, kind = execution.site.name, execution.site.program.state.device.name, COMPUTE
            if cost.route is not None:
                _, device, node = transfer_ends(execution)
                kind = TRANSFER
            elif part.is_launch:
                kind = LAUNCH
            yield PathPart(node, device, kind, part.start, part.end, part.wait.value)


def _independent_share(deviations: Collection[float]) -> float:
    """Return the root of the sum of squares of deviations, relative to their sum."""
    together = sum(deviations)
    return hypot(*deviations) / together if together else 1.0
