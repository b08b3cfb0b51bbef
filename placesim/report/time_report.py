"""Predicted times of a graph's steps, for Python callers."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.prediction.measured_comparison import MeasuredComparison
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
from placesim.report.readings import Reading, plain_document
from placesim.report.text.timing import TABLES, device_labels, time_document, time_lines
from placesim.report.trace_json import Event, trace_events

TOP = 10
"""Default number of rows of the critical path, of nodes and of transfers in the text."""


class ReportSpan(NamedTuple):
    """A node or transfer in the last step. `start` and `end` are in seconds from the beginning of the step.

    `lane` is the row of the timeline: the stream or host of a node, or the two devices of a transfer.
    """

    name: str
    lane: str
    start: float
    end: float
    is_transfer: bool


class TimeReport(Reading):
    """Predicted times in seconds. `steps` covers all steps; everything else describes the last step in its steady state.

    `error` is TensorFlow's error if a device runs out of memory; the times then assume no limits.
    """

    TABLES = TABLES

    def __init__(self, study: TimeStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        return f"<placesim.TimeReport of {self.study.name}: {self.seconds:.6g} s>"

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.study.name

    @property
    def seconds(self) -> float:
        """The step time."""
        return self.study.step.seconds

    @property
    def low(self) -> float:
        """The lower end of the step time's interval."""
        return self.study.step.low

    @property
    def high(self) -> float:
        """The upper end of the step time's interval."""
        return self.study.step.high

    @property
    def steps(self) -> tuple[StepTime, ...]:
        """The times of each step under `run:`."""
        return self.study.steps

    @property
    def bounds(self) -> tuple[StepBound, ...]:
        """Lower bounds of the step time that hold for any order of nodes."""
        return self.study.bounds

    @property
    def devices(self) -> tuple[DeviceTime, ...]:
        """The busy time, copies and memory of each device."""
        return self.study.devices

    @property
    def links(self) -> tuple[LinkTime, ...]:
        """The load of each link."""
        return self.study.links

    @property
    def nodes(self) -> tuple[NodeRun, ...]:
        """The executions of nodes."""
        return self.study.nodes

    @property
    def transfers(self) -> tuple[TransferRun, ...]:
        """The transfers of tensors."""
        return self.study.transfers

    @property
    def critical_path(self) -> tuple[PathPart, ...]:
        """The nodes and transfers that follow each other without a gap and make up the step time."""
        return self.study.critical_path

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the prediction, as sentences."""
        return self.study.assumptions

    @property
    def comparison(self) -> MeasuredComparison | None:
        """The predicted step beside the measured one, if a measurement was given."""
        return self.study.comparison

    @property
    def error(self) -> PlacesimError | None:
        """TensorFlow's error if a device runs out of memory."""
        return self.study.error

    @cached_property
    def timeline(self) -> tuple[ReportSpan, ...]:
        """Nodes and transfers in the order of their start."""
        spans = [ReportSpan(run.node, run.stream, run.start, run.end, is_transfer=False) for run in self.nodes]
        labels = device_labels(self.study)
        for run in self.transfers:
            lane = f"{labels[run.sender]} to {labels[run.receiver]}"
            spans.append(ReportSpan(run.tensor, lane, run.start, run.end, is_transfer=True))
        return tuple(sorted(spans, key=lambda span: (span.start, span.end)))

    def text(self, top: int = TOP) -> str:
        """Return the lines that the command writes to a pipe."""
        return "".join(time_lines(self.study, top).text())

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        return plain_document(time_document(self.study))

    def page(self) -> str:
        """Return the page with the timeline, the critical path and memory over time."""
        from placesim.report.pictures.timing_page import timing_page

        return timing_page(self.study, TOP)

    def trace(self) -> list[Event]:
        """Return the last step in Chrome's trace event format. Perfetto opens `json.dump({"traceEvents": ...})`."""
        return list(trace_events(self.study))
