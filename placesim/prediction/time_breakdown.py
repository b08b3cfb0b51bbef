"""Durations of a graph's steps with their causes, and the values that reports derive from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.core.grouped import grouped
from placesim.prediction.machine_resources import BETWEEN_GPUS, FROM_HOST, TO_HOST
from placesim.prediction.measured_comparison import MeasuredComparison
from placesim.prediction.memory_curves import MemoryCurve
from placesim.prediction.step_trace import StepTrace
from placesim.runtime.partitioning.transfer_kinds import TransferKind, transfer_kind
from placesim.runtime.recording.lifetimes import Lifetime

COMPUTE, LAUNCH, TRANSFER = "compute", "launch", "transfer"
"""Kinds of segments of the critical path."""


class StepTime(NamedTuple):
    """A step of `run:`: its seconds and their interval in the steady state, and the seconds of its first repetition."""

    number: int
    repeat: int
    seconds: float
    low: float
    high: float
    first_seconds: float

    @property
    def total_seconds(self) -> float:
        """Seconds of all repetitions."""
        return self.first_seconds + (self.repeat - 1) * self.seconds


class StepBound(NamedTuple):
    """A lower bound of the step time that holds for any order of nodes, and its reason."""

    kind: str
    what: str
    seconds: float


class DeviceTime(NamedTuple):
    """Times, transferred bytes and memory of a device in the step.

    `busy` is the time in which a GPU's compute stream, or a CPU's host, ran anything; launches count for the host.  If a
    host has several CPU devices, the first has the host's time, and the others have 0 unless they run nodes.  `copies` is the
    total time of the copy streams.  `peak` is None if it is unknown, and `limit` is None if there is none.  `operations`
    are floating-point operations, and `peak_seconds` is their time at the device's peak rate.
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
    operations: int = 0
    peak_seconds: float = 0.0


class LinkTime(NamedTuple):
    """A link in the step: its bytes, and the seconds in which at least one transfer used it."""

    name: str
    bandwidth: float
    latency: float
    bytes: float
    busy: float


class NodeRun(NamedTuple):
    """One execution of a node; `is_uncertain` is set if it ran on a host with assumed figures."""

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
    """One transfer of a tensor; `streams` are the GPUs' copy streams that it uses."""

    tensor: str
    sender: str
    receiver: str
    bytes: int
    start: float
    end: float
    streams: tuple[str, ...] = ()


class PathPart(NamedTuple):
    """A segment of the critical path: `kind` is compute, launch or transfer; `wait` says why it did not begin earlier."""

    node: str
    device: str
    kind: str
    start: float
    end: float
    wait: str


class Speedup(NamedTuple):
    """Duration of the step in seconds if one link, resource, op or node took no time."""

    kind: str
    what: str
    seconds: float


@dataclass(frozen=True)
class TimeStudy:
    """Predicted times of a graph's steps; all fields except `steps` describe the last step in its steady state.

    `error` is TensorFlow's error if a device runs out of memory. `helps` is empty, and `trace` is None, unless they were
    requested. `memory` has a curve for each device whose memory was used. `value_assumptions` are the `assumptions` about
    values that are unknown before the step runs. `comparison` is None unless a measurement was given.
    """

    name: str
    steps: tuple[StepTime, ...]
    bounds: tuple[StepBound, ...]
    devices: tuple[DeviceTime, ...]
    links: tuple[LinkTime, ...]
    nodes: tuple[NodeRun, ...]
    transfers: tuple[TransferRun, ...]
    critical_path: tuple[PathPart, ...]
    assumptions: tuple[str, ...]
    error: PlacesimError | None = None
    helps: tuple[Speedup, ...] = ()
    memory: tuple[MemoryCurve, ...] = ()
    trace: StepTrace | None = field(default=None, repr=False, compare=False)
    value_assumptions: tuple[str, ...] = ()
    comparison: MeasuredComparison | None = None

    @property
    def counted_transfers(self) -> tuple[TransferRun, ...]:
        """Transfers that carry tensors between devices."""
        return tuple(run for run in self.transfers if transfer_kind(run.sender, run.receiver, run.bytes) is TransferKind.TENSOR)

    @property
    def step(self) -> StepTime:
        """The last step."""
        return self.steps[-1]

    @property
    def bound(self) -> StepBound:
        """The largest lower bound of the step time."""
        return max(self.bounds, key=lambda bound: bound.seconds)

    @property
    def fullest_device(self) -> DeviceTime:
        """The device with the highest used share of its memory limit; without limits, the device that uses the most bytes."""
        return max(self.devices, key=_fullness)


def _fullness(device: DeviceTime) -> tuple[float, int]:
    """Return the used share of a device's memory limit (-1 without a limit), and its peak in bytes."""
    peak = device.peak or 0
    return (-1.0 if device.limit is None else peak / device.limit if device.limit else 0.0), peak


class Memory(NamedTuple):
    """Memory of a device: peak in bytes (None if unknown), limit (None if there is none), and the last step's buffers."""

    peak: int | None
    limit: int | None
    buffers: Sequence[Lifetime] = ()


# --- where the time goes ----------------------------------------------------------------------------------------------


class NodeCost(NamedTuple):
    """Totals of all executions of a node in the step."""

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
    """Return the `limit` nodes with the longest total time, longest first."""
    found = grouped(((run.node, run.device), run) for run in study.nodes)
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
    """Return the `limit` longest transfers, longest first."""
    return sorted(study.transfers, key=lambda run: run.start - run.end)[:limit]


class FoldedPath(NamedTuple):
    """Total of the segments of the critical path that have the same outermost scope and the same kind."""

    scope: str
    kind: str
    number: int
    seconds: float


def path_by_scope(parts: Iterable[PathPart]) -> list[FoldedPath]:
    """Return the totals of a critical path by outermost scope and kind, largest first."""
    found: dict[tuple[str, str], list[float]] = {}
    for part in parts:
        scope, slash, _ = part.node.partition("/")
        found.setdefault((scope + slash, part.kind), []).append(part.end - part.start)
    rows = [FoldedPath(*key, len(seconds), sum(seconds)) for key, seconds in found.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def folded_path(study: TimeStudy, limit: int) -> list[FoldedPath]:
    """Return the totals of `path_by_scope`; if there are more than `limit`, the last one combines the rest."""
    rows = path_by_scope(study.critical_path)
    if len(rows) <= limit:
        return rows
    rest = rows[limit - 1 :]
    return [*rows[: limit - 1], FoldedPath("*", "all", sum(row.number for row in rest), sum(row.seconds for row in rest))]


def lane(study: TimeStudy, device: str, cells: int) -> list[float]:
    """Divide the step into `cells` equal parts; return the share of each part during which a node of the device ran."""
    return _shares(study, ((run.start, run.end) for run in study.nodes if run.device == device), cells)


def copies_lane(study: TimeStudy, device: str, cells: int) -> list[float]:
    """Divide the step into `cells` equal parts; return the share of each part during which the device copied a tensor."""
    return _shares(study, ((run.start, run.end) for run in study.transfers if _copies(run, device)), cells)


def _copies(run: TransferRun, device: str) -> bool:
    """Return whether a transfer uses a copy stream of a device."""
    into = (FROM_HOST, BETWEEN_GPUS) if run.receiver == device else ()
    out = (TO_HOST, BETWEEN_GPUS) if run.sender == device else ()
    return any(stream.endswith((*into, *out)) for stream in run.streams)


def _shares(study: TimeStudy, spans: Iterable[tuple[float, float]], cells: int) -> list[float]:
    """Return for each cell the share of its time that the spans cover; a span is a pair of start and end."""
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
