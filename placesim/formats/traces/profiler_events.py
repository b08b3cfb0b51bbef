"""Events of TensorFlow's profiler, which have the same form in its Chrome traces and in its XSpace files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from placesim.formats.traces.run_names import named_run, split_node
from placesim.machine.timelines.measured_steps import (
    COPY,
    HOST,
    KERNEL,
    MeasuredRun,
    MeasuredStep,
    divide_at_marks,
    divide_by_repetition,
)

HOST_PLANE, DEVICE_PLANE = "/host:CPU", "/device:"
_STREAM = "Stream"
_SESSION_RUN = "SessionRun"
_COPIED = "memcpy"


class ProfilerEvent(NamedTuple):
    """An event: its names, one of which may be a node's, and its times in seconds.

    `plane` and `line` are the names of its process and thread. `is_step` is set if the event has the number of a step.
    """

    plane: str
    line: str
    names: Sequence[str]
    start: float
    seconds: float
    is_step: bool = False


def profiled_steps(events: Iterable[ProfilerEvent]) -> tuple[MeasuredStep, ...]:
    """Return the steps of a profile: calls of `Session.run`, else steps that the program numbered, else repeated events."""
    runs: list[MeasuredRun] = []
    sessions: list[tuple[float, float]] = []
    numbered: list[tuple[float, float]] = []
    for event in events:
        if HOST_PLANE in event.plane:
            if _SESSION_RUN in event.names:
                sessions.append((event.start, event.start + event.seconds))
            elif event.is_step:
                numbered.append((event.start, event.start + event.seconds))
            kind = HOST
        elif DEVICE_PLANE in event.plane and event.line.startswith(_STREAM):
            kind = COPY if event.names[0].lower().startswith(_COPIED) else KERNEL
        else:
            continue
        found = next(filter(None, map(split_node, event.names)), None)
        if found is not None:
            runs.append(named_run(kind, *found, event.start, event.seconds))
        elif kind != HOST:
            runs.append(MeasuredRun(event.names[0], "", kind, event.start, event.seconds))
    marks = sessions or numbered
    return divide_at_marks(runs, marks) if marks else divide_by_repetition(runs)
