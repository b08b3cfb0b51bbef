"""Memory use of a device over simulated time, from the buffers of executions and their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.machine.timelines.timeline import WorkloadTimeline
from placesim.runtime.recording.lifetimes import BEFORE, Lifetime


class MemoryCurve(NamedTuple):
    """Memory of a device during a step: `changes` are pairs of seconds into the step and bytes in use from then on.

    The first change is at 0, before the step, and the last at its end.  `limit` is in bytes; None if there is none.
    """

    device: str
    changes: tuple[tuple[float, int], ...]
    limit: int | None


def memory_curve(device: str, buffers: Sequence[Lifetime], timeline: WorkloadTimeline, limit: int | None) -> MemoryCurve:
    """Return the memory curve of a device; each buffer is in use from the start of its producer to the last end of its holders.

    Releases and allocations at the same moment are one change, so buffers without a lifetime don't show.
    """
    starts, ends, seconds = timeline.starts, timeline.ends, timeline.seconds
    before = 0
    deltas: dict[float, int] = {}
    for size, made, holders, is_kept in buffers:
        if made == BEFORE:
            before += size
        else:
            deltas[starts[made]] = deltas.get(starts[made], 0) + size
        if not is_kept:
            end = seconds if holders is None else max(ends[number] for number in (*holders, made) if number != BEFORE)
            deltas[end] = deltas.get(end, 0) - size
    in_use = before
    changes = [(0.0, before)]
    for time in sorted(deltas):
        if deltas[time]:
            in_use += deltas[time]
            changes.append((time, in_use))
    if len(changes) == 1 or changes[-1][0] < seconds:
        changes.append((seconds, in_use))
    return MemoryCurve(device, tuple(changes), limit)
