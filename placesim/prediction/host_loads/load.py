"""Load of a kernel: counts of work that a profile has rates for, and moved bytes."""

from __future__ import annotations

from typing import NamedTuple

Dims = tuple[int, ...]
TEMPORARY = 3
"""Arrays that a further pass reads and writes: two operands and a result."""


class Amounts:
    """Work of one thread: counts by name, and streamed bytes with the size of the data that they belong to."""

    __slots__ = ("counts", "traffic")

    def __init__(self, **counts: float) -> None:
        self.counts: dict[str, float] = counts
        self.traffic: list[tuple[float, float]] = []

    def add(self, **counts: float) -> Amounts:
        """Add counts by name."""
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count
        return self

    def stream(self, num_bytes: float, among: float | None = None) -> Amounts:
        """Add bytes read or written once, from data of `among` bytes in turn (by default only these)."""
        self.traffic.append((num_bytes, num_bytes if among is None else among))
        return self

    def join(self, other: Amounts, times: float = 1.0) -> Amounts:
        """Sum with another load taken `times` times."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count * times
        self.traffic += [(num_bytes * times, among) for num_bytes, among in other.traffic]
        return self


class Load(NamedTuple):
    """Load of a kernel: `alone` in the thread that runs it, and `shared` in `parts` among an op's threads.

    `family` is whose factor and interval it has.
    """

    family: str
    alone: Amounts
    shared: Amounts
    parts: int = 1
