"""Line wrapping and tables for terminals."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = "   "
_WORD = re.compile(r"\S+\s*|\s+")
_JOINED = re.compile(r"[^/_:,;=.-]*[/_:,;=.-]*")
_CAPITALS = re.compile(r"[A-Z]*[^A-Z]*")
LEAST_NAME = 20
"""Minimum width of a column of names. If there is less room, optional columns are left out."""
BETWEEN = 2
"""Number of blanks between the columns of a table."""


def shared_widths(wanted: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit into `room`; the widest columns are reduced first."""
    cap = max(wanted, default=0)
    while cap > 1 and sum(min(width, cap) for width in wanted) > room:
        cap -= 1
    return [min(width, cap) for width in wanted]


def make_console(stream: TextIO) -> Console:
    """Return a console that collects output for the terminal `stream`; `printed_text` returns the output."""
    seen = Console(file=stream)
    return Console(
        file=io.StringIO(),
        width=seen.width,
        force_terminal=True,
        force_jupyter=False,
        no_color=seen.no_color,
        color_system=seen.color_system or None,  # type: ignore[arg-type]
        highlight=False,
    )


def printed_text(console: Console) -> str:
    """Return all output of a console from `make_console`."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def is_wrapping(stream: TextIO) -> bool:
    """Whether lines are wrapped: for a terminal, or if a width was requested; not in a pipe."""
    return stream.isatty() or "COLUMNS" in os.environ


def line_starts(text: str, width: int, indent: int = 0) -> list[int]:
    """Return the positions at which to break a text so that no line is wider; continuation lines are indented by `indent`.

    Lines break between words. A word that is too long for a line breaks after a separator or before a capital letter, and
    otherwise anywhere.
    """
    starts: list[int] = []
    room = max(1, width)

    def take(start: int, end: int, used: int) -> int:
        """Return the used columns of the line after adding a part; start a new line if the part does not fit."""
        nonlocal room
        if used + end - start > room and used:
            starts.append(start)
            room, used = max(1, width - indent), 0
        while end - start > room:
            start += room
            starts.append(start)
            room = max(1, width - indent)
        return used + end - start

    used = 0
    for word in _WORD.finditer(text):
        end = word.start() + len(word[0].rstrip())
        for start, stop in _parts(text, word.start(), end, max(1, width - indent)):
            used = take(start, stop, used)
        used += word.end() - end
    return starts


def _parts(text: str, start: int, end: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield the parts between which a word may be broken; the whole word if it fits."""
    if end - start <= room:
        yield start, end
        return
    for part in _JOINED.finditer(text, start, end):
        if len(part[0]) <= room:
            yield part.span()
        else:
            yield from (piece.span() for piece in _CAPITALS.finditer(text, *part.span()))


def wrap_text(text: Text, width: int, indent: int = 0) -> Iterator[Text]:
    """Yield the lines of a text; all but the first are indented."""
    for number, line in enumerate(text.divide(line_starts(text.plain, width, indent))):
        line.rstrip()
        yield Text(" " * indent).append_text(line) if number else line


def print_wrapped(console: Console, text: Text, indent: int = 0) -> None:
    """Print a text, wrapped to the console's width; all lines but the first are indented."""
    for line in wrap_text(text, console.width, indent):
        console.print(line, soft_wrap=True)


class Column(NamedTuple):
    """A table column. Names may be wrapped. Without room, columns with a nonzero `missed` are left out, lowest first."""

    title: str
    is_number: bool = False
    is_name: bool = False
    missed: int = 0


def fit_table(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> Table:
    """Return a table that fits the width: numbers in full, names in the remaining room."""
    shown = list(range(len(columns)))
    wanted = [max([len(column.title), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]

    def names() -> list[int]:
        return [i for i in shown if columns[i].is_name]

    def room() -> int:
        return width - sum(wanted[i] for i in shown if not columns[i].is_name) - BETWEEN * (len(shown) - 1)

    while room() < sum(min(LEAST_NAME, wanted[i]) for i in names()) and any(columns[i].missed for i in shown):
        shown.remove(min((i for i in shown if columns[i].missed), key=lambda i: columns[i].missed))
    widths = dict(enumerate(wanted)) | dict(zip(names(), shared_widths([wanted[i] for i in names()], room()), strict=True))
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, BETWEEN, 0, 0))
    for i in shown:
        found.add_column(columns[i].title, width=widths[i], justify="right" if columns[i].is_number else "left", no_wrap=True)
    for row in rows:
        found.add_row(*(Text("\n").join(wrap_text(row[i], widths[i])) for i in shown))
    return found


def facts_lines(parts: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield lines of parts; each line has as many parts side by side as fit its width."""
    line = Text()
    for part in parts:
        if line and len(line) + len(_GAP) + len(part) > width:
            yield line
            line = Text("  ")
        elif line:
            line.append(_GAP)
        line.append_text(part)
    yield line
