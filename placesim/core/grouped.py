"""Values in lists by their keys, in tuples of given lengths, and as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key in their order; the keys are in the order of their first values."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def numbered(values: Iterable[Key]) -> tuple[list[Key], list[int]]:
    """Return the distinct values in the order of their first occurrence, and the index of each value among them."""
    found: dict[Key, int] = {}
    indices = [found.setdefault(value, len(found)) for value in values]
    return list(found), indices


def in_tuples(values: Iterable[Value], lengths: Sequence[int]) -> list[tuple[Value, ...]]:
    """Return the values in tuples of these lengths."""
    rest = iter(values)
    # the tuples of a length come from an iterator of their own, all of which share `rest`
    following = {length: zip(*[rest] * length, strict=False).__next__ if length else tuple for length in set(lengths)}
    return [following[length]() for length in lengths]
