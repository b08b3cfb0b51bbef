"""The collections of a graph: lists of arbitrary values, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike


class Collections:
    """The methods of a Graph that put values into its collections and get them."""

    _collections: dict[str, list[Any]]
    _check_not_finalized: Callable[[], None]

    def add_to_collection(self, name: str, value: object) -> None:
        """Add a value to a collection."""
        self._check_not_finalized()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: TensorLike) -> None:
        """Add a value to each of the named collections."""
        for name in (names,) if isinstance(names, str) else sorted(set(names)):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: str) -> list[Any]:
        """The collection itself, created if needed."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Copy of a collection, or only of its items whose names begin with a match of the pattern `scope`."""
        found = self._collections.get(name, [])
        if scope is None:
            return list(found)
        import re

        pattern = re.compile(scope)
        return [item for item in found if hasattr(item, "name") and pattern.match(item.name)]

    def get_all_collection_keys(self) -> list[Any]:
        """The keys of all collections, without keys that are not strings."""
        return [name for name in self._collections if isinstance(name, str)]

    @property
    def collections(self) -> list[Any]:
        return list(self._collections)

    def clear_collection(self, name: str) -> None:
        """Remove a collection."""
        self._check_not_finalized()
        self._collections.pop(name, None)
