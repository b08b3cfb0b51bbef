"""The common base of reports for Python callers: `to_dict`, a page in notebooks, tables, and the rows of the main table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from placesim.core.errors import UsageError
from placesim.report.text.tables import TableSpec, table_cells

if TYPE_CHECKING:
    from pandas import DataFrame

PAGE_HEIGHT = 600
"""Height of a page in a notebook, in CSS pixels."""


class Reading:
    """Base of reports: `document` returns the JSON object, `page` a whole HTML page, and `table` a table of the command.

    The first of `TABLES` is the main table. Iteration, `len` and an index give its rows. A report counts as true even without
    rows. `page` returns None for a report without a page or with nothing to show; a notebook then shows a text.
    """

    TABLES: Sequence[TableSpec]

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the lines that the command writes to a pipe."""
        raise NotImplementedError

    def page(self) -> str | None:
        """Return the report's HTML page, which needs no network, or None if the report has no page."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of `document`; data frame libraries and serializers expect this name."""
        return self.document()

    def _repr_html_(self) -> str:
        """Return the page in an iframe, which separates its styles and scripts from the notebook's."""
        from html import escape

        page = self.page()
        if page is None:
            return f"<pre>{escape(self._notebook_text(), quote=False)}</pre>"
        return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: {PAGE_HEIGHT}px; border: 0"></iframe>'

    def _notebook_text(self) -> str:
        """Return the text for a notebook if there is no page: `text`, or `repr` if `text` is empty."""
        return self.text() or repr(self)

    def table(self, name: str | None = None) -> ReportTable:
        """Return the table of this name, or the main table. Raises UsageError for an unknown name."""
        kinds = {kind.name: kind for kind in self.TABLES}
        chosen = self.TABLES[0].name if name is None else name
        if chosen not in kinds:
            expected = ("one of " if len(kinds) > 1 else "") + ", ".join(kinds)
            raise UsageError(f"no such table: got {chosen!r}, expected {expected}")
        return ReportTable.of(self._table_document(), kinds[chosen])

    @cached_property
    def rows(self) -> ReportTable:
        """The main table."""
        return self.table()

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[dict[str, Any], ...]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | tuple[dict[str, Any], ...]:
        return self.rows[index]

    def to_dataframe(self, name: str | None = None) -> DataFrame:
        """Return the named or main table as a pandas data frame. Raises UsageError for an unknown name, or without pandas."""
        return self.table(name).to_dataframe()

    def _table_document(self) -> Mapping[str, Any]:
        return self.document()


class ReportTable(tuple[dict[str, Any], ...]):
    """The rows of a table of a report, by column name. Missing values are None."""

    name: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any], kind: TableSpec) -> ReportTable:
        """Return a table of a JSON object."""
        found = cls(dict(zip(kind.columns, cells, strict=True)) for cells in table_cells(document, kind))
        found.name, found.columns = kind.name, kind.columns
        return found

    def __repr__(self) -> str:
        return f"<placesim.ReportTable {self.name}: {counted(len(self), 'row')}>"

    def to_dataframe(self) -> DataFrame:
        """Return the table as a pandas data frame. Raises UsageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UsageError(
                "a data frame needs pandas: got no such package, expected `pip install pandas`; `rows` needs none"
            ) from None
        return pandas.DataFrame(list(self), columns=list(self.columns))


def plain_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a document to plain values, as `json.loads` would return them: no iterators or styled texts."""
    return {key: _plain(value) for key, value in document.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return plain_document(value)
    return [_plain(inner) for inner in value] if isinstance(value, Iterator | list | tuple) else value


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
