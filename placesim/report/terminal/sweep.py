"""A sweep as a table for terminals: a line for each combination."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.text import Text

from placesim.core.escaping import escape_line
from placesim.prediction.sweep_rows import RESULTS, Sweep, SweepRow, find_best_row
from placesim.report.terminal.console import make_console, print_wrapped, printed_text
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.sweep import best_reason, short_peak_device
from placesim.report.text.tables import NOTHING

_TITLES = {
    "seconds": "step time",
    "examples_per_second": "examples/s",
    "peak_device": "device",
    "peak_bytes": "peak",
    "limit_bytes": "limit",
    "transfer_bytes": "bytes",
    "bound_share": "share",
}
"""Titles of columns whose names in a pipe are long."""
_LEFT_OUT = (
    *("bound_share", "transfers", "peak_device", "low", "high", "transfer_bytes"),
    *("bound", "limit_bytes", "peak_bytes", "examples_per_second"),
)
"""Columns that a narrow terminal leaves out, the least important first."""
_GAP = "  "
_LONGEST = 300
_UNPLACED = re.compile(r"Cannot assign a device for operation \S+: (?:node )?(.+?) but available devices are .*", re.DOTALL)
"""The placer's most common error; the colocation group is the reason."""


def styled_sweep(sweep: Sweep, stream: TextIO, columns: Sequence[str] = ()) -> str:
    """Return a table with a row for each combination; `*` marks the best one, and each error is below the table in full.

    `columns` are the results to show; by default, as many as fit the width, without empty ones.
    """
    console = make_console(stream)
    best, cells = find_best_row(sweep.rows), [_cells(row) for row in sweep.rows]
    known = [name for name in RESULTS if name != "error" and any(shown[name] != NOTHING for shown in cells)]
    settings = [["*" if row is best else "", *map(_setting, row.settings)] for row in sweep.rows]
    left = _Grid(["", *sweep.keys], settings)
    shown = list(columns) or known
    right = _Grid.of(shown, cells)
    for name in _LEFT_OUT if not columns else ():
        if left.width + right.width + len(_GAP) > console.width and name in shown:
            shown.remove(name)
            right = _Grid.of(shown, cells)
    console.print(Text(f"{left.line(None)}{_GAP}{right.line(None)}".rstrip(), "bold"), soft_wrap=True)
    for number, row in enumerate(sweep.rows):
        line = left.line(number) + _GAP
        line += right.line(number) if row.seconds is not None else _reason(row, max(20, console.width - len(line)))
        style = "red" if not row.fits else "bold green" if row is best else ""
        console.print(Text(line.rstrip(), style), soft_wrap=True)
    if best is not None:
        print_wrapped(console, Text(f"* {best_reason(best)} of the combinations that fit", "dim"))
    errors: dict[str, int] = {}
    for row in sweep.rows:
        if row.error is not None:
            errors[row.error] = errors.get(row.error, 0) + 1
    for error, count in errors.items():
        print_wrapped(console, Text(f"{count} of {len(sweep.rows)}: {_shortened(escape_line(error), _LONGEST)}"), 2)
    return printed_text(console)


class _Grid:
    """Neighbouring columns of the table; numbers are aligned right."""

    def __init__(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._rows = [titles, *rows]
        self._widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        self._are_numbers = [
            bool(title) and all(row[i][:1].isdigit() or row[i] == NOTHING for row in rows) for i, title in enumerate(titles)
        ]
        self.width = sum(self._widths) + len(_GAP) * (len(self._widths) - 1)

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> _Grid:
        """Return the grid of the results with these names."""
        return cls([_TITLES.get(name, name) for name in names], [[row[name] for name in names] for row in rows])

    def line(self, number: int | None) -> str:
        """Return the line of a row, or of the titles if `number` is None."""
        row = self._rows[0 if number is None else number + 1]
        cells = zip(row, self._widths, self._are_numbers, strict=True)
        return _GAP.join(cell.rjust(width) if is_number else cell.ljust(width) for cell, width, is_number in cells)


def _reason(row: SweepRow, room: int) -> str:
    """Return the reason for which a combination failed, in at most `room` characters."""
    message = (row.error or "").partition(": ")[2]
    return _shortened(escape_line(_UNPLACED.sub(r"\1", message)), room)


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _setting(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else escape_line(str(value))


def _cells(row: SweepRow) -> dict[str, str]:
    """Return each result as text."""
    device = short_peak_device(row)
    texts: dict[str, Callable[[Any], str]] = {
        **dict.fromkeys(("seconds", "low", "high"), readable_seconds),
        **dict.fromkeys(("peak_bytes", "limit_bytes", "transfer_bytes"), readable_size),
        "examples_per_second": "{:.4g}".format,
        "bound_share": "{:.0%}".format,
        "fits": lambda fits: "yes" if fits else f"no: {device} is full",
        "peak_device": lambda _: str(device),
    }
    found = row._asdict()
    return {name: NOTHING if (value := found[name]) is None else texts.get(name, str)(value) for name in RESULTS}
