"""A sweep as lines for a pipe, as CSV, and as a JSON object.

In a pipe, each line is one combination: its settings and the values of `SweepRow`, separated by tabs. Seconds have six digits,
bytes are whole numbers, and `-` stands for a missing value. CSV has all digits, empty cells for missing values, and three more
columns that identify the sweep.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from placesim.inspection.short_device_names import short_names
from placesim.prediction.sweep_rows import RESULTS, Sweep, SweepIdentity, SweepRow
from placesim.report.text.tables import TabLines, line_cell, markdown_table

IDENTITY = tuple(f"{name}_id" if name != "version" else name for name in SweepIdentity._fields)
"""CSV columns that have the same value in all rows."""


def sweep_lines(keys: Sequence[str], rows: Iterable[SweepRow], columns: Sequence[str] = RESULTS) -> TabLines:
    """Return a line for each row, with its settings and the results named in `columns`."""
    return TabLines({"": (*keys, *columns)}, (_cells(row, columns) for row in rows))


def best_reason(row: SweepRow) -> str:
    """Return why a row is the best."""
    return "most examples per second" if row.examples_per_second else "shortest step"


def short_peak_device(row: SweepRow) -> str | None:
    """Return the short name of the device with the peak, as in reports on one machine."""
    return None if row.peak_device is None else short_names([row.peak_device])[0]


def _cells(row: SweepRow, columns: Sequence[str]) -> list[str]:
    shown = row._replace(peak_device=short_peak_device(row))
    return [line_cell(value) for value in (*shown.settings, *(getattr(shown, column) for column in columns))]


def sweep_csv(sweep: Sweep) -> str:
    """Return comma-separated values (RFC 4180, with line feeds), which `read_sweep` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*sweep.keys, *RESULTS, *IDENTITY))
    for row in sweep.rows:
        writer.writerow([_csv_cell(value) for value in (*row.settings, *row[1:], *sweep.identity)])
    return text.getvalue()


def sweep_markdown(sweep: Sweep, columns: Sequence[str]) -> str:
    """Return a table in GitHub's Markdown, with the same columns as the lines."""
    return markdown_table((*sweep.keys, *columns), (_cells(row, columns) for row in sweep.rows))


def _csv_cell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """Return the JSON object, whose rows have settings and results by name; missing values are null."""
    return {
        "name": sweep.name,
        **sweep.identity._asdict(),
        "keys": list(sweep.keys),
        "rows": [row_document(sweep.keys, row) for row in sweep.rows],
    }


def row_document(keys: Sequence[str], row: SweepRow) -> dict[str, Any]:
    """Return a row as a dictionary by column name."""
    return dict(zip((*keys, *RESULTS), (*row.settings, *row[1:]), strict=True))
