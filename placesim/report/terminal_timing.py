"""A study of time -> what a person at a terminal sees: the step's time, each device's lane, and what it goes into."""

from __future__ import annotations

import io
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.escapes import escape_line
from placesim.prediction.study import TimeStudy, dearest_nodes, dearest_transfers, folded_path, lane
from placesim.report.terminal_blocks import as_encoded, blocks_line
from placesim.report.terminal_console import console_into
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.timing import device_labels

MAX_LANE = 60


def styled_timing(study: TimeStudy, stream: TextIO, top: int) -> str:
    """The step time in a line with what bounds it, the devices, the links, the critical path, and what costs most."""
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    for line in _head(study):
        console.print(line, soft_wrap=True)
    tables = (
        _devices(study, console.width),
        _links(study),
        _path(study, top),
        _nodes(study, top),
        _transfers(study, top),
        _helps(study, top),
    )
    for table in tables:
        if table.row_count:
            console.print()
            console.print(table)
    console.print()
    for sentence in study.assumptions:
        console.print(Text(escape_line(sentence), "dim"), soft_wrap=True)
    return as_encoded(buffer.getvalue(), stream)


def _head(study: TimeStudy) -> list[Text]:
    step, bound = study.step, study.bound
    head = Text("step ").append(readable_seconds(step.seconds), "bold")
    head.append(f" ({readable_seconds(step.low)} to {readable_seconds(step.high)})")
    if step.seconds:
        head.append(f"   never below {readable_seconds(bound.seconds)} ({bound.seconds / step.seconds:.0%}): {bound.what}")
    lines = [head]
    for row in study.steps:
        text = f"step {row.number}: {row.repeat:,} x {readable_seconds(row.seconds)}"
        if row.first_seconds != row.seconds:
            text += f", the first {readable_seconds(row.first_seconds)}"
        lines.append(Text(text, "dim"))
    return lines


def _table(title: str, *columns: str) -> Table:
    """A column whose name begins with `>` is of numbers."""
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0), title=None)
    found.add_column(title, no_wrap=True, overflow="ellipsis", max_width=44)
    for column in columns:
        found.add_column(
            column.removeprefix(">"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=24,
        )
    return found


def _row(table: Table, first: str, *cells: str) -> None:
    table.add_row(Text(escape_line(first)), *(Text(escape_line(cell)) for cell in cells))


def _devices(study: TimeStudy, width: int) -> Table:
    labels, whole = device_labels(study), study.step.seconds
    cells = max(8, min(MAX_LANE, width - 88))
    found = _table("device", "", ">busy", ">copies", ">in", ">out", ">memory", ">limit")
    found.columns[1].max_width = None
    for device in study.devices:
        drawn = Text(blocks_line(lane(study, device.device, cells), 1.0), "green")
        sizes = (readable_size(device.bytes_in), readable_size(device.bytes_out), _size(device.peak), _size(device.limit))
        style = "bold red" if device.limit is not None and (device.peak or 0) > device.limit else ""
        found.add_row(
            Text(f"{labels[device.device]} {device.processor}"),
            drawn,
            _percent(device.busy, whole),
            readable_seconds(device.copies) if device.copies else "-",
            *sizes[:2],
            Text(sizes[2], style),
            sizes[3],
        )
    return found


def _links(study: TimeStudy) -> Table:
    found = _table("link", ">bytes", ">in use")
    for link in study.links:
        if link.bytes:
            _row(found, link.name, readable_size(int(link.bytes)), _percent(link.busy, study.step.seconds))
    return found


def _path(study: TimeStudy, top: int) -> Table:
    found = _table("critical path", "of", ">parts", ">time", ">share")
    for part in folded_path(study, top):
        shown = readable_seconds(part.seconds), _percent(part.seconds, study.step.seconds)
        _row(found, part.scope, part.kind, f"{part.number:,}", *shown)
    return found


def _nodes(study: TimeStudy, top: int) -> Table:
    labels = device_labels(study)
    found = _table("node", "op", "device", ">runs", ">time", ">low", ">high")
    for node in dearest_nodes(study, top):
        times = [readable_seconds(seconds) + "?" * node.is_uncertain for seconds in (node.seconds, node.low, node.high)]
        _row(found, node.node, node.op, labels[node.device], f"{node.number:,}", *times)
    return found


def _transfers(study: TimeStudy, top: int) -> Table:
    labels = device_labels(study)
    found = _table("transfer", "from", "to", ">bytes", ">time")
    for run in dearest_transfers(study, top):
        _row(
            found,
            run.tensor,
            labels[run.sender],
            labels[run.receiver],
            readable_size(run.bytes),
            readable_seconds(run.end - run.start),
        )
    return found


def _helps(study: TimeStudy, top: int) -> Table:
    found = _table("if this took no time", "", ">step", ">saved")
    for row in study.helps[:top]:
        saved = _percent(study.step.seconds - row.seconds, study.step.seconds)
        _row(found, row.what, row.kind, readable_seconds(row.seconds), saved)
    return found


def _size(value: int | None) -> str:
    return "-" if value is None else readable_size(value)


def _percent(seconds: float, whole: float) -> str:
    return f"{seconds / whole:.1%}" if whole else "-"
