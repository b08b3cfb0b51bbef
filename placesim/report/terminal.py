"""What a person at a terminal sees: the same text with colour, and tables.  Rich obeys NO_COLOR, FORCE_COLOR and COLUMNS."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from placesim.report.report import Report
from placesim.report.results import format_results
from placesim.report.terminal_console import console_into

MAX_STYLED_LINES = 5000
"""A longer log is printed plain: styling it would take longer than placing the graph."""
_LOG_LINE = re.compile(r"(?P<node>[^\s:]+:)(?P<op> \([^)]*\):)? (?P<device>/job:\S+)")
_TYPE_STYLES = (("GPU", "green"), ("cpu", "cyan"), ("CPU", "cyan"))


def styled_text(report: Report, stream: TextIO) -> str:
    """The report's text with nodes, ops and devices in colour; results as they are."""
    log = report.log()
    results = format_results(report.results, report.style == "classic")
    lines = log.splitlines()
    if len(lines) > MAX_STYLED_LINES:
        return log + results
    return _rendered(map(_styled_line, lines), stream) + results


def _styled_line(line: str) -> Text:
    text = Text(line)
    if line.startswith("Device mapping:"):
        text.stylize("bold")
    found = _LOG_LINE.fullmatch(line)
    if found is not None:
        text.stylize("bold", *found.span("node"))
        if found["op"]:
            text.stylize("dim", *found.span("op"))
        text.stylize(_device_style(found["device"]), *found.span("device"))
    return text


def _device_style(device: str) -> str:
    kind = device.rpartition("/")[2]
    return next((style for word, style in _TYPE_STYLES if word in kind), "magenta")


def styled_error(text: str, stream: TextIO) -> str:
    """An error with its class in red and its help dimmed."""
    first, *rest = text.splitlines()
    head = Text(first)
    head.stylize("bold red", 0, first.find(":") + 1)
    return _rendered((head, *(Text(line, "dim") for line in rest)), stream)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> str:
    """Rows under their heads; numbers stand to the right."""
    found = Table(box=None, header_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        is_number = bool(rows) and all(row[index].isdigit() for row in rows)
        found.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        found.add_row(*map(Text, row))
    buffer = io.StringIO()
    console_into(stream, buffer).print(found)
    return buffer.getvalue()


def progress_bar(stream: TextIO) -> Progress:
    """A bar for each of steps and nodes, which disappears when it is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(file=stream), transient=True)


def _rendered(lines: Iterable[Text], stream: TextIO) -> str:
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    for line in lines:
        console.print(line, soft_wrap=True)
    return buffer.getvalue()
