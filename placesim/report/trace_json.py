"""Records of a trace -> Chrome's trace event format, named as TensorFlow's `timeline.Timeline` names things.

Source: Google's "Trace Event Format", and what TensorFlow 2.21's timeline writes: complete events of the category `Op` whose
name is the op's and whose `args` have `name`, `op` and `input0` on, flow events of the category `DataFlow`, counters of the
category `Memory` in the process `Allocators`.  Perfetto and chrome://tracing read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from placesim.machine.timelines.trace_events import ALLOCATORS, Arrow, Count, TraceRecord, TraceSlice, Track

if TYPE_CHECKING:
    from placesim.prediction.time_breakdown import TimeStudy

Event = dict[str, Any]

QUARTER = 0.25
"""Added to each time, in nanoseconds: Perfetto cuts off what is below one, and 1.001 us times 1000 may be less than 1001."""


def trace_events(study: TimeStudy) -> Iterator[Event]:
    """Trace events of a study with trace data; raises ValueError without them."""
    if study.trace is None:
        raise ValueError("the study has no trace: none was requested")
    return events(study.trace.records())


def events(records: Iterable[TraceRecord]) -> Iterator[Event]:
    """One or two events for each record."""
    return _Events().of(records)


def trace_text(found: Iterable[Event]) -> Iterator[str]:
    """The events as a file, in pieces of an event each."""
    separator = '{"displayTimeUnit":"ns","traceEvents":[\n'
    for event in found:
        yield separator + json.dumps(event, separators=(",", ":"))
        separator = ",\n"
    yield "\n]}\n" if separator == ",\n" else separator + "]}\n"


class _Events:
    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._threads: dict[Track, int] = {}
        self._arrows = 0

    def of(self, records: Iterable[TraceRecord]) -> Iterator[Event]:
        for record in records:
            if isinstance(record, TraceSlice):
                yield from self._place(record.track)
                yield {
                    **self._event("X", record.category, record.name, record.track, record.start),
                    "dur": (record.end - record.start) / 1000,
                    "args": record.args,
                }
            elif isinstance(record, Arrow):
                yield from self._arrow(record)
            elif isinstance(record, Count):
                yield from self._process(record.process)
                head = _head("C", "Memory" if record.process == ALLOCATORS else "Link", record.name)
                ends = {"pid": self._processes[record.process], "tid": 0, "ts": _microseconds(record.time)}
                yield head | ends | {"args": {record.series: record.value}}
            else:
                yield from self._place(record)

    def _arrow(self, arrow: Arrow) -> Iterator[Event]:
        yield from self._place(arrow.source)
        yield from self._place(arrow.target)
        self._arrows += 1
        number = {"id": self._arrows}
        yield self._event("s", "DataFlow", arrow.name, arrow.source, arrow.source_time) | number
        # "f" with "bp": "e" ends in the slice around it, where TensorFlow's "t" leaves Perfetto waiting for more
        yield self._event("f", "DataFlow", arrow.name, arrow.target, arrow.target_time) | number | {"bp": "e"}

    def _event(self, phase: str, category: str, name: str, track: Track, time: int) -> Event:
        ends = {"pid": self._processes[track.process], "tid": self._threads[track], "ts": _microseconds(time)}
        return _head(phase, category, name) | ends

    def _place(self, track: Track) -> Iterator[Event]:
        """Name a new row; thread numbers are unique over all processes and never 0."""
        if track in self._threads:
            return
        yield from self._process(track.process)
        pid, tid = self._processes[track.process], len(self._threads) + 1
        self._threads[track] = tid
        place = {"pid": pid, "tid": tid}
        yield {"name": "thread_name", "ph": "M", **place, "args": {"name": track.thread}}
        yield {"name": "thread_sort_index", "ph": "M", **place, "args": {"sort_index": tid}}

    def _process(self, name: str) -> Iterator[Event]:
        if name not in self._processes:
            pid = self._processes[name] = len(self._processes) + 1
            yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
            yield {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}}


def _head(phase: str, category: str, name: str) -> Event:
    return {"ph": phase, "cat": category, "name": name}


def _microseconds(time: int) -> float:
    return (time + QUARTER) / 1000
