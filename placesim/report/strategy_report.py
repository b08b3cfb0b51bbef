"""The result of `compare_strategies` for Python callers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from placesim.planning.strategies.strategy_comparison import StrategyComparison, StrategyResult
from placesim.report.readings import Reading
from placesim.report.text.strategy_comparison import TABLES, comparison_document, comparison_lines


class StrategyReport(Reading):
    """Strategies with their predicted steps, the best first. Rows have seconds, bytes and dollars by column name."""

    TABLES = TABLES

    def __init__(
        self,
        comparison: StrategyComparison,
        content: Callable[[StrategyResult, Path], Iterator[bytes]],
        *,
        has_page: bool = False,
    ) -> None:
        self.comparison = comparison
        self._content = content
        self._has_page = has_page

    def __repr__(self) -> str:
        best = self.comparison.best
        return f"<placesim.StrategyReport of {self.name}: {'nothing fits' if best is None else best.case.label}>"

    @property
    def name(self) -> str:
        """Name of the graph."""
        return self.comparison.name

    @property
    def best(self) -> dict[str, Any] | None:
        """The row of the fastest strategy that fits; None if none does."""
        return None if self.comparison.best is None else self.rows[0]

    def text(self) -> str:
        """Return the lines that the command writes to a pipe."""
        return "".join(comparison_lines(self.comparison).text())

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        return comparison_document(self.comparison)

    def page(self) -> str | None:
        """Return a page with the timelines; None unless `compare_strategies` was called with `page=True`."""
        from placesim.report.pictures.comparison_page import strategies_page

        return strategies_page(self.comparison) if self._has_page else None

    def _notebook_text(self) -> str:
        from placesim.report.terminal.strategy_comparison import plain_comparison

        return plain_comparison(self.comparison)

    def write(self, path: str | PathLike[str], row: int = 0) -> None:
        """Write the graph of a row. The ending selects the format: .yaml, .json, .pb or .pbtxt.

        Raises UsageError for another ending and for a row that was refused, and OSError if the file can't be written.
        """
        from placesim.core.files.writer import write_whole

        write_whole(Path(path), b"".join(self._content(self.comparison.results[row], Path(path))))
