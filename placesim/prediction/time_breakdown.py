"""Durations of a graph's steps with their causes: one record, and the values that reports derive from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.prediction.machine_resources import BETWEEN_GPUS, FROM_HOST, TO_HOST
from placesim.prediction.memory_curves import MemoryCurve
from placesim.prediction.step_trace import StepTrace
from placesim.runtime.partitioning.transfer_kinds import TransferKind, transfer_kind
from placesim.runtime.recording.lifetimes import Lifetime

COMPUTE, LAUNCH, TRANSFER = "compute", "launch", "transfer"
"""The kinds of a path's parts."""


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


class StepBound(NamedTuple):
    """Lower bound of the step time over all node orders, with its reason."""

    kind: str
    what: str
    seconds: float


class DeviceTime(NamedTuple):
    """A device in the step: for how many seconds its nodes ran and its copies, the bytes in and out, and its memory.

    `busy` is that of a GPU's compute stream; of a CPU, the seconds in which its task's host ran anything, launches among it,
    and none of a further one on which no node runs.  `peak` is None if no memory was used, `limit` if there is none.
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
    """One execution of a node; `is_uncertain` if it ran on a host with assumed figures."""

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


class Speedup(NamedTuple):
    """Duration of the step if one link, resource, op or node took no time."""

    kind: str
    what: str
    seconds: float


@dataclass(frozen=True)
class TimeStudy:
    """Durations of a graph's steps; all but `steps` is of the last one, in its steady state.

    `error` is TensorFlow's, where a device runs out of memory.  `helps` is empty unless it was asked for.  `memory` has each
    device that held anything, `trace`, where it was asked for, what the last step's trace is made from.
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
        """The bound that is nearest to the step's time."""
        return max(self.bounds, key=lambda bound: bound.seconds)


class Memory(NamedTuple):
    """A device's peak and limit in bytes (None if unused or unlimited); `buffers` are those of the last step."""

    peak: int | None
    limit: int | None
    buffers: Sequence[Lifetime] = ()


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
    """The `limit` costliest nodes, costliest first."""
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
    """The `limit` longest transfers, longest first."""
    return sorted(study.transfers, key=lambda run: run.start - run.end)[:limit]


class FoldedPath(NamedTuple):
    """Part of the critical path in a scope, in one kind of work."""

    scope: str
    kind: str
    number: int
    seconds: float


def path_by_scope(parts: Iterable[PathPart]) -> list[FoldedPath]:
    """A critical path by outermost scope and kind, the largest part first."""
    found: dict[tuple[str, str], list[float]] = {}
    for part in parts:
        scope, slash, _ = part.node.partition("/")
        found.setdefault((scope + slash, part.kind), []).append(part.end - part.start)
    rows = [FoldedPath(*key, len(seconds), sum(seconds)) for key, seconds in found.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def folded_path(study: TimeStudy, limit: int) -> list[FoldedPath]:
    """The critical path by outermost scope and kind, the largest part first; from the limit on, the rest in one row."""
    rows = path_by_scope(study.critical_path)
    if len(rows) <= limit:
        return rows
    rest = rows[limit - 1 :]
    return [*rows[: limit - 1], FoldedPath("*", "all", sum(row.number for row in rest), sum(row.seconds for row in rest))]


def lane(study: TimeStudy, device: str, cells: int) -> list[float]:
    """Share of each part of the step during which any node of the device ran."""
    return _shares(study, ((run.start, run.end) for run in study.nodes if run.device == device), cells)


def copies_lane(study: TimeStudy, device: str, cells: int) -> list[float]:
    """Share of each part of the step during which any copy stream of the device was in use."""
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
