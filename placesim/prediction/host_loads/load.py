"""Load of a kernel: counts of the kinds of work in a profile, and the bytes moved."""

from __future__ import annotations

from typing import NamedTuple

Dims = tuple[int, ...]
TEMPORARY = 3
"""Number of arrays that a further pass reads and writes: two operands and a result."""


class Amounts:
    """Work of one thread: counts by name, and pairs of bytes moved and the size of the data that they belong to."""

    __slots__ = ("counts", "traffic")

    def __init__(self, **counts: float) -> None:
        self.counts: dict[str, float] = counts
        self.traffic: list[tuple[float, float]] = []

    def add(self, **counts: float) -> Amounts:
        """Add counts by name and return this object."""
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count
        return self

    def stream(self, num_bytes: float, among: float | None = None) -> Amounts:
        """Add bytes that are read or written once, and return this object.

        They belong to data of `among` bytes that are accessed in turn; by default, only to themselves.
        """
        self.traffic.append((num_bytes, num_bytes if among is None else among))
        return self

    def join(self, other: Amounts, times: float = 1.0) -> Amounts:
        """Add another load `times` times and return this object."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count * times
        self.traffic += [(num_bytes * times, among) for num_bytes, among in other.traffic]
        return self


class Load(NamedTuple):
    """Load of a kernel: `alone` is done by the thread that runs it, and `shared` in `parts` by an op's threads.

    `family` determines its factor and interval.
    """

    family: str
    alone: Amounts
    shared: Amounts
    parts: int = 1
