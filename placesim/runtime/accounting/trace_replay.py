"""A device's trace of allocations through another allocator: what would have happened there.

The order of a step, and with it what is allocated and freed when, does not depend on an allocator's limit or options; so a
trace that goes through another allocator tells the same as walking through the step again on a device that has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import dump_lines
from placesim.machine.memory.allocator_state import Chunk, rounded_up


def replay(trace: Sequence[int], allocator: BfcAllocator, end: int | None = None) -> int | None:
    """Let an allocator do what a trace says, up to and with position `end`.

    Gives the position of the first allocation for which there was no room, None if there was for all.
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
    """Lines of TensorFlow's dump of an allocator after a failed search for `size` bytes."""
    lines = dump_lines(allocator.pool(), rounded_up(size))
    return tuple(text for line in lines for text in line.text.rstrip("\n").split("\n"))
