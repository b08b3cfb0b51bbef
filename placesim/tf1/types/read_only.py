"""Properties that only return an attribute."""

from __future__ import annotations

from operator import attrgetter
from typing import Any


def read_only(attribute: str, doc: str | None = None) -> Any:
    """Property that returns `self.attribute` (dots lead to attributes of attributes); an assignment raises AttributeError."""
    return property(attrgetter(attribute), doc=doc)
