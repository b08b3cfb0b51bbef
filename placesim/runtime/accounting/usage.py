"""Memory use of each device, from the journal of its allocations: the peak, and the buffers in use at the peak."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from placesim.machine.memory.buffer_sources import DeviceSource, JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.runtime.accounting.ledger import Ledger

CURVE_POINTS = 240
"""Maximum number of points of a device's curve; each point is the peak of one part of the steps."""


class Holder(NamedTuple):
    """A buffer in use at the peak; `node` is its owner.

    - `size`, `requested`: the allocated and the requested bytes.
    - `since`: the node that ran when the buffer was allocated.
    - `until`: the node after which the buffer was freed; empty if it was not freed.
    - `kept`: the constant or variable that keeps the buffer beyond the step; empty if there is none.
    - `made`, `freed`: positions of the allocation and the release in the device's trace; `freed` is None without a release.
    """

    node: str
    size: int
    requested: int
    since: str
    until: str
    kept: str
    made: int = 0
    freed: int | None = None


class DeviceUsage(NamedTuple):
    """Memory of one device over all steps, in bytes.

    - `limit`: the memory limit; None if the device has no limit.
    - `fragmentation`: share of the free bytes that is outside the largest free chunk, at the end; NaN if no byte is free, and
      None if the device has no allocator.
    - `peak_node`, `holders`: the node that ran at the peak, and the buffers in use then, largest first.
    - `curve`: the peaks of at most CURVE_POINTS successive parts of the steps.
    - `trace`: a number for each event: the requested bytes of an allocation, or `-1 - n` for the release of allocation n,
      counted from 0. `peak_at` is the position of the peak in the trace.
    """

    device: str
    allocator: str
    limit: int | None
    peak: int
    in_use: int
    allocations: int
    peak_node: str
    holders: tuple[Holder, ...]
    curve: tuple[int, ...]
    fragmentation: float | None
    peak_at: int = 0
    trace: Sequence[int] = ()

    @property
    def room(self) -> int | None:
        """Bytes between the peak and the limit; None without a limit."""
        return None if self.limit is None else self.limit - self.peak


def record(ledger: Ledger) -> None:
    """Start a journal for each memory source."""
    for source in ledger.all_sources():
        source.journal = []


def end_record(ledger: Ledger) -> None:
    """Detach the journals and the recorder from the ledger, which otherwise would keep them alive."""
    ledger.recorder = None
    for source in ledger.all_sources():
        source.journal = None


def device_usage(ledger: Ledger) -> tuple[DeviceUsage, ...]:
    """Return the usage of each device whose memory was used since `record`, in the order of devices."""
    kept = ledger.keeper_of()
    return tuple(_usage(device, source, kept) for device, source in ledger.sources.items() if source.journal)


def _usage(device: str, source: DeviceSource, kept: dict[Buffer, str]) -> DeviceUsage:
    journal = source.journal or []
    step = -(-len(journal) // CURVE_POINTS)
    curve = [0] * -(-len(journal) // step)
    in_use = most = at = 0
    for position, entry in enumerate(journal):
        in_use += entry.buffer.allocated if entry.is_made else -entry.buffer.allocated
        if in_use > most:
            most, at = in_use, position
        if in_use > curve[position // step]:
            curve[position // step] = in_use
    fragmentation = getattr(getattr(source, "allocator", None), "fragmentation", None)
    trace = _trace(journal)
    return DeviceUsage(
        device=device,
        allocator=source.name,
        limit=source.limit,
        peak=most,
        in_use=in_use,
        allocations=sum(entry.is_made for entry in journal),
        peak_node=journal[at].node,
        holders=_holders_at(journal, at, kept),
        curve=tuple(curve),
        fragmentation=fragmentation() if fragmentation is not None else None,
        peak_at=at,
        trace=trace,
    )


def _trace(journal: Sequence[JournalEntry]) -> array[int]:
    numbers: dict[Buffer, int] = {}
    trace = array("q")
    for entry in journal:
        if entry.is_made:
            numbers[entry.buffer] = len(numbers)
            trace.append(entry.buffer.size)
        else:
            trace.append(-1 - numbers[entry.buffer])
    return trace


def _holders_at(journal: Sequence[JournalEntry], at: int, kept: dict[Buffer, str]) -> tuple[Holder, ...]:
    made: dict[Buffer, int] = {}
    for position, entry in enumerate(journal[: at + 1]):
        if entry.is_made:
            made[entry.buffer] = position
        else:
            del made[entry.buffer]
    freed = {entry.buffer: position for position, entry in enumerate(journal[at + 1 :], at + 1) if not entry.is_made}
    found = []
    for buffer, since in made.items():
        until = freed.get(buffer)
        nodes = journal[since].node, "" if until is None else journal[until].node
        found.append(Holder(buffer.owner, buffer.allocated, buffer.size, *nodes, kept.get(buffer, ""), since, until))
    return tuple(sorted(found, key=lambda holder: -holder.size))
