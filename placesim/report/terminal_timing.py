"""A study of time -> what a person at a terminal sees: the step's time, each device's lane, and what it goes into."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.escapes import escape_line
from placesim.prediction.study import TimeStudy, copies_lane, dearest_nodes, dearest_transfers, folded_path, lane
from placesim.report.terminal_blocks import as_encoded, blocks_line, shades_line
from placesim.report.terminal_console import console_into, facts_lines
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.timing import device_labels

MIN_LANE, MAX_LANE = 8, 150
IDLE = "·"


def styled_timing(study: TimeStudy, stream: TextIO, top: int) -> str:
    """The step time in a line with what bounds it, the devices, the links, the critical path, and what costs most."""
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    for line in _head(study):
        console.print(line, soft_wrap=True)
    console.print()
    for line in _lanes(study, console.width):
        console.print(line, soft_wrap=True)
    tables = (_links(study), _path(study, top), _nodes(study, top), _transfers(study, top), _helps(study, top))
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


def _lanes(study: TimeStudy, width: int) -> Iterator[Text]:
    """For each device its facts, then what it computed and what it copied over the step's time."""
    labels, whole = device_labels(study), study.step.seconds
    heads = ["  computes ", "  copies   "]
    cells = max(MIN_LANE, min(MAX_LANE, width - len(heads[0])))
    for device in study.devices:
        memory = Text(f"memory {_size(device.peak)}")
        if device.limit is not None:
            memory.append(f" of {readable_size(device.limit)}")
            if (device.peak or 0) > device.limit:
                memory.stylize("bold red")
        facts = [Text(f"busy {_percent(device.busy, whole)}")]
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
    """A lane; what is idle has a point, so that its length is seen."""
    found = Text(head, "dim")
    for part in re.split("( +)", drawn):
        found.append(part.replace(" ", IDLE), "dim" if part.startswith(" ") else style)
    return found


def _scale(indent: int, cells: int, seconds: float) -> Text:
    """The times at both ends of the lanes and, where there is room, at their middle."""
    ends = "0", readable_seconds(seconds / 2), readable_seconds(seconds)
    middle = cells // 2 - len(ends[0])
    if len(ends[1]) + len(ends[2]) + 2 > cells - middle:
        return Text(" " * indent + ends[0] + ends[2].rjust(cells - len(ends[0])), "dim")
    rest = cells - len(ends[0]) - middle - len(ends[1])
    return Text(" " * indent + ends[0] + " " * middle + ends[1] + ends[2].rjust(rest), "dim")


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
