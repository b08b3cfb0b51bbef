"""Data for the page of a time study: columns of whole numbers, and a table of distinct texts.

A span is one bar of the timeline. Spans are sorted by their start and numbered from 0; -1 means none. Times are numbers of
`tick`s, each relative to the time before it, which keeps the columns small. A tick is at most 1e-10 of the step time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from placesim.core.errors import UsageError
from placesim.core.escaping import escape_line
from placesim.inspection.short_device_names import short_names
from placesim.prediction.measured_comparison import MeasuredComparison
from placesim.prediction.spans import StepSpan, StepSpans, step_spans
from placesim.prediction.time_breakdown import TimeStudy, dearest_nodes, dearest_transfers, folded_path
from placesim.report.pictures.shell import ValueTable
from placesim.report.text.measured import measured_document, replaced_text, unmatched_text
from placesim.report.text.timing import time_document

DIGITS = 10
"""Number of digits after the first digit of the step time, counted in ticks."""
MAX_SPANS = 1_000_000
"""Maximum number of drawn spans: a page of about 15 MB, which opens within seconds."""
WAITS = ("nothing", "input", "launch", "turn")


class Texts(NamedTuple):
    """Tables of texts shared by all columns, for one step or several compared ones."""

    names: ValueTable[str]
    ops: ValueTable[str]
    shapes: ValueTable[str]

    @classmethod
    def none(cls) -> Texts:
        """Return empty tables."""
        return cls(ValueTable(), ValueTable(), ValueTable())

    def document(self) -> dict[str, Any]:
        """Return the tables as lists, in which each text is at its number."""
        return {key: list(table) for key, table in self._asdict().items()}


def span_count(study: TimeStudy) -> int:
    """Return the number of bars in the timeline."""
    return len(study.nodes) + len(study.transfers)


def timing_document(study: TimeStudy, top: int) -> dict[str, Any]:
    """Return all data of the page: the JSON report without long lists, tables with at most `top` rows, and the timeline.

    `study` must have its trace. Raises UsageError if there is too much to draw.
    """
    count = span_count(study)
    if count > MAX_SPANS:
        error = UsageError(
            f"step too large for a page: got {count:,} nodes and transfers in a step, expected at most {MAX_SPANS:,}"
        )
        error.help = ("`--format json` writes all of them",)
        raise error
    texts = Texts.none()
    return {
        **lanes_document(study, texts),
        **texts.document(),
        "top": top,
        "folded_path": [part._asdict() | {"scope": escape_line(part.scope)} for part in folded_path(study, top)],
        "dearest_nodes": [row._asdict() | {"node": escape_line(row.node)} for row in dearest_nodes(study, top)],
        "dearest_transfers": [row._asdict() | {"tensor": escape_line(row.tensor)} for row in dearest_transfers(study, top)],
    }


def lanes_document(study: TimeStudy, texts: Texts) -> dict[str, Any]:
    """Return the JSON report without long lists, and the timeline with texts as numbers in `texts`. `study` needs a trace."""
    assert study.trace is not None
    drawn = step_spans(study.trace)
    names = [device.device for device in study.devices]
    devices = {name: number for number, name in enumerate(names)}
    groups = [
        {
            "devices": [devices[name] for name in group.devices],
            "processor": group.processor,
            "lanes": [lane._asdict() for lane in group.lanes],
        }
        for group in drawn.groups
    ]
    order = sorted(range(len(drawn.spans)), key=lambda number: (drawn.spans[number].start, number))
    tick = _tick(study.step.seconds)
    # the columns of `spans` have the rows that are left out here
    facts = time_document(replace(study, nodes=(), transfers=(), critical_path=(), memory=()))
    if study.comparison is not None:
        facts["comparison"] = _comparison(study.comparison)
    return facts | {
        "graph": escape_line(study.name),
        "short": short_names(names),
        "groups": groups,
        "tick": tick,
        "waits": list(WAITS),
        **_columns(drawn, order, devices, tick, texts),
        "memory": [
            {
                "device": devices[curve.device],
                "times": _differences([round(seconds / tick) for seconds, _ in curve.changes]),
                "bytes": [held for _, held in curve.changes],
                "limit": curve.limit,
            }
            for curve in study.memory
        ],
    }


def _comparison(comparison: MeasuredComparison) -> dict[str, Any]:
    """Return the comparison with measured steps, and the sentences about nodes that are not compared one to one."""
    found = measured_document(comparison)
    texts = (replaced_text(comparison.nodes), *map(unmatched_text, comparison.unmatched))
    rows = {
        key: [row | {name: escape_line(row[name]) for name in ("node", "op") if name in row} for row in found[key]]
        for key in ("ops", "nodes")
    }
    return found | rows | {"unmatched": [], "sentences": [escape_line(text) for text in texts if text]}


def _tick(seconds: float) -> float:
    return 10.0 ** (math.floor(math.log10(seconds)) - DIGITS) if seconds > 0 else 1.0


def _differences(values: Sequence[int]) -> list[int]:
    return [value - before for value, before in zip(values, chain((0,), values), strict=False)]


def _columns(drawn: StepSpans, order: Sequence[int], devices: dict[str, int], tick: float, texts: Texts) -> dict[str, Any]:
    numbers = [-1] * len(order)
    for number, span in enumerate(order):
        numbers[span] = number
    spans = [drawn.spans[number] for number in order]
    lanes, costs = ValueTable[tuple[int, ...]](), ValueTable[tuple[Any, ...]]()
    starts = [round(span.start / tick) for span in spans]
    columns = {
        "name": [texts.names.number(escape_line(span.name)) for span in spans],
        "op": [texts.ops.number(span.op) for span in spans],
        "device": [devices[span.device] for span in spans],
        "lanes": [lanes.number((*span.lanes, -1 - span.host_lane)) for span in spans],
        "start": _differences(starts),
        "ticks": [max(0, round(span.end / tick) - start) for span, start in zip(spans, starts, strict=True)],
        # a launch comes before the run, and often ends when the run begins
        "launch_gap": [start - round(span.launch_end / tick) for span, start in zip(spans, starts, strict=True)],
        "launch_ticks": [round(span.launch_end / tick) - round(span.launch_start / tick) for span in spans],
        "cost": [costs.number(_cost(span, devices)) for span in spans],
        "shapes": [texts.shapes.number(_shapes(span)) for span in spans],
        "wait": [WAITS.index(span.begin.wait) for span in spans],
        "before": _relative((span.begin.span for span in spans), numbers),
        "launch_wait": [WAITS.index(span.launch.wait) for span in spans],
        "launch_before": _relative((span.launch.span for span in spans), numbers),
        "inputs": [len(span.inputs) for span in spans],
        "sources": [own - numbers[source] for own, span in enumerate(spans) for source in span.inputs],
    }
    return {
        "lane_sets": list(lanes),
        "costs": list(costs),
        "spans": columns,
        "path": [[numbers[part.span], int(part.is_launch), WAITS.index(part.wait)] for part in drawn.path],
    }


def _cost(span: StepSpan, devices: dict[str, int]) -> tuple[Any, ...]:
    """Return for a node its predicted seconds, low, high, and whether they are uncertain; for a transfer, bytes and sender."""
    if span.op:
        return span.seconds, span.low, span.high, int(span.is_uncertain)
    return span.bytes, devices[span.sender]


def _shapes(span: StepSpan) -> str:
    taken, made = (
        ", ".join(f"{dtype.name}[{','.join(map(str, dims))}]" for dims, dtype in side) for side in (span.taken, span.made)
    )
    return " → ".join(filter(None, (taken if span.op else "", made)))


def _relative(spans: Iterable[int], numbers: Sequence[int]) -> list[int | None]:
    """For each n, return `n - numbers[spans[n]]`, the distance back to that span; None if `spans[n]` is -1."""
    return [None if span < 0 else own - numbers[span] for own, span in enumerate(spans)]
