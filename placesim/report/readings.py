"""Common base of reports for Python callers: `to_dict`, and a page in notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PAGE_HEIGHT = 600
"""Height of a page in a notebook, in CSS pixels."""


class Reading:
    """A report's readings that follow from its others: `document` gives the JSON object, `page` the whole page in HTML.

    A report without a page, and one that has nothing to show, gives None for it; a notebook then has its `text`.
    """

    __slots__ = ()

    def document(self) -> dict[str, Any]:
        """The JSON object, as plain values."""
        raise NotImplementedError

    def text(self) -> str:
        """The lines that the command writes into a pipe."""
        raise NotImplementedError

    def page(self) -> str | None:
        """HTML page of the report, which needs no network; None if it has none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The contents of `document`, under the name that data frames and serializers expect."""
        return self.document()

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its styles and scripts stay apart from the notebook's."""
        from html import escape

        page = self.page()
        if page is None:
            return f"<pre>{escape(self.text(), quote=False)}</pre>"
        return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: {PAGE_HEIGHT}px; border: 0"></iframe>'


def to_plain(value: Any) -> Any:
    """Convert a document to plain values, as `json.loads` would return them: no iterators or styled texts."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in value.items()}
    return [to_plain(inner) for inner in value] if isinstance(value, Iterator | list | tuple) else value


def counted(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
