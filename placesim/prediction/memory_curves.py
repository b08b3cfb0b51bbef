"""Memory use of a device over simulated time, from the buffers of executions and their times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from placesim.machine.timelines.timeline import WorkloadTimeline
from placesim.runtime.recording.lifetimes import BEFORE, Lifetime


class MemoryCurve(NamedTuple):
    """Memory of a device during a step: each of `changes` is a time in seconds and the bytes in use from then on.

    The first pair is for the start of the step, and the last for its end.  `limit` is in bytes; None if there is none.
    """

    device: str
    changes: tuple[tuple[float, int], ...]
    limit: int | None


def memory_curve(device: str, buffers: Sequence[Lifetime], timeline: WorkloadTimeline, limit: int | None) -> MemoryCurve:
    """Return the memory curve of a device.

    Each buffer is in use from the start of the execution that makes it until all executions that hold it have ended.
    Allocations and releases at the same time are one change.
    """
    starts, ends, seconds = timeline.starts, timeline.ends, timeline.seconds
    before = 0
    deltas: dict[float, int] = defaultdict(int)
    for size, made, holders, is_kept in buffers:
        if made == BEFORE:
            before += size
        else:
            deltas[starts[made]] += size
        if not is_kept:
            end = seconds if holders is None else max(ends[number] for number in (*holders, made) if number != BEFORE)
            deltas[end] -= size
    in_use = before
    changes = [(0.0, before)]
    for time in sorted(deltas):
        if deltas[time]:
            in_use += deltas[time]
            changes.append((time, in_use))
    if len(changes) == 1 or changes[-1][0] < seconds:
        changes.append((seconds, in_use))
    return MemoryCurve(device, tuple(changes), limit)
