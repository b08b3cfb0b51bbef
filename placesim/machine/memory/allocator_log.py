"""Log of a BFC allocator in TensorFlow's words: warnings, statistics, and the dump after a failed allocation.

The texts come from `bfc_allocator.cc` in TensorFlow 2.21, `HumanReadableNumBytes` of `numbers.cc` and
`AllocatorStats::DebugString` of `allocator.cc`.  Line numbers and faulty spaces are TensorFlow's too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from placesim.core.byte_counts import human_readable_bytes
from placesim.machine.memory.allocator_state import Chunk, Pool, Statistics, bin_bytes, bin_of

FILE = "bfc_allocator.cc"
_NO_HANDLE = (1 << 64) - 1
_OCCUPANCY_COLUMNS = 100


class DumpLine(NamedTuple):
    """One line of the log: `severity` is I or W; `file` and `line` are its place in TensorFlow's source."""

    severity: str
    file: str
    line: int
    text: str


def failure_lines(pool: Pool, num_bytes: int, rounded_bytes: int, operation_name: str) -> Iterator[DumpLine]:
    """Yield the lines logged when an allocation of `num_bytes` fails: the request, the dump, and a picture of the memory."""
    yield _warning(
        502,
        f"Allocator ({pool.name}) ran out of memory trying to allocate {human_readable_bytes(num_bytes)} "
        f"(rounded to {rounded_bytes})requested by op {operation_name}\n"
        "If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve "
        "the situation. \n"
        "Current allocation summary follows.\n"
        "Current allocation summary follows.",
    )
    yield from dump_lines(pool, rounded_bytes)
    yield _warning(513, occupancy(pool))


def dump_lines(pool: Pool, rounded_bytes: int) -> Iterator[DumpLine]:
    """Yield the dump of a pool after a failed search for `rounded_bytes`."""
    yield _info(1049, f"BFCAllocator dump for {pool.name}")
    yield from _bin_lines(pool, bin_of(rounded_bytes), rounded_bytes)
    yield from _region_lines(pool)
    yield from _summary_lines(pool)


def out_of_memory_line(name: str, num_bytes: int, freed_by: int, *, important: bool) -> DumpLine:
    """Return the warning for a failed allocation. `important` is False if the caller can continue without the memory."""
    asked = human_readable_bytes(num_bytes)
    text = f"Allocator ({name}) ran out of memory trying to allocate {asked} with freed_by_count={freed_by}."
    if not important:
        text += (
            " The caller indicates that this is not a failure, but this may mean that there could be performance gains if more "
            "memory were available."
        )
    return _warning(311, text)


def collection_line() -> DumpLine:
    """Return the warning that unused regions are returned to the driver."""
    return _warning(
        383,
        "Garbage collection: deallocate free memory regions (i.e., allocations) so that we can re-allocate a larger region to "
        "avoid OOM due to memory fragmentation. If you see this message frequently, you are running near the threshold of the "
        "available device memory and re-allocation may incur great performance overhead. You may try smaller batch sizes to "
        "observe the performance impact. Set TF_ENABLE_GPU_GARBAGE_COLLECTION=false if you'd like to disable this feature.",
    )


def statistics_text(statistics: Statistics) -> str:
    """Return the statistics as eight lines, each with a newline."""
    rows = (
        ("Limit", human_readable_bytes(statistics.bytes_limit)),
        ("InUse", human_readable_bytes(statistics.bytes_in_use)),
        ("MaxInUse", human_readable_bytes(statistics.peak_bytes_in_use)),
        ("NumAllocs", str(statistics.num_allocs)),
        ("MaxAllocSize", human_readable_bytes(statistics.largest_alloc_size)),
        ("Reserved", human_readable_bytes(statistics.bytes_reserved)),
        ("PeakReserved", human_readable_bytes(statistics.peak_bytes_reserved)),
        ("LargestFreeBlock", human_readable_bytes(statistics.largest_free_block_bytes)),
    )
    return "".join(f"{label + ':':<18}{value:>20}\n" for label, value in rows)


