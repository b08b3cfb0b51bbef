"""Predicted times of a graph's steps for Python callers: a study with its readings."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.prediction.time_breakdown import (
    DeviceTime,
    LinkTime,
    NodeRun,
    PathPart,
    StepBound,
    StepTime,
    TimeStudy,
    TransferRun,
)
from placesim.report.readings import Reading
from placesim.report.text.timing import device_labels, format_lines, time_document
from placesim.report.trace_json import Event, trace_events

TOP = 10
"""Default number of rows of the critical path, of nodes and of transfers in the text."""


class ReportSpan(NamedTuple):
    """A node or a tensor's transfer in the last step: `lane` is the stream or host that a node ran on, or a transfer's way.

    `start` and `end` are in seconds from the step's begin.
    """

    name: str
    lane: str
    start: float
    end: float
    is_transfer: bool


class TimeReport(Reading):
    """Predicted times of steps; all but `steps` is of the last one, in its steady state, with times in seconds.

    `error` is TensorFlow's where a device runs out of memory: the times are then those without limits.
    """

    def __init__(self, study: TimeStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        return f"<placesim.TimeReport of {self.study.name}: {self.seconds:.6g} s>"

    @property
    def seconds(self) -> float:
        """The step time."""
        return self.study.step.seconds

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return self.study.step.low

    @property
    def high(self) -> float:
        """The upper end."""
        return self.study.step.high

    @property
    def steps(self) -> tuple[StepTime, ...]:
        """Each step of `run:`."""
        return self.study.steps

    @property
    def bounds(self) -> tuple[StepBound, ...]:
        """Lower bounds of the step time over all node orders."""
        return self.study.bounds

    @property
    def devices(self) -> tuple[DeviceTime, ...]:
        """Each device's work, copies and memory."""
        return self.study.devices

    @property
    def links(self) -> tuple[LinkTime, ...]:
        """Each link's load."""
        return self.study.links

    @property
    def nodes(self) -> tuple[NodeRun, ...]:
        """Each execution of a node."""
        return self.study.nodes

    @property
    def transfers(self) -> tuple[TransferRun, ...]:
        """Each tensor on its way."""
        return self.study.transfers

    @property
    def critical_path(self) -> tuple[PathPart, ...]:
        """Parts of the step's time, without a gap."""
        return self.study.critical_path

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the prediction, as sentences."""
        return self.study.assumptions

    @property
    def error(self) -> PlacesimError | None:
        """TensorFlow's error if a device runs out of memory."""
        return self.study.error

    @cached_property
    def timeline(self) -> tuple[ReportSpan, ...]:
        """Nodes and transfers in the order in which they begin."""
        spans = [ReportSpan(run.node, run.stream, run.start, run.end, is_transfer=False) for run in self.nodes]
        labels = device_labels(self.study)
        for run in self.transfers:
            lane = f"{labels[run.sender]} to {labels[run.receiver]}"
            spans.append(ReportSpan(run.tensor, lane, run.start, run.end, is_transfer=True))
        return tuple(sorted(spans, key=lambda span: (span.start, span.end)))

    def text(self, top: int = TOP) -> str:
        """The lines that the command writes into a pipe."""
        return format_lines(self.study, top)

    def document(self) -> dict[str, Any]:
        """The JSON object, as plain values."""
        return time_document(self.study)

    def page(self) -> str:
        """Page with the timeline, the critical path and memory over time."""
        from placesim.report.pictures.timing_page import timing_page

        return timing_page(self.study, TOP)

    def trace(self) -> list[Event]:
        """The events of the last step in Chrome's trace event format; `json.dump({"traceEvents": ...})` opens in Perfetto."""
        return list(trace_events(self.study))
