"""Output for terminals: the same text with colour, and tables. Rich obeys NO_COLOR, FORCE_COLOR and COLUMNS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Group
from rich.table import Table
from rich.text import Text

from placesim.core.escaping import escape_line
from placesim.core.styled_text import Role, StyledText, TextSpan, lines_of
from placesim.report.report import Report
from placesim.report.terminal.console import (
    BETWEEN,
    is_wrapping,
    make_console,
    printed_text,
    shared_widths,
    wrap_text,
)

MAX_STYLED_LINES = 5000
"""Maximum lines of a log with colour: styling a longer log would take longer than placing the graph."""
TEXT_WIDTH = 24
"""Minimum width of a column with sentences."""
MAX_PARAGRAPHS = 40
"""Maximum number of rows that become paragraphs on a narrow terminal. In a longer table, cells are folded."""
_STYLES = {
    Role.PLAIN: "",
    Role.NODE: "bold",
    Role.OP: "dim",
    Role.GPU: "green",
    Role.CPU: "cyan",
    Role.DEVICE: "magenta",
    Role.PLACE: "blue",
    Role.HEAD: "bold",
    Role.TERM: "dim",
    Role.RULE: "bold red",
    Role.ERROR: "bold red",
    Role.HELP: "dim",
    Role.GONE: "red",
    Role.NEW: "green",
}


def styled_log(report: Report, stream: TextIO) -> str:
    """Return the report's log with nodes, ops and devices in colour."""
    log = report.log()
    return styled(report.marked_log(), stream) if log.count("\n") <= MAX_STYLED_LINES else log


def styled(text: StyledText, stream: TextIO, *, is_fitted: bool = False) -> str:
    """Return the text in colour, or unchanged if it has very many lines.

    With `is_fitted`, lines are wrapped between words to the terminal's width, with a hanging indent.
    """
    if text.count("\n") > MAX_STYLED_LINES:
        return text
    console = make_console(stream)
    is_fitted = is_fitted and is_wrapping(stream)
    for line in lines_of(text):
        shown = Text.assemble(*((span.text, _STYLES[span.role]) for span in line))
        for part in wrap_text(shown, console.width, _hanging(line, console.width)) if is_fitted else (shown,):
            console.print(part, soft_wrap=True)
    return printed_text(console)


def _hanging(line: Sequence[TextSpan], width: int) -> int:
    """Return the indentation of continuation lines: after the term, or slightly deeper than the start."""
    behind = 0
    for span in line:
        behind += len(span.text)
        if span.role is Role.TERM:
            break
        if span.text.strip():
            plain = "".join(part.text for part in line)
            behind = len(plain) - len(plain.lstrip()) + 2
            break
    return min(behind, width // 3)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> str:
    """Return a table with the rows under their headings; numbers are aligned right.

    Cells break at blanks. If the table is still too wide, a few rows become paragraphs, with the first cell as heading.
    """
    console = make_console(stream)
    cells = [[column, *(row[i] for row in rows)] for i, column in enumerate(columns)]
    least = list(map(_least_width, cells))
    room = console.width - BETWEEN * (len(least) - 1)
    if sum(least) > room and len(rows) <= MAX_PARAGRAPHS:
        console.print(_paragraphs(columns, rows))
        return printed_text(console)
    more = [max(map(len, column)) - width for column, width in zip(cells, least, strict=True)]
    more = shared_widths(more, room - sum(least)) if sum(least) <= room else [0] * len(more)
    widths = shared_widths([width + added for width, added in zip(least, more, strict=True)], room)
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, BETWEEN, 0, 0))
    for (column, *texts), width in zip(cells, widths, strict=True):
        is_number = bool(texts) and all(map(str.isdigit, texts))
        heading = Text("\n").join(wrap_text(Text(column), width))
        found.add_column(heading, justify="right" if is_number else "left", overflow="fold", width=width)
    for row in rows:
        found.add_row(*(Text(escape_line(cell)) for cell in row))
    console.print(found)
    return printed_text(console)


def _least_width(cells: Sequence[str]) -> int:
    """Return the minimum width of a column: sentences and headings may be broken between words, names and numbers may not."""
    is_text = any(" " in cell for cell in cells[1:])
    heading = cells[0].replace("_", "_ ").split()
    words = max(map(len, [*heading, *(word for cell in cells[1:] for word in (cell.split() if is_text else [cell]))]))
    return max(words, min(TEXT_WIDTH, max(map(len, cells)))) if is_text else words


def _paragraphs(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Group:
    found: list[Text | Table] = []
    for name, *cells in rows:
        found.append(Text(escape_line(name), "bold", overflow="fold"))
        facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        facts.add_column(no_wrap=True)
        facts.add_column(overflow="fold")
        for column, cell in zip(columns[1:], cells, strict=True):
            if cell:
                facts.add_row(Text(f"  {column}", "dim"), Text(escape_line(cell)))
        found.append(facts)
    return Group(*found)