def occupancy(pool: Pool) -> str:
    """Return a picture of all regions in 100 characters: `*` requested, `x` allocated beyond the request, `_` free."""
    total = sum(region.size for region in pool.regions)
    if not total:
        return "<allocator contains no memory>"
    columns = ["_"] * _OCCUPANCY_COLUMNS

    def draw(start: int, end: int, mark: str) -> None:
        """Draw `mark` over the bytes from `start` to `end`."""
        if start < end:
            first, last = start * _OCCUPANCY_COLUMNS // total, (end - 1) * _OCCUPANCY_COLUMNS // total
            columns[first : last + 1] = mark * (last + 1 - first)

    start = 0
    for chunk in pool.chunks():
        if chunk.in_use:
            draw(start + chunk.requested_size, start + chunk.size, "x")
            draw(start, start + chunk.requested_size, "*")
        start += chunk.size
    return "".join(columns)


def _bin_lines(pool: Pool, bin_num: int, rounded_bytes: int) -> Iterator[DumpLine]:
    for index, figures in enumerate(pool.bins()):
        yield _info(
            1056,
            f"Bin ({bin_bytes(index)}): \tTotal Chunks: {figures.chunks}, Chunks in use: {figures.chunks_in_use}. "
            f"{human_readable_bytes(figures.bytes)} allocated for chunks. "
            f"{human_readable_bytes(figures.bytes_in_use)} in use in bin. "
            f"{human_readable_bytes(figures.client_bytes_in_use)} client-requested in use in bin.",
        )
    bin_size = human_readable_bytes(bin_bytes(bin_num))
    yield _info(1072, f"Bin for {human_readable_bytes(rounded_bytes)} was {bin_size}, Chunk State: ")
    for chunk in pool.free_chunks(bin_num):
        neighbours = ((", prev: ", chunk.prev), (", next: ", chunk.next))
        text = "".join(label + _chunk_text(neighbour) for label, neighbour in neighbours if neighbour is not None)
        yield _info(1078, _chunk_text(chunk) + text)


def _chunk_text(chunk: Chunk) -> str:
    return (
        f"  Size: {human_readable_bytes(chunk.size)} | Requested Size: {human_readable_bytes(chunk.requested_size)} "
        f"| in_use: {int(chunk.in_use)} | bin_num: {chunk.bin_num}"
    )


def _region_lines(pool: Pool) -> Iterator[DumpLine]:
    for region in pool.regions:
        yield _info(1085, f"Next region of size {region.size}")
        for chunk in region.chunks():
            following = _NO_HANDLE if chunk.next is None else chunk.next.handle
            text = f"{'InUse' if chunk.in_use else 'Free '} at {chunk.address:x} of size {chunk.size} next {following}"
            yield _info(1105, f"{text} freed_at_count {chunk.freed_at_count}" if pool.timed else text)


def _summary_lines(pool: Pool) -> Iterator[DumpLine]:
    counts = Counter(chunk.size for chunk in pool.chunks() if chunk.in_use)
    yield _info(1110, "     Summary of in-use Chunks by size: ")
    for size, count in sorted(counts.items()):
        yield _info(1113, f"{count} Chunks of size {size} totalling {human_readable_bytes(size * count)}")
    in_use = sum(size * count for size, count in counts.items())
    yield _info(1117, f"Sum Total of in-use chunks: {human_readable_bytes(in_use)}")
    pool_bytes = pool.statistics.pool_bytes
    yield _info(
        1119,
        f"Total size in pool: {human_readable_bytes(pool_bytes)} memory_limit_: {human_readable_bytes(pool.memory_limit)} "
        f"available size: {human_readable_bytes(pool.memory_limit - pool_bytes)} "
        f"curr_region_allocation_bytes_: {human_readable_bytes(pool.next_region_bytes)}",
    )
    yield _info(1128, f"Stats: \n{statistics_text(pool.statistics)}")


def _info(line: int, text: str) -> DumpLine:
    return DumpLine("I", FILE, line, text)


def _warning(line: int, text: str) -> DumpLine:
    return DumpLine("W", FILE, line, text)
