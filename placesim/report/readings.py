"""Common base of reports for Python callers: `to_dict`, and a page in notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PAGE_HEIGHT = 600
"""Height of a page in a notebook, in CSS pixels."""


class Reading:
    """Base of reports: `document` returns the JSON object, `page` a whole HTML page.

    `page` returns None for a report without a page or with nothing to show; a notebook then shows `text`.
    """

    __slots__ = ()

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the lines that the command writes to a pipe."""
        raise NotImplementedError

    def page(self) -> str | None:
        """Return the report's HTML page, which needs no network, or None if it has none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of `document`; data frame libraries and serializers expect this name."""
        return self.document()

    def _repr_html_(self) -> str:
        """Return the page in an iframe, which separates its styles and scripts from the notebook's."""
        from html import escape

        page = self.page()
        if page is None:
            return f"<pre>{escape(self.text(), quote=False)}</pre>"
        return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: {PAGE_HEIGHT}px; border: 0"></iframe>'


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
