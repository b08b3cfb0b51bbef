"""Persistent sequences that share elements, so that appending costs the same at any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, overload

_LOCK = Lock()


class GrowingList(Sequence[Any]):
    """The first `size` elements of a shared list, to which other lists may have appended; it never changes."""

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
        """Return the list with one element appended."""
        with _LOCK:
            if len(self._shared) == self._size:
                self._shared.append(element)
                return GrowingList(self._shared, self._size + 1)
        return GrowingList([*self, element], self._size + 1)

    def without_last(self) -> GrowingList:
        """Return all elements but the last."""
        return GrowingList(self._shared, self._size - 1)


def pushed(elements: Sequence[Any], element: Any) -> GrowingList:
    """Return the elements and one more."""
    return _growing(elements).with_last(element)


def popped(elements: Sequence[Any]) -> Sequence[Any]:
    """Return all elements but the last."""
    return _growing(elements).without_last()


def _growing(elements: Sequence[Any]) -> GrowingList:
    return elements if isinstance(elements, GrowingList) else GrowingList(list(elements), len(elements))
