"""Load of a kernel: the amounts of each kind of work in a host's profile, and the bytes moved."""

from __future__ import annotations

from typing import NamedTuple

TEMPORARY = 3
"""Number of arrays that a pass over temporary arrays reads and writes: two operands and a result."""


class Amounts:
    """Amounts of work: counts by name, and pairs of moved bytes and the size of the data that contains them."""

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

        `among` is the size in bytes of all data that the kernel accesses before it accesses the same data again; None for
        `num_bytes`.  The larger it is, the more accesses miss the caches.
        """
        self.traffic.append((num_bytes, num_bytes if among is None else among))
        return self

    def join(self, other: Amounts, times: float = 1.0) -> Amounts:
        """Add other amounts, multiplied by `times`, and return this object."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count * times
        self.traffic += [(num_bytes * times, among) for num_bytes, among in other.traffic]
        return self


class Load(NamedTuple):
    """Load of a kernel.

    The thread that runs the kernel does the work `alone`.  The threads inside the op do the work `shared`, divided into `parts`
    equal parts.  `family` selects the profile's correction factor and interval for the predicted time.
    """

    family: str
    alone: Amounts
    shared: Amounts
    parts: int = 1
