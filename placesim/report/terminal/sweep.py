"""A sweep as a table for terminals."""

from __future__ import annotations

from typing import TextIO

from placesim.prediction.sweep_rows import Sweep, SweepRow
from placesim.report.terminal.output import table
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.sweep import short_peak_device
from placesim.report.text.tables import NOTHING

_COLUMNS = ("step time", "interval", "examples/s", "peak memory", "fits", "transfers", "bound")


def styled_sweep(sweep: Sweep, stream: TextIO) -> str:
    """Return a table with a row for each combination, and the errors below it."""
    columns = (*sweep.keys, *_COLUMNS)
    rows = [(*(_setting(value) for value in row.settings), *_cells(row)) for row in sweep.rows]
    errors: dict[str, int] = {}
    for row in sweep.rows:
        if row.error is not None:
            errors[row.error] = errors.get(row.error, 0) + 1
    notes = "".join(f"{number} of {len(rows)}: {_shortened(error)}\n" for error, number in errors.items())
    return table(columns, rows, stream) + notes


_LONGEST = 300


def _shortened(error: str) -> str:
    from placesim.core.escaping import escape_line

    return escape_line(error if len(error) <= _LONGEST else f"{error[:_LONGEST]}...")


def _setting(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _cells(row: SweepRow) -> tuple[str, ...]:
    if row.seconds is None or row.low is None or row.high is None:
        return (NOTHING, NOTHING, NOTHING, NOTHING, "error", NOTHING, (row.error or "").partition(":")[0])
    share = "" if row.bound_share is None else f" {100 * row.bound_share:.0f} %"
    limit = "" if row.limit_bytes is None else f" of {readable_size(row.limit_bytes)}"
    return (
        readable_seconds(row.seconds),
        f"{readable_seconds(row.low)}..{readable_seconds(row.high)}",
        NOTHING if row.examples_per_second is None else f"{row.examples_per_second:.4g}",
        f"{readable_size(row.peak_bytes or 0)}{limit} ({short_peak_device(row)})",
        "yes" if row.fits else "no",
        f"{row.transfers}, {readable_size(row.transfer_bytes or 0)}",
        f"{row.bound}{share}",
    )
