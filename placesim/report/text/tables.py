"""A table's columns and rows -> CSV, and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from placesim.escapes import escape_line

_MEANS_SOMETHING = re.compile(r"[\\|<*`\[]")


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated values (RFC 4180, with line feeds): a line with the columns' names, then one a row."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return text.getvalue()


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of GitHub's Markdown; what would mean something there is escaped."""
    lines = (columns, ["---"] * len(columns), *rows)
    return "".join("| " + " | ".join(_marked(_plain(cell)) for cell in line) + " |\n" for line in lines)


def _plain(cell: object) -> str:
    return "" if cell is None else escape_line(str(cell))


def _marked(text: str) -> str:
    return _MEANS_SOMETHING.sub(lambda found: f"\\{found[0]}", text)
