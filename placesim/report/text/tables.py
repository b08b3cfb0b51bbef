"""Tables as CSV and Markdown, from columns and rows, or from lists of objects in a report's JSON object; keys are columns.

Numbers have all digits in CSV and six in Markdown. A missing value is an empty cell, and the parts of a list are separated by
blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from placesim.core.escaping import escape, escape_line
from placesim.report.document import json_text

NOTHING = "-"
"""A missing value in lines for a pipe."""
_MEANS_SOMETHING = re.compile(r"[\\|<*`\[]")


class TableSpec(NamedTuple):
    """A list of the JSON object as a table: its name, the path of keys that leads to it, and its columns.

    If the path leads through other lists, columns may also be keys of the outer rows. A column with dots, such as
    `here.seconds`, is a path into nested objects. A list of texts has one column with any name. The rows are sorted by the
    column `by`, the greatest value first.
    """

    name: str
    path: tuple[str, ...]
    columns: tuple[str, ...]
    by: str = ""


class Tables(NamedTuple):
    """The tables of a report; the first is the main one.

    `read` returns a new JSON object at each call, because its rows may be generated one by one. Markdown has at most `limit`
    rows of each table.
    """

    kinds: Sequence[TableSpec]
    read: Callable[[], Mapping[str, Any]]
    limit: int | None = None

    def text(self, form: str, name: str | None = None) -> Iterator[str]:
        """Return the text in pieces: the JSON object (`json`), one table (`csv`: the named or main table), or Markdown.

        Markdown has the named table, or else all tables with rows.
        """
        if form == "json":
            return json_text(self.read())
        named = next((kind for kind in self.kinds if kind.name == name), None)
        if form == "csv":
            kind = named or self.kinds[0]
            return csv_lines(kind.columns, table_cells(self.read(), kind))
        return self._markdown(self.kinds if named is None else (named,))

    def _markdown(self, kinds: Sequence[TableSpec]) -> Iterator[str]:
        before = ""
        for kind in kinds:
            rows = table_cells(self.read(), kind)
            shown = list(islice(rows, self.limit))
            if not shown and len(kinds) > 1:
                continue
            yield before + (f"### {kind.name}\n\n" if len(kinds) > 1 else "")
            yield from markdown_lines(kind.columns, shown)
            more = sum(1 for _ in rows)
            if more:
                yield f"\n{more:,} more\n"
            before = "\n"


def table_cells(document: Mapping[str, Any], kind: TableSpec) -> Iterator[Sequence[Any]]:
    """Yield the cells of each row of a table; a missing value is None."""
    found = _walked([document], kind.path)
    if kind.by:
        found = iter(sorted(found, key=lambda rows: -(_cell(rows, kind.by) or 0)))
    return ([_cell(rows, column) for column in kind.columns] for rows in found)


def _walked(rows: Sequence[Any], path: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield a list for each row at the end of the path: its outer rows, the outermost first, and then the row itself."""
    if not path:
        yield rows
        return
    inner = rows[-1].get(path[0])  # a report of an older version may lack the key
    for row in () if inner is None else (inner,) if isinstance(inner, Mapping) else inner:
        yield from _walked([*rows, row], path[1:])


def _cell(rows: Sequence[Any], column: str) -> Any:
    """Return a column's value from nested rows, outermost first. The innermost row with the column's key gives the value."""
    if not isinstance(rows[-1], Mapping):
        return rows[-1]
    key, _, rest = column.partition(".")
    value = next((row[key] for row in reversed(rows) if key in row), None)
    for inner in rest.split(".") if rest else ():
        value = value[inner] if isinstance(value, Mapping) else None
    return value


# --- text -----------------------------------------------------------------------------------------------------------


class VerbatimCell(str):
    """A last cell that keeps its tabs, such as a line of TensorFlow's own."""

    __slots__ = ()


class TabLines(NamedTuple):
    """Rows as lines with tabs between the cells, for programs.

    Rows of several tables begin with the name of their table, and `columns` has the names of the other cells by table.
    For a single table, `columns` has only the key "", and rows have no such name.
    """

    columns: Mapping[str, Sequence[str]]
    rows: Iterable[Sequence[object]]

    def text(self, has_headers: bool = True) -> Iterator[str]:
        """Yield a line for each row, and with `has_headers` a line of column names where a table begins."""
        is_single = "" in self.columns
        above: Sequence[str] = ()
        if is_single and has_headers:
            yield _tab_line(self.columns[""])
        for row in self.rows:
            if has_headers and not is_single and (columns := self.columns[str(row[0])]) != above:
                above = columns
                yield _tab_line(("table", *columns))
            yield _tab_line(row)


def line_cell(value: object) -> str:
    """Return a value as a cell of a line: six digits of a number, and `-` for None."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _tab_line(cells: Iterable[object]) -> str:
    return (
        "\t".join(escape(cell) if isinstance(cell, VerbatimCell) else escape_line(str(cell)) or NOTHING for cell in cells)
        + "\n"
    )


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return comma-separated values (RFC 4180, with line feeds): a line of column names, then a line per row."""
    return "".join(csv_lines(columns, rows))


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield CSV line by line."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in chain((columns,), rows):
        writer.writerow([_plain(cell, str) for cell in row])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in GitHub's Markdown, with escaped cells."""
    return "".join(markdown_lines(columns, rows))


def markdown_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a table in GitHub's Markdown, line by line."""
    for line in chain((columns, ["---"] * len(columns)), rows):
        yield "| " + " | ".join(_MEANS_SOMETHING.sub(r"\\\g<0>", _plain(cell, "{:.6g}".format)) for cell in line) + " |\n"


def _plain(cell: object, number: Callable[[float], str]) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return number(cell)
    if isinstance(cell, list | tuple):
        return " ".join(_plain(part, number) for part in cell)
    return escape_line(str(cell))
