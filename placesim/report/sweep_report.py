"""The result of `sweep` for Python callers: its rows, as they finish or all together."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Self

from placesim.core.process.progress import report_stage
from placesim.prediction.sweep_rows import RESULTS, Sweep, SweepIdentity, SweepRow
from placesim.report.notebook_progress import show_in_notebook
from placesim.report.readings import Reading
from placesim.report.text.sweep import row_document, sweep_lines
from placesim.report.text.tables import TableSpec

ROWS = "rows"
"""Name of the only table."""


class SweepReport(Reading, Iterator[dict[str, Any]]):
    """A running sweep over `keys`.

    Iteration yields each row once, as a dictionary, when it and all rows before it are finished. All other members wait for the
    whole sweep and have all rows.
    """

    def __init__(self, name: str, keys: Sequence[str], found: Generator[SweepRow], total: int) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.TABLES = (TableSpec(ROWS, (ROWS,), (*self.keys, *RESULTS)),)
        self._found = found
        self._total = total
        self._rows: list[SweepRow] = []
        self._yielded = 0

    def __repr__(self) -> str:
        return f"<placesim.SweepReport of {self.name} over {', '.join(self.keys)}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        if self._yielded == len(self._rows):
            self._rows.append(next(self._found))
        self._yielded += 1
        return row_document(self.keys, self._rows[self._yielded - 1])

    def close(self) -> None:
        """End the sweep; the report keeps the finished rows."""
        self._found.close()

    def document(self) -> dict[str, Any]:
        """Return the keys and rows as plain values."""
        rows = [row_document(self.keys, row) for row in self._finished()]
        return {"name": self.name, "keys": list(self.keys), ROWS: rows}

    def text(self) -> str:
        """Return the lines that the command writes to a pipe."""
        return "".join(sweep_lines(self.keys, self._finished()).text())

    def page(self) -> str:
        """Return the page with small pictures of all measures. It names no files, so `placesim sweep` can't resume from it."""
        from placesim.report.pictures.sweep_page import sweep_page

        return sweep_page(Sweep(self.name, self.keys, tuple(self._finished()), SweepIdentity("", "", "")))

    def _finished(self) -> list[SweepRow]:
        with show_in_notebook("sweep"), report_stage("combinations", lambda: (len(self._rows), self._total)):
            self._rows.extend(self._found)
        return self._rows
