"""The console behind what is written to a terminal.  Rich obeys NO_COLOR, FORCE_COLOR and COLUMNS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

_GAP = "   "


def shared_widths(wanted: Sequence[int], room: int) -> list[int]:
    """The widths of columns that have so much room together: the widest give way first."""
    cap = max(wanted, default=0)
    while cap > 1 and sum(min(width, cap) for width in wanted) > room:
        cap -= 1
    return [min(width, cap) for width in wanted]


def console_into(stream: TextIO, buffer: TextIO) -> Console:
    """A console that writes into a buffer what it would write to a terminal."""
    seen = Console(file=stream)
    return Console(
        file=buffer,
        width=seen.width,
        force_terminal=True,
        no_color=seen.no_color,
        color_system=seen.color_system or None,  # type: ignore[arg-type]
        highlight=False,
    )


def facts_lines(parts: Sequence[Text], width: int) -> Iterator[Text]:
    """The parts beside each other, and on further lines where there is no room."""
    line = Text()
    for part in parts:
        if line and len(line) + len(_GAP) + len(part) > width:
            yield line
            line = Text("  ")
        elif line:
            line.append(_GAP)
        line.append_text(part)
    yield line
