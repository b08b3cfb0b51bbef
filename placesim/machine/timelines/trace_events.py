"""Contents of a trace, as values: slices on tracks, arrows between them, and counters.

Times are whole nanoseconds from the beginning of the trace.  Slices of a track do not overlap, but one may contain another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

NANOSECONDS = 1_000_000_000
ALLOCATORS = "Allocators"
"""Process of the memory counters, named as in TensorFlow."""
STEPS = "Steps"
IN_USE = "bytes in use"


class Track(NamedTuple):
    """A row of a trace. In the events of a trace, all tracks come first, in display order."""

    process: str
    thread: str


class TraceSlice(NamedTuple):
    """An event with a duration; viewers show its `category` and `args`."""

    track: Track
    start: int
    end: int
    name: str
    category: str
    args: dict[str, Any]


class Arrow(NamedTuple):
    """An arrow from a moment of a slice on one track to a moment of a slice on another."""

    name: str
    source: Track
    source_time: int
    target: Track
    target_time: int


class Count(NamedTuple):
    """The value of a counter from a moment on; `series` names the counted quantity."""

    process: str
    name: str
    series: str
    time: int
    value: int


def arrow(name: str, source: tuple[Track, int, int], target: tuple[Track, int, int]) -> Arrow:
    """Return an arrow from one slice to another, each given as its track, start and end.

    The ends of the arrow lie inside the slices, so that viewers don't attach the arrow to an adjoining slice.
    """
    (source_track, began, ended), (target_track, start, end) = source, target
    reached = max(start, min(start + 1, end - 1))
    return Arrow(name, source_track, max(began, min(ended - 1, reached)), target_track, reached)


TraceRecord: TypeAlias = Track | TraceSlice | Arrow | Count


class TrackLanes:
    """Assigns rows to overlapping slices: each slice gets the first free row, in order of start."""

    def __init__(self) -> None:
        self.count = 0
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []

    def take(self, start: int, end: int) -> int:
        """Reserve a row from `start` to `end` and return its number; `start` must not decrease between calls."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        lane = heapq.heappop(self._free) if self._free else self.count
        self.count = max(self.count, lane + 1)
        heapq.heappush(self._busy, (end, lane))
        return lane


def nanoseconds(seconds: float) -> int:
    """Round to whole nanoseconds; adjoining slices stay adjoining."""
    return round(seconds * NANOSECONDS)


def memory_counts(device: str, changes: Iterable[tuple[int, int]]) -> Iterator[Count]:
    """Yield the counts of a device's memory, from pairs of a time and the bytes in use from then on."""
    task, _, own = device.partition("/device:")
    name = f"{own} of {task}" if own else device  # viewers cut off the end of long names
    return (Count(ALLOCATORS, name, IN_USE, time, held) for time, held in changes)


def node_args(name: str, op: str, inputs: Iterable[str]) -> dict[str, Any]:
    """Return the arguments of a node in TensorFlow's timeline."""
    return {"name": name, "op": op} | {f"input{number}": given for number, given in enumerate(inputs)}
