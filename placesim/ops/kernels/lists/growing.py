"""Persistent sequences that share common elements, so that appending costs the same at any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, overload

_LOCK = Lock()


class GrowingList(Sequence[Any]):
    """The first elements of a list that others may have made longer; it never changes itself."""

    __slots__ = ("_shared", "_size")

    def __init__(self, shared: list[Any], size: int) -> None:
        self._shared = shared
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return islice(self._shared, self._size)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return tuple(self._shared[place] for place in range(*index.indices(self._size)))
        if not -self._size <= index < self._size:
            raise IndexError(index)
        return self._shared[index if index >= 0 else self._size + index]

    def with_last(self, element: Any) -> GrowingList:
        """The list with one element appended."""
        with _LOCK:
            if len(self._shared) == self._size:
                self._shared.append(element)
                return GrowingList(self._shared, self._size + 1)
        return GrowingList([*self, element], self._size + 1)

    def without_last(self) -> GrowingList:
        """All elements but the last."""
        return GrowingList(self._shared, self._size - 1)


def pushed(elements: Sequence[Any], element: Any) -> GrowingList:
    """The elements and one more."""
    return (elements if isinstance(elements, GrowingList) else GrowingList(list(elements), len(elements))).with_last(element)


def popped(elements: Sequence[Any]) -> Sequence[Any]:
    """All elements but the last."""
    return (elements if isinstance(elements, GrowingList) else GrowingList(list(elements), len(elements))).without_last()
