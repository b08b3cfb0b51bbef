"""Chrome's trace event format of a trace, with the names that TensorFlow's `timeline.Timeline` uses.

Source: Google's "Trace Event Format", and the output of TensorFlow 2.21's timeline. An executed node is a complete event of the
category `Op`, named after its op, with `args` `name`, `op`, `input0` and so on. Flow events have the category `DataFlow`;
counters have the category `Memory` in the process `Allocators`. Perfetto and chrome://tracing read this format.
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
"""Nanoseconds added to each time: Perfetto cuts off fractions, and 1.001 us times 1000 may be less than 1001."""


def trace_events(study: TimeStudy) -> Iterator[Event]:
    """Yield the trace events of a study. Raises ValueError if the study has no trace."""
    if study.trace is None:
        raise ValueError("the study has no trace: none was requested")
    return events(study.trace.records())


def events(records: Iterable[TraceRecord]) -> Iterator[Event]:
    """Yield one or two events for each record."""
    return _Events().of(records)


def trace_text(found: Iterable[Event]) -> Iterator[str]:
    """Yield the text of a trace file, one event at a time."""
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
        """Yield the events that name a new row. Thread numbers are unique over all processes and never 0."""
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
