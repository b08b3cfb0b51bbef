"""What an allocation and its free cost, with few and with many chunks.

`python -m tests.benchmarks.memory_bench` prints ratios to a push and a pop of Python's `heapq` with as many entries; both sides
of each are measured in this run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_state import Chunk
from placesim.machine.memory.sub_allocator import gpu_memory
from tests.benchmarks.executor_bench import best_of

LIVE = (10, 1_000, 100_000)
PAIRS = 20_000
LARGEST_BYTES = {"one size": 256, "small tensors": 1 << 16, "large tensors": 1 << 30}


def allocator_with_chunks(live: int, largest: int, rng: random.Random) -> tuple[BfcAllocator, list[Chunk]]:
    """An allocator with so many chunks in use, and about half as many free ones between them."""
    allocator = BfcAllocator("GPU_0_bfc", 1 << 50, gpu_memory())
    held = [chunk for _ in range(2 * live) if (chunk := allocator.allocate(rng.randint(1, largest)))]
    rng.shuffle(held)
    for chunk in held[live:]:
        allocator.deallocate(chunk)
    return allocator, held[:live]


def replace_chunks(allocator: BfcAllocator, held: list[Chunk], sizes: Sequence[int], order: Sequence[int]) -> None:
    """Frees a chunk somewhere and allocates another in its stead, again and again."""
    for size, index in zip(sizes, order, strict=True):
        allocator.deallocate(held[index])
        chunk = allocator.allocate(size)
        assert chunk
        held[index] = chunk


def push_and_pop(heap: list[int], sizes: Sequence[int]) -> None:
    """What any allocator with an order of its free memory has to be measured against."""
    for size in sizes:
        heapq.heappush(heap, size)
        heapq.heappop(heap)


def main() -> None:
    for label, largest in LARGEST_BYTES.items():
        for live in LIVE:
            rng = random.Random(live)
            allocator, held = allocator_with_chunks(live, largest, rng)
            sizes = [rng.randint(1, largest) for _ in range(PAIRS)]
            order = [rng.randrange(live) for _ in range(PAIRS)]
            heap = sorted(rng.randint(1, largest) for _ in range(live))
            ours = best_of(5, lambda a=allocator, h=held, s=sizes, o=order: replace_chunks(a, h, s, o))  # type: ignore[misc]
            bare = best_of(5, lambda h=heap, s=sizes: push_and_pop(h, s))  # type: ignore[misc]
            print(
                f"{label}, {live:,} live chunks: allocation and free {ours / PAIRS * 1e6:.2f} us, "
                f"heapq push and pop {bare / PAIRS * 1e6:.2f} us, ratio {ours / bare:.1f}"
            )


if __name__ == "__main__":
    main()
