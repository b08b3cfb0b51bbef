"""TensorFlow's recorded sequences of allocations and frees, repeated with our allocator and compared, step by step.

A sequence has `options`, `memory_limit`, `name`, `sub` (the driver that it was recorded with), `timed`, and `steps`:
`["a", bytes]` with `"no_retry"` or the count that chunks had to be freed by; `["f", step]`; `["clear_stats"]`;
`["frontier", count]`; `["counter"]`.  Everything that was recorded must agree.  A sequence that killed TensorFlow (`fatal`)
must be refused.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from placesim.core.errors import InvalidArgumentError
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine, statistics_text
from placesim.machine.memory.allocator_settings import BfcOptions, TimingCounter
from placesim.machine.memory.allocator_state import Chunk
from placesim.machine.memory.sub_allocator import BASE_ADDRESS, AddressRanges

KEYS = ("sub", "steps", "memory_limit")
"""Every sequence has these; no other recording of memory has them all."""


class RecordedDriver:
    """The driver of a recording, and what was asked of it: `[step, alloc|refused|free, address - base, bytes]`.

    The address of what was refused is 0.
    """

    def __init__(self, sub: Mapping[str, Any], base: int) -> None:
        self._ranges = AddressRanges(sub["supply"], coalesces=sub["coalesce"], base=base, order=sub["order"], gap=sub["gap"])
        self._base = base
        self.step = 0
        self.calls: list[list[Any]] = []
        self.coalesces = self._ranges.coalesces

    def allocate(self, num_bytes: int) -> int | None:
        address = self._ranges.allocate(num_bytes)
        if address is None:
            self.calls.append([self.step, "refused", 0, num_bytes])
        else:
            self.calls.append([self.step, "alloc", address - self._base, num_bytes])
        return address

    def free(self, address: int, num_bytes: int) -> None:
        self.calls.append([self.step, "free", address - self._base, num_bytes])
        self._ranges.free(address, num_bytes)


class Sequence:
    """A recorded sequence, run; what came of it in the recording's terms."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.case = case
        self.base = case.get("base", BASE_ADDRESS)
        self.driver = RecordedDriver(case["sub"], self.base)
        self.counter = TimingCounter() if case.get("timed") else None
        self.lines: list[DumpLine] = []
        self.allocator = BfcAllocator(
            case["name"],
            case["memory_limit"],
            self.driver,
            BfcOptions(**case["options"]),
            log=self.lines.append,
            timing_counter=self.counter,
        )
        self.given: dict[int, Chunk | None] = {}
        self.results: list[Any] = []
        self.statistics: dict[int, Any] = {}
        self.log: dict[int, list[list[Any]]] = {}

    def run(self) -> None:
        """All steps."""
        wanted = {step for step, _ in self.case["stats_at"]}
        for step, entry in enumerate(self.case["steps"]):
            self.driver.step = step
            self.results.append(self.take(step, *entry))
            if step in wanted:
                self.statistics[step] = self.statistics_now()
            if self.lines:
                self.log[step] = [list(line) for line in self.lines]
                self.lines.clear()

    def take(self, step: int, kind: str, *values: Any) -> Any:
        """One step, and what the recording says of such a step."""
        if kind == "a":
            num_bytes, *how = values
            retry = "no_retry" not in how
            freed_by = how[0] if how and retry else 0
            chunk = self.given[step] = self.allocator.allocate(num_bytes, retry=retry, freed_by=freed_by)
            return chunk and [*self.place(chunk.address), chunk.requested_size, chunk.size, chunk.allocation_id]
        if kind == "f":
            self.allocator.deallocate(self.given.pop(values[0]))
        elif kind == "clear_stats":
            self.allocator.clear_statistics()
            return 1
        elif kind == "frontier":
            self.allocator.advance_safe_frontier(*values)
        elif kind == "counter":
            assert self.counter
            return self.counter.next()
        else:
            raise ValueError(f"unknown step {kind!r}")
        return 0

    def place(self, address: int) -> tuple[int, int]:
        """The number of the region that an address is in, in the order in which they came, and the offset in it."""
        starts = sorted((at, number) for number, at in enumerate(at for _, kind, at, _ in self.driver.calls if kind == "alloc"))
        at, number = starts[bisect_right(starts, (address - self.base, len(starts))) - 1]
        return number, address - self.base - at

    def statistics_now(self) -> dict[str, Any]:
        return asdict(self.allocator.statistics()) | {"bytes_reservable_limit": None}

    def outcome(self) -> dict[str, Any]:
        """What stands in the recording beside the log."""
        pool = self.allocator.pool()
        fragmentation = self.allocator.fragmentation()
        return {
            "results": self.results,
            "regions": self.driver.calls,
            "stats_at": [[step, self.statistics[step]] for step, _ in self.case["stats_at"]],
            "stats": self.statistics_now(),
            "stats_text": statistics_text(self.allocator.statistics()),
            "fragmentation": None if math.isnan(fragmentation) else fragmentation,
            "bins": [list(figures[:4]) for figures in pool.bins()],
            "chunks": [self.chunk_row(chunk) for chunk in pool.chunks()],
        }

    def chunk_row(self, chunk: Chunk) -> list[int]:
        """As in a memory map, which shows counts of free chunks only."""
        row = [int(chunk.in_use), chunk.address - self.base, chunk.size, chunk.requested_size, chunk.bin_num]
        return [*row, 0 if chunk.in_use else chunk.freed_at_count] if self.counter else row


def differences(case: Mapping[str, Any]) -> Iterator[str]:
    """What our allocator does otherwise than TensorFlow did; nothing where they agree."""
    if "fatal" in case:
        yield from _difference_of_fatal(case)
        return
    sequence = Sequence(case)
    sequence.run()
    for what, mine in sequence.outcome().items():
        yield from _difference(what, mine, case[what])
    recorded = {entry["step"]: entry for entry in case["log"]}
    for step in sorted(recorded.keys() | sequence.log.keys()):
        entry = recorded.get(step, {"lines": []})
        lines = sequence.log.get(step, [])
        if entry.get("shortened"):
            lines = [line for line in lines if line[0] == "W"]
        yield from _difference(f"log of step {step}", lines, entry["lines"])


def _difference_of_fatal(case: Mapping[str, Any]) -> Iterator[str]:
    try:
        Sequence(case)
    except InvalidArgumentError:
        return
    yield f"expected to be refused, since TensorFlow died: {case['fatal']}"


def _difference(what: str, mine: Any, recorded: Any) -> Iterator[str]:
    """The first place where they part."""
    if mine == recorded:
        return
    if isinstance(mine, list) and isinstance(recorded, list):
        for index, (one, other) in enumerate(zip(mine, recorded, strict=False)):
            if one != other:
                yield f"{what}[{index}]: {one!r}, expected {other!r}"
                return
        yield f"{what}: {len(mine)} entries, expected {len(recorded)}"
    else:
        yield f"{what}: {mine!r}, expected {recorded!r}"
