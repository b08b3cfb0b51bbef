"""Counts of nodes, variables or copied tensors, with their bytes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Amount(NamedTuple):
    """A number of items, their total bytes, and how many of the items have a size that is unknown before the graph runs."""

    number: int = 0
    bytes: int = 0
    unknown: int = 0

    def plus(self, size: int | None) -> Amount:
        """Return this amount plus one item of `size` bytes (None: unknown)."""
        return Amount(self.number + 1, self.bytes + (size or 0), self.unknown + (size is None))

    def combined(self, other: Amount) -> Amount:
        """Return the sum of both amounts."""
        return Amount(self.number + other.number, self.bytes + other.bytes, self.unknown + other.unknown)

    def document(self, counted: str = "count") -> dict[str, int]:
        """Return the amount as a JSON object; `counted` is the key of the number of items."""
        return {counted: self.number, "bytes": self.bytes, "unknown": self.unknown}


def amounts_by(sized: Iterable[tuple[Key, int | None]]) -> dict[Key, Amount]:
    """Return the amount of each key, summed over pairs (key, size in bytes). Keys keep the order of their first pairs."""
    found: dict[Key, Amount] = {}
    for key, size in sized:
        found[key] = found.get(key, Amount()).plus(size)
    return found


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of all amounts."""
    found = Amount()
    for amount in amounts:
        found = found.combined(amount)
    return found


def merge_amounts(parts: Iterable[Mapping[Key, Amount]]) -> dict[Key, Amount]:
    """Return the amount of each key, summed over the parts."""
    found: dict[Key, Amount] = {}
    for part in parts:
        for key, amount in part.items():
            found[key] = found.get(key, Amount()).combined(amount)
    return found


def readable_seconds(seconds: float) -> str:
    """Format seconds with a readable unit: `0.0015` as `1.5 ms`."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
