"""A study of time for terminals: step time, a lane (row) of activity for each device, and the breakdown of the time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from rich.text import Text

from placesim.core.escaping import escape_line
from placesim.prediction.measured_comparison import MeasuredComparison
from placesim.prediction.time_breakdown import TimeStudy, copies_lane, dearest_nodes, dearest_transfers, folded_path, lane
from placesim.report.terminal.block_chart import blocks_line, encode_for, shades_line
from placesim.report.terminal.console import Column, facts_lines, fit_table, make_console, print_wrapped, printed_text
from placesim.report.text.amounts import distinct_sizes, readable_operations, readable_seconds, readable_size
from placesim.report.text.measured import replaced_text, unmatched_text
from placesim.report.text.timing import device_labels

MIN_LANE, MAX_LANE = 8, 150
_COMPARED = (("measured op", (">nodes",)), ("measured node", ("/op", "-device")))
"""Titles of the tables of compared ops and nodes, and titles of the first columns."""
IDLE = "·"
_INDENT = 2
"""Indentation of continuation lines."""


def styled_timing(study: TimeStudy, stream: TextIO, top: int) -> str:
    """Return the step time with its bound, devices, links, critical path and costliest nodes."""
    console = make_console(stream)
    for text in _head(study):
        print_wrapped(console, text, _INDENT)
    console.print()
    for line in _lanes(study, console.width):
        console.print(line, soft_wrap=True)
    if study.comparison is not None:
        console.print()
        for line in _measured_head(study.comparison):
            print_wrapped(console, line, _INDENT)
    tables = (
        *_measured(study, top),
        _bounds(study),
        _links(study),
        _path(study, top),
        _nodes(study, top),
        _transfers(study, top),
        _helps(study, top),
    )
    for table in tables:
        if table.rows:
            console.print()
            console.print(fit_table(table.columns, table.rows, console.width))
    console.print()
    for sentence in study.assumptions:
        print_wrapped(console, Text(escape_line(sentence), "dim"), _INDENT)
    return encode_for(printed_text(console), stream)


def _head(study: TimeStudy) -> list[Text]:
    step, bound = study.step, study.bound
    head = Text("step ").append(readable_seconds(step.seconds), "bold")
    head.append(f" ({readable_seconds(step.low)} to {readable_seconds(step.high)})")
    if step.seconds:
        head.append(f"   lower bound {readable_seconds(bound.seconds)} ({bound.seconds / step.seconds - 1:z.0%}): {bound.what}")
    lines = [head]
    for row in study.steps:
        text = f"step {row.number}: {row.repeat:,} x {readable_seconds(row.seconds)}"
        if row.first_seconds != row.seconds:
            text += f", first run {readable_seconds(row.first_seconds)}"
        lines.append(Text(text, "dim"))
    return lines


class _Table:
    """A table whose column titles begin with signs: `>` marks numbers, `/` names, `-` columns that may be left out."""

    def __init__(self, *titles: str) -> None:
        signs = [title[: len(title) - len(title.lstrip(">/-"))] for title in titles]
        self.columns = [
            Column(title[len(sign) :], ">" in sign, "/" in sign, number if "-" in sign else 0)
            for number, (title, sign) in enumerate(zip(titles, signs, strict=True), 1)
        ]
        self.rows: list[list[Text]] = []

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append([Text(escape_line(cell)) for cell in cells])


def _lanes(study: TimeStudy, width: int) -> Iterator[Text]:
    """Yield facts about each device, then its lanes (rows) of computation and copies over the step."""
    labels, whole = device_labels(study), study.step.seconds
    heads = ["  computes ", "  copies   "]
    cells = max(MIN_LANE, min(MAX_LANE, width - len(heads[0])))
    for device in study.devices:
        peak, limit = distinct_sizes(device.peak or 0, device.limit or 0)
        memory = Text(f"memory {'-' if device.peak is None else peak}")
        if device.limit is not None:
            memory.append(f" of {limit}")
            if (device.peak or 0) > device.limit:
                memory.stylize("bold red")
        facts = [Text(f"busy {_percent(device.busy, whole)}")]
        if device.operations:
            facts.append(Text(f"{readable_operations(device.operations)}  MFU {_percent(device.peak_seconds, whole)}"))
        if device.copies:
            facts.append(Text(f"copies {readable_seconds(device.copies)}"))
        if device.bytes_in or device.bytes_out:
            facts.append(Text(f"in {readable_size(device.bytes_in)}  out {readable_size(device.bytes_out)}"))
        first = Text.assemble((labels[device.device], "bold"), "  ", escape_line(device.processor))
        yield from facts_lines([first, *facts, memory], width)
        yield _lane(heads[0], blocks_line(lane(study, device.device, cells), 1.0), "green")
        if device.copies:
            yield _lane(heads[1], shades_line(copies_lane(study, device.device, cells)), "yellow")
    yield _scale(len(heads[0]), cells, whole)


def _lane(head: str, drawn: str, style: str) -> Text:
    """Return a lane with dots for idle time, so that its length is visible."""
    found = Text(head, "dim")
    for part in re.split("( +)", drawn):
        found.append(part.replace(" ", IDLE), "dim" if part.startswith(" ") else style)
    return found


def _scale(indent: int, cells: int, seconds: float) -> Text:
    """Return a line with the times at both ends of the lanes and, if there is room, in the middle."""
    ends = "0", readable_seconds(seconds / 2), readable_seconds(seconds)
    middle = cells // 2 - len(ends[0])
    if len(ends[1]) + len(ends[2]) + 2 > cells - middle:
        return Text(" " * indent + ends[0] + ends[2].rjust(cells - len(ends[0])), "dim")
    rest = cells - len(ends[0]) - middle - len(ends[1])
    return Text(" " * indent + ends[0] + " " * middle + ends[1] + ends[2].rjust(rest), "dim")


def _bounds(study: TimeStudy) -> _Table:
    found = _Table("/lower bound", ">time", ">share")
    for bound in study.bounds:
        found.add(bound.what, readable_seconds(bound.seconds), _percent(bound.seconds, study.step.seconds))
    return found


def _links(study: TimeStudy) -> _Table:
    found = _Table("/link", ">bytes", ">time", ">use")
    for link in study.links:
        if link.bytes:
            use = _percent(link.busy, study.step.seconds)
            found.add(link.name, readable_size(int(link.bytes)), readable_seconds(link.busy), use)
    return found


def _path(study: TimeStudy, top: int) -> _Table:
    found = _Table("/critical path", "of", ">parts", ">time", ">share")
    for part in folded_path(study, top):
        shown = readable_seconds(part.seconds), _percent(part.seconds, study.step.seconds)
        found.add(part.scope, part.kind, f"{part.number:,}", *shown)
    return found


def _nodes(study: TimeStudy, top: int) -> _Table:
    labels = device_labels(study)
    found = _Table("/node", "/op", "device", ">-runs", ">time", ">-low", ">-high")
    for node in dearest_nodes(study, top):
        times = [readable_seconds(seconds) + "?" * node.is_uncertain for seconds in (node.seconds, node.low, node.high)]
        found.add(node.node, node.op, labels[node.device], f"{node.number:,}", *times)
    return found


def _transfers(study: TimeStudy, top: int) -> _Table:
    labels = device_labels(study)
    found = _Table("/transfer", "from", "to", ">bytes", ">-start", ">time")
    for run in dearest_transfers(study, top):
        found.add(
            run.tensor,
            labels[run.sender],
            labels[run.receiver],
            readable_size(run.bytes),
            readable_seconds(run.start),
            readable_seconds(run.end - run.start),
        )
    return found


def _helps(study: TimeStudy, top: int) -> _Table:
    found = _Table("/if this were free", "", ">step", ">saved")
    for row in study.helps[:top]:
        saved = _percent(study.step.seconds - row.seconds, study.step.seconds)
        found.add(row.what, row.kind, readable_seconds(row.seconds), saved)
    return found


def _measured_head(comparison: MeasuredComparison) -> Iterator[Text]:
    """Yield the measured time of the step, and the nodes that are not compared one to one."""
    steps = "" if comparison.steps == 1 else f", the median of {comparison.steps:,} steps"
    head = Text("measured ").append(readable_seconds(comparison.measured), "bold").append(f" in {comparison.format}{steps}")
    yield head.append(f"; predicted {_times(comparison.predicted, comparison.measured)}")
    yield Text(f"{comparison.matched_share:.1%} of the measured time of nodes has a prediction", "dim")
    sentences = replaced_text(comparison.nodes), *map(unmatched_text, comparison.unmatched)
    yield from (Text(escape_line(sentence), "dim") for sentence in sentences if sentence)


def _measured(study: TimeStudy, top: int) -> Iterator[_Table]:
    """Yield the tables of compared ops and nodes."""
    comparison = study.comparison
    if comparison is None:
        return
    labels, whole = device_labels(study), comparison.node_seconds
    ops, nodes = (_Table(f"/{what}", *more, ">predicted", ">measured", ">ratio", ">-share") for what, more in _COMPARED)
    for op in comparison.ops[:top]:
        times = readable_seconds(op.predicted), readable_seconds(op.measured), _times(op.predicted, op.measured)
        ops.add(op.op, f"{op.nodes:,}", *times, _percent(op.measured, whole))
    for node in comparison.nodes[:top]:
        times = readable_seconds(node.predicted), readable_seconds(node.measured), _times(node.predicted, node.measured)
        nodes.add(node.node, node.op, labels[node.device], *times, _percent(node.measured, whole))
    yield ops
    yield nodes


def _times(predicted: float, measured: float) -> str:
    return f"{predicted / measured:.3g} x" if measured else "-"


def _percent(seconds: float, whole: float) -> str:
    return f"{seconds / whole:.1%}" if whole else "-"
