"""State of an allocator's memory, as values: chunks in regions, figures by bin, and statistics.

The names are those of TensorFlow's `bfc_allocator.h`.  All sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

MIN_ALLOCATION_BYTES = 256
"""All chunk sizes are multiples of this."""
NUM_BINS = 21
FREE = -1
"""Allocation id of a free chunk."""


class Chunk:
    """A part of a region, either free or in use.

    - `address`, `size`: the position and the size, which is 0 for a record that is in no region.
    - `requested_size`: the size requested in the last allocation of the chunk.
    - `allocation_id`: the number of the successful allocation, from 1 on; FREE for a free chunk.
    - `freed_at_count`: the count of the release if the allocator has a timing counter, else 0.
    - `handle`: the index in the allocator's table.
    """

    __slots__ = ("address", "allocation_id", "freed_at_count", "handle", "next", "prev", "requested_size", "size")

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.address = 0
        self.size = 0
        self.requested_size = 0
        self.allocation_id = FREE
        self.freed_at_count = 0
        self.prev: Chunk | None = None
        self.next: Chunk | None = None

    @property
    def in_use(self) -> bool:
        return self.allocation_id != FREE

    @property
    def bin_num(self) -> int:
        """Number of the bin that contains the chunk; -1 for a chunk in use."""
        return -1 if self.in_use else bin_of(self.size)

    def __repr__(self) -> str:
        state = f"allocation {self.allocation_id}" if self.in_use else "free"
        return f"<Chunk {self.handle}: {self.size} bytes at {self.address:#x}, {state}>"


@dataclass(slots=True, eq=False)
class Region:
    """One or several adjoining ranges from the sub-allocator, divided into chunks without gaps."""

    address: int
    size: int
    first: Chunk

    @property
    def end(self) -> int:
        return self.address + self.size

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the region by address."""
        chunk: Chunk | None = self.first
        while chunk is not None:
            following = chunk.next
            yield chunk
            chunk = following


class BinFigures(NamedTuple):
    """Totals of one bin's chunks, used or free. `client_bytes_in_use` is the sum of the requested sizes of used chunks."""

    bytes_in_use: int = 0
    bytes: int = 0
    chunks_in_use: int = 0
    chunks: int = 0
    client_bytes_in_use: int = 0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of an allocator (TensorFlow's AllocatorStats).

    Sizes are sizes of whole chunks; failed allocations change nothing.  A BFC allocator never sets the last three fields.
    """

    num_allocs: int
    bytes_in_use: int
    peak_bytes_in_use: int
    largest_alloc_size: int
    bytes_limit: int
    pool_bytes: int
    peak_pool_bytes: int
    bytes_reserved: int = 0
    peak_bytes_reserved: int = 0
    largest_free_block_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """The current state of an allocator.  A pool shares the allocator's regions, so read it before the allocator is used again.

    `next_region_bytes` is the size of the next region to request; `timed` says whether releases are counted.
    """

    name: str
    memory_limit: int
    next_region_bytes: int
    statistics: Statistics
    regions: tuple[Region, ...]
    timed: bool

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks by address."""
        for region in self.regions:
            yield from region.chunks()

    def free_chunks(self, bin_num: int) -> list[Chunk]:
        """Return the free chunks of a bin, sorted by size and address."""
        free = (chunk for chunk in self.chunks() if chunk.bin_num == bin_num)
        return sorted(free, key=lambda chunk: (chunk.size, chunk.address))

    def bins(self) -> tuple[BinFigures, ...]:
        """Return the figures of all 21 bins."""
        figures = [[0] * len(BinFigures._fields) for _ in range(NUM_BINS)]
        for chunk in self.chunks():
            row = figures[bin_of(chunk.size)]
            row[1] += chunk.size
            row[3] += 1
            if chunk.in_use:
                row[0] += chunk.size
                row[2] += 1
                row[4] += chunk.requested_size
        return tuple(BinFigures(*row) for row in figures)


def rounded_up(num_bytes: int) -> int:
    """Round up to the next multiple of 256."""
    return num_bytes + (MIN_ALLOCATION_BYTES - 1) & -MIN_ALLOCATION_BYTES


def rounded_down(num_bytes: int) -> int:
    return num_bytes & -MIN_ALLOCATION_BYTES


def bin_of(size: int) -> int:
    """Return the bin of a size: bin i holds sizes from 256 * 2^i bytes on; the last one has no upper limit."""
    return min(NUM_BINS - 1, max(size // MIN_ALLOCATION_BYTES, 1).bit_length() - 1)


def bin_bytes(bin_num: int) -> int:
    """Return the smallest size of a bin, which is also the name of the bin."""
    return MIN_ALLOCATION_BYTES << bin_num
