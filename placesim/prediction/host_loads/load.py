"""Load of a kernel: the amounts of each kind of work in a host's profile, and the bytes moved."""

from __future__ import annotations

from typing import NamedTuple

from placesim.prediction.node_work import NodeShapes

TEMPORARY = 3
"""Number of arrays that a pass over temporary arrays reads and writes: two operands and a result."""


IN_PLACE = 2.5
"""Mean number of arrays that a pass of an optimizer's update reads and writes: many overwrite an operand."""


class Amounts:
    """Amounts of work: counts by name, and pairs of moved bytes and the size of the data that contains them.

    The kernel waits for the bytes of the pairs in `awaited`, because the processor cannot fetch these bytes ahead.
    """

    __slots__ = ("awaited", "counts", "traffic")

    def __init__(self, **counts: float) -> None:
        self.counts: dict[str, float] = counts
        self.traffic: list[tuple[float, float]] = []
        self.awaited: list[tuple[float, float]] = []

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

    def touch(self, node: NodeShapes, *, is_packed: bool = False) -> Amounts:
        """Add the bytes that a node's kernel accesses, once each, and return this object.

        With `is_packed`, the kernel waits for tensors that the step did not make, since it reads their rows in another order.
        """
        accessed = node.accessed_bytes
        kept = min(node.kept_bytes, accessed)
        self.stream(accessed - kept, accessed)
        if kept:
            (self.awaited if is_packed else self.traffic).append((kept, max(accessed, node.step_bytes)))
        return self

    def join(self, other: Amounts, times: float = 1.0) -> Amounts:
        """Add other amounts, multiplied by `times`, and return this object."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count * times
        self.traffic += [(num_bytes * times, among) for num_bytes, among in other.traffic]
        self.awaited += [(num_bytes * times, among) for num_bytes, among in other.awaited]
        return self


class Load(NamedTuple):
    """Load of a kernel.

    The thread that runs the kernel does the work `alone`.  The threads inside the op do the work `shared`, divided into `parts`
    equal parts.  `family` selects the profile's correction factor and interval for the predicted time.  `step_bytes` is the
    size of the data that the step accesses.
    """

    family: str
    alone: Amounts
    shared: Amounts
    parts: int = 1
    step_bytes: int = 0
