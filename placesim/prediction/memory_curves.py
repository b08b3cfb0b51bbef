"""Memory use of a device over simulated time, from the buffers of executions and their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.machine.timelines.timeline import WorkloadTimeline
from placesim.runtime.recording.lifetimes import BEFORE, Lifetime


class MemoryCurve(NamedTuple):
    """A device's memory in a step: `changes` are seconds into the step and the bytes in use from then on.

    The first is at 0 with what is held before the step, the last at the step's end with what is held after it.  `limit` is in
    bytes, None if there is none.
    """

    device: str
    changes: tuple[tuple[float, int], ...]
    limit: int | None


def memory_curve(device: str, buffers: Sequence[Lifetime], timeline: WorkloadTimeline, limit: int | None) -> MemoryCurve:
    """A buffer is in use from the start of the execution that makes it to the last end of those that hold it.

    What is given back and what is made in one moment is one change, so that what lives for no time is never seen.
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
