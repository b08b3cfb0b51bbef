"""Console for terminal output."""

from __future__ import annotations

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
"""Columns of names are not made narrower while another column can be left out."""
_BETWEEN = 2


def shared_widths(wanted: Sequence[int], room: int) -> list[int]:
    """Column widths that fit into `room`; the widest shrink first."""
    cap = max(wanted, default=0)
    while cap > 1 and sum(min(width, cap) for width in wanted) > room:
        cap -= 1
    return [min(width, cap) for width in wanted]


def make_console(stream: TextIO, buffer: TextIO) -> Console:
    """Console that writes terminal output to a buffer."""
    seen = Console(file=stream)
    return Console(
        file=buffer,
        width=seen.width,
        force_terminal=True,
        no_color=seen.no_color,
        color_system=seen.color_system or None,  # type: ignore[arg-type]
        highlight=False,
    )


def is_wrapping(stream: TextIO) -> bool:
    """Whether lines are wrapped: for a terminal, or if a width was requested; not in a pipe."""
    return stream.isatty() or "COLUMNS" in os.environ


def line_starts(text: str, width: int, indent: int = 0) -> list[int]:
    """Positions at which a text is broken so that no line is wider, with `indent` columns before each but the first.

    That is between words; in a word that no line could hold, behind a sign that names are joined by, or before a capital
    letter; elsewhere only in what is too long even so.
    """
    starts: list[int] = []
    room = max(1, width)

    def take(start: int, end: int, used: int) -> int:
        """Columns of the line that are used with this part appended; the part starts a line if it does not fit."""
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
    """Possible breaks of a word; none if it fits."""
    if end - start <= room:
        yield start, end
        return
    for part in _JOINED.finditer(text, start, end):
        if len(part[0]) <= room:
            yield part.span()
        else:
            yield from (piece.span() for piece in _CAPITALS.finditer(text, *part.span()))


def wrap_text(text: Text, width: int, indent: int = 0) -> Iterator[Text]:
    """Lines of a text; all but the first are indented."""
    for number, line in enumerate(text.divide(line_starts(text.plain, width, indent))):
        line.rstrip()
        yield Text(" " * indent).append_text(line) if number else line


class Column(NamedTuple):
    """A table column: long names may be wrapped, and the least important columns are dropped first if there is no room."""

    title: str
    is_number: bool = False
    is_name: bool = False
    missed: int = 0


def fit_table(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> Table:
    """Rows under headings, fitted to the width: numbers in full, names in the remaining room."""
    shown = list(range(len(columns)))
    wanted = [max([len(column.title), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]

    def names() -> list[int]:
        return [i for i in shown if columns[i].is_name]

    def room() -> int:
        return width - sum(wanted[i] for i in shown if not columns[i].is_name) - _BETWEEN * (len(shown) - 1)

    while room() < sum(min(LEAST_NAME, wanted[i]) for i in names()) and any(columns[i].missed for i in shown):
        shown.remove(min((i for i in shown if columns[i].missed), key=lambda i: columns[i].missed))
    widths = dict(enumerate(wanted)) | dict(zip(names(), shared_widths([wanted[i] for i in names()], room()), strict=True))
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _BETWEEN, 0, 0))
    for i in shown:
        found.add_column(columns[i].title, width=widths[i], justify="right" if columns[i].is_number else "left", no_wrap=True)
    for row in rows:
        found.add_row(*(Text("\n").join(wrap_text(row[i], widths[i])) for i in shown))
    return found


def facts_lines(parts: Sequence[Text], width: int) -> Iterator[Text]:
    """Parts side by side, continued on further lines if needed."""
    line = Text()
    for part in parts:
        if line and len(line) + len(_GAP) + len(part) > width:
            yield line
            line = Text("  ")
        elif line:
            line.append(_GAP)
        line.append_text(part)
    yield line
