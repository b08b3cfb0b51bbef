"""Reads a trace file as a viewer would, and says what is wrong with it.

Chrome's trace event format: slices on the rows of processes (`X`), arrows between them (`s`, `f`), counters (`C`), names (`M`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

Row = tuple[int, int]
"""A process and a thread, by number."""


class DrawnSlice(NamedTuple):
    """A slice as it is drawn; times are in nanoseconds."""

    process: str
    thread: str
    name: str
    start: int
    end: int
    args: dict[str, Any]


@dataclass
class Trace:
    """What a file shows."""

    slices: list[DrawnSlice] = field(default_factory=list)
    arrows: list[tuple[DrawnSlice, DrawnSlice]] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By process, name and series, with spaces between them."""
    faults: list[str] = field(default_factory=list)

    def on(self, process: str) -> list[DrawnSlice]:
        """The slices of a process, by start."""
        return sorted((shown for shown in self.slices if shown.process == process), key=lambda shown: shown.start)


def read_trace(path: Path) -> Trace:
    """A file's slices, arrows and counters; `faults` are empty where all is well."""
    events = json.loads(path.read_text())["traceEvents"]
    found = Trace()
    names = {(event["name"], event["pid"], event.get("tid")): event["args"] for event in events if event["ph"] == "M"}
    rows: dict[Row, list[DrawnSlice]] = defaultdict(list)
    ends: dict[int, dict[str, tuple[Row, int, str]]] = defaultdict(dict)
    for event in events:
        phase, row = event["ph"], (event["pid"], event.get("tid", 0))
        if phase == "M":
            continue
        time = int(event["ts"] * 1000)
        process = names["process_name", event["pid"], None]["name"]
        if phase == "X":
            thread = names["thread_name", *row]["name"]
            end = time + round(event["dur"] * 1000)
            rows[row].append(DrawnSlice(process, thread, event["name"], time, end, event["args"]))
        elif phase == "C":
            for series, value in event["args"].items():
                found.counters.setdefault(f"{process} {event['name']} {series}", []).append((time, value))
        elif phase in ("s", "f"):
            if phase in ends[event["id"]]:
                found.faults.append(f"arrow {event['id']} has two ends of {phase}")
            ends[event["id"]][phase] = (row, time, event["name"])
        else:
            found.faults.append(f"phase {phase}")
    for shown in rows.values():
        found.slices += shown
        found.faults += _overlaps(shown)
    for number, both in ends.items():
        found.faults += _connect(found, number, both, rows)
    for name, values in found.counters.items():
        if any(one[0] > other[0] for one, other in pairwise(values)):
            found.faults.append(f"counter {name} goes back in time")
    return found


def _overlaps(row: list[DrawnSlice]) -> Iterator[str]:
    """Slices of a row that neither follow each other nor lie in one another."""
    around: list[DrawnSlice] = []
    for shown in sorted(row, key=lambda shown: (shown.start, -shown.end)):
        if shown.end < shown.start:
            yield f"{shown.name} ends before it begins"
        while around and around[-1].end <= shown.start:
            around.pop()
        if around and shown.end > around[-1].end:
            yield f"{shown.process}, {shown.thread}: {shown.name} at {shown.start} overlaps {around[-1].name}"
        around.append(shown)


def _connect(
    found: Trace, number: int, both: dict[str, tuple[Row, int, str]], rows: dict[Row, list[DrawnSlice]]
) -> Iterator[str]:
    """Finds the innermost slices that an arrow leaves and reaches; where two adjoin there it may be either."""
    if set(both) != {"s", "f"}:
        yield f"arrow {number} has only {sorted(both)}"
        return
    touched = []
    for phase in ("s", "f"):
        row, time, _ = both[phase]
        at = sorted((shown for shown in rows.get(row, ()) if shown.start <= time <= shown.end), key=lambda shown: shown.start)
        if not at:
            yield f"arrow {number} touches no slice at its {phase}"
            return
        if any(inner.end > outer.end or inner.start == outer.end for outer, inner in pairwise(at)):
            yield f"arrow {number} touches two slices at its {phase}"
        touched.append(at[-1])
    if both["s"][1] > both["f"][1]:
        yield f"arrow {number} goes back in time"
    found.arrows.append((touched[0], touched[1]))
