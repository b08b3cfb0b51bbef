"""Replay of a device's allocation trace in another allocator.

The order of allocations in a step does not depend on an allocator's limit or options. So a replay has the same result as a dry
run of the step on a device with that allocator.
"""

from __future__ import annotations

from collections.abc import Sequence

from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import dump_lines
from placesim.machine.memory.allocator_state import Chunk, rounded_up


def replay(trace: Sequence[int], allocator: BfcAllocator, end: int | None = None) -> int | None:
    """Replay a trace in an allocator, up to and including position `end`.

    Return the position of the first failed allocation, or None if all succeeded.
    """
    chunks: list[Chunk | None] = []
    for position, event in enumerate(trace if end is None else trace[: end + 1]):
        if event >= 0:
            chunk = allocator.allocate(event)
            if chunk is None:
                return position
            chunks.append(chunk)
        else:
            allocator.deallocate(chunks[-1 - event])
    return None


def dump_text(allocator: BfcAllocator, size: int) -> tuple[str, ...]:
    """Return the lines of TensorFlow's allocator dump after `size` bytes could not be allocated."""
    lines = dump_lines(allocator.pool(), rounded_up(size))
    return tuple(text for line in lines for text in line.text.rstrip("\n").split("\n"))
