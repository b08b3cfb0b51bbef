"""TensorFlow's BFC allocator ("best fit with coalescing"), which allocates chunks of a device's memory.

It behaves like `bfc_allocator.cc` and `allocator_retry.cc` of TensorFlow 2.21. Each tensor gets the same offset, size and
allocation id as in TensorFlow, and a device runs out of memory at the same allocation.

- A size is rounded up to 256 bytes, and gets the smallest free chunk that is large enough; of equal chunks, the first.
- A chunk is split if it has at least twice this size, or if too much would be wasted; else the caller gets the whole chunk.
- A freed chunk is merged with its free neighbours.
- If no chunk is large enough, the allocator requests a region from the sub-allocator.  The first region has the size of the
  limit, or with `allow_growth` 2 MiB; each further region is twice as large. If a region is refused, the request is repeated,
  each time a tenth smaller.
- If all requests are refused and `garbage_collection` is set, unused regions are returned to the driver, and the search is
  repeated. Then the allocation fails.
- With a timing counter, a freed chunk is not merged until the safe frontier has passed the count of its release.

`TF_BFC_MEMORY_DUMP` is ignored: no file is written.  An allocator takes no lock, so threads that share one need their own.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from placesim.core.errors import DefectError, InvalidArgumentError
from placesim.machine.memory.allocator_log import DumpLine, collection_line, failure_lines, out_of_memory_line
from placesim.machine.memory.allocator_settings import BfcOptions, FailureLog, TimingCounter, max_waste_bytes
from placesim.machine.memory.allocator_state import FREE, Chunk, Pool, Region, Statistics, rounded_down, rounded_up
from placesim.machine.memory.chunk_table import ChunkTable
from placesim.machine.memory.sub_allocator import SubAllocator

FIRST_REGION_BYTES = 2 << 20
"""Size of the first region with `allow_growth`, unless the limit is smaller."""
_SINGLE = struct.Struct("f")
_SINGLE_BITS = 24
_NINE_TENTHS_NUMERATOR, _NINE_TENTHS_DENOMINATOR = 15099494, 1 << 24
"""The single-precision value of 0.9, as a fraction."""


class BfcAllocator:
    """A BFC allocator: `allocate` returns a Chunk, or None if there is no room, and `deallocate` frees it.

    - name: the name in the log, such as `GPU_0_bfc`.
    - memory_limit: bytes, rounded down to a multiple of 256.
    - sub_allocator: the source of regions.
    - failures: the failure count of the process, shared by all its allocators.
    - log: receives each line; without it, no lines are made.
    - wait_for_memory: called when TensorFlow would wait for memory; returns whether memory was freed within 10 s. Without this
      function, no memory is freed.
    - timing_counter: makes the allocator work with timestamps (`timestamped_allocator`).

    The constructor raises InvalidArgumentError if the limit is negative, or its fragmentation fraction is less than a byte.
    """

    __slots__ = (
        "_bytes_in_use",
        "_chunks",
        "_largest_alloc_size",
        "_max_waste",
        "_next_allocation_id",
        "_next_region_bytes",
        "_num_allocs",
        "_peak_bytes_in_use",
        "_peak_pool_bytes",
        "_pool_bytes",
        "_regions",
        "_safe_frontier",
        "_sub_allocator",
        "_timestamped",
        "failures",
        "log",
        "memory_limit",
        "name",
        "options",
        "timing_counter",
        "wait_for_memory",
    )

    def __init__(
        self,
        name: str,
        memory_limit: int,
        sub_allocator: SubAllocator,
        options: BfcOptions | None = None,
        *,
        failures: FailureLog | None = None,
        log: Callable[[DumpLine], object] | None = None,
        wait_for_memory: Callable[[], bool] | None = None,
        timing_counter: TimingCounter | None = None,
    ) -> None:
        options = options or BfcOptions()
        if memory_limit < 0:
            raise InvalidArgumentError(f"allocator {name}: its memory limit is {memory_limit} bytes; expected 0 or more")
        self.name = name
        self.memory_limit = memory_limit
        self.options = options
        self.failures = failures or FailureLog()
        self.log = log
        self.wait_for_memory = wait_for_memory
        self.timing_counter = timing_counter
        self._max_waste = max_waste_bytes(name, memory_limit, options.fragmentation_fraction)
        self._sub_allocator = sub_allocator
        first = min(memory_limit, FIRST_REGION_BYTES) if options.allow_growth else memory_limit
        self._next_region_bytes = rounded_up(first)
        self._chunks = ChunkTable()
        self._regions: list[Region] = []
        self._timestamped: deque[Chunk] = deque()
        self._safe_frontier = 0
        self._next_allocation_id = 1
        self._num_allocs = 0
        self._bytes_in_use = 0
        self._peak_bytes_in_use = 0
        self._largest_alloc_size = 0
        self._pool_bytes = 0
        self._peak_pool_bytes = 0

    def allocate(self, num_bytes: int, *, retry: bool = True, freed_by: int = 0, operation_name: str = "") -> Chunk | None:
        """Allocate a chunk of at least `num_bytes`.  Return None if there is no room, and for 0 bytes.

        - retry: whether the caller needs the memory and would wait for it (`retry_on_failure`).  It is False for optional
          scratch space.  `retry` also determines the log of a failure.
        - freed_by: with a timing counter, use only chunks that were freed up to this count; 0 allows all.
        - operation_name: the node for the log.

        Raises InvalidArgumentError for a negative size.
        """
        if num_bytes > 0 and self.timing_counter is None:
            rounded = rounded_up(num_bytes)
            found = self._chunks.take(rounded)
            if found is not None:
                return self._hand_out(found, num_bytes, rounded)
        if num_bytes < 0:
            raise InvalidArgumentError(f"allocator {self.name}: asked for {num_bytes} bytes; expected 0 or more")
        if retry and self.options.allow_retry_on_failure:
            return self._allocate_with_retry(num_bytes, freed_by, operation_name)
        dump = retry and self.failures.is_open
        chunk = self._attempt(num_bytes, freed_by, operation_name, dump=dump)
        if chunk is None and self.failures.is_open:
            self.failures.logged += 1
            if self.log:
                self.log(out_of_memory_line(self.name, num_bytes, freed_by, important=retry))
        return chunk

    def deallocate(self, chunk: Chunk | None) -> None:
        """Free a chunk that `allocate` returned; None is ignored.

        Raises DefectError for a chunk that is not in use.
        """
        if chunk is None:
            return
        if chunk.allocation_id == FREE:
            raise DefectError(f"allocator {self.name}: {chunk!r} was freed, but it is not in use")
        chunk.allocation_id = FREE
        self._bytes_in_use -= chunk.size
        if self.timing_counter is None:
            self._chunks.put_joined(chunk)
        else:
            chunk.freed_at_count = self.timing_counter.next()
            self._timestamped.append(chunk)
            self._chunks.put(chunk)

    def advance_safe_frontier(self, count: int) -> None:
        """Allow merging and using chunks that were freed before this count. A count below an earlier one is ignored."""
        self._safe_frontier = max(self._safe_frontier, count)

    def clear_statistics(self) -> None:
        """Reset the counters and set the peak to the current use, like TensorFlow's ClearStats. Pool counters are kept."""
        self._num_allocs = 0
        self._peak_bytes_in_use = self._bytes_in_use
        self._largest_alloc_size = 0

    def statistics(self) -> Statistics:
        """Return the current statistics."""
        return Statistics(
            num_allocs=self._num_allocs,
            bytes_in_use=self._bytes_in_use,
            peak_bytes_in_use=self._peak_bytes_in_use,
            largest_alloc_size=self._largest_alloc_size,
            bytes_limit=self.memory_limit,
            pool_bytes=self._pool_bytes,
            peak_pool_bytes=self._peak_pool_bytes,
        )

    def fragmentation(self) -> float:
        """Return the share of the free bytes that lies outside the largest free chunk; NaN if no bytes are free.

        The result is rounded to single precision, like MemAllocatorStats.fragmentation_metric in a memory profile.
        """
        free = self._pool_bytes - self._bytes_in_use
        if not free:
            return float("nan")
        share: float = _SINGLE.unpack(_SINGLE.pack((free - self._chunks.largest_free) / free))[0]
        return share

    def pool(self) -> Pool:
        """Return the current regions, chunks and statistics, which are valid until the next use of the allocator."""
        return Pool(
            name=self.name,
            memory_limit=self.memory_limit,
            next_region_bytes=self._next_region_bytes,
            statistics=self.statistics(),
            regions=tuple(self._regions),
            timed=self.timing_counter is not None,
        )

    @property
    def bytes_in_use(self) -> int:
        """Total size of the chunks in use."""
        return self._bytes_in_use

    # One allocation

    def _allocate_with_retry(self, num_bytes: int, freed_by: int, operation_name: str) -> Chunk | None:
        """Try twice, and again whenever memory is freed.  After 10 s try twice more, and log the last failure."""
        chunk = self._attempt(num_bytes, freed_by, operation_name, dump=False)
        if chunk is not None or num_bytes == 0:
            return chunk
        waiting = True
        while (chunk := self._attempt(num_bytes, freed_by, operation_name, dump=False)) is None and waiting:
            waiting = self.wait_for_memory is not None and self.wait_for_memory()
        if chunk is not None:
            return chunk
        return self._attempt(num_bytes, freed_by, operation_name, dump=True)

    def _attempt(self, num_bytes: int, freed_by: int, operation_name: str, *, dump: bool) -> Chunk | None:
        if num_bytes == 0:
            return None
        rounded = rounded_up(num_bytes)
        if self._timestamped:
            self._merge_safe_chunks()
        for made_room in self._ways_to_make_room(rounded, freed_by):
            chunk = self._find(rounded, freed_by) if made_room else None
            if chunk is not None:
                return self._hand_out(chunk, num_bytes, rounded)
        if dump and self.log:
            for line in failure_lines(self.pool(), num_bytes, rounded, operation_name):
                self.log(line)
        return None

    def _ways_to_make_room(self, rounded: int, freed_by: int) -> Iterator[bool]:
        """Try the ways to make room one after another; yield whether searching again is worthwhile."""
        yield True
        yield self._extend(rounded)
        if freed_by == 0 and self._timestamped:
            yield self._merge_until(rounded)
        yield self._collect_free_regions(rounded) and self._extend(rounded)

    def _find(self, rounded: int, freed_by: int) -> Chunk | None:
        return self._chunks.take_freed_by(rounded, freed_by) if freed_by else self._chunks.take(rounded)

    def _hand_out(self, chunk: Chunk, num_bytes: int, rounded: int) -> Chunk:
        """Split off excess bytes, and mark the chunk as used."""
        size = chunk.size
        if size >= 2 * rounded or size - rounded >= self._max_waste:
            self._chunks.split(chunk, rounded)
            size = rounded
        chunk.requested_size = num_bytes
        chunk.allocation_id = self._next_allocation_id
        self._next_allocation_id += 1
        self._num_allocs += 1
        in_use = self._bytes_in_use = self._bytes_in_use + size
        if in_use > self._peak_bytes_in_use:
            self._peak_bytes_in_use = in_use
        if size > self._largest_alloc_size:
            self._largest_alloc_size = size
        return chunk

    # Regions

    def _extend(self, rounded: int) -> bool:
        """Request a region with room for `rounded` bytes; return whether that succeeded."""
        available = rounded_down(self.memory_limit - self._pool_bytes)
        if rounded > available:
            return False
        raised = False
        while rounded > self._next_region_bytes:
            self._next_region_bytes *= 2
            raised = True
        size = min(self._next_region_bytes, available)
        address = self._sub_allocator.allocate(size)
        while address is None:
            refused, size = size, _nine_tenths(size)
            # if nine tenths round up to the same size, TensorFlow would repeat the request forever
            if size < rounded or size == refused:
                return False
            address = self._sub_allocator.allocate(size)
        if not raised:
            self._next_region_bytes *= 2
        self._pool_bytes += size
        self._peak_pool_bytes = max(self._peak_pool_bytes, self._pool_bytes)
        self._add_region(address, size)
        return True

    def _add_region(self, address: int, size: int) -> None:
        """Add a free chunk, as a new region or at the end of an adjoining region."""
        chunk = self._chunks.new_chunk(address, size)
        at = bisect_right(self._regions, address, key=lambda region: region.end)
        before = self._regions[at - 1] if at else None
        if self._sub_allocator.coalesces and before is not None and before.end == address:
            last = before.first
            while last.next is not None:
                last = last.next
            before.size += size
            last.next, chunk.prev = chunk, last
        else:
            self._regions.insert(at, Region(address, size, chunk))
        self._chunks.put_joined(chunk)

    def _collect_free_regions(self, rounded: int) -> bool:
        """Return all unused regions to the driver, if that would free enough bytes. Return whether regions were returned."""
        if not self.options.garbage_collection:
            return False
        kept: list[Region] = []
        unused: list[Region] = []
        for region in self._regions:
            (kept if any(chunk.in_use for chunk in region.chunks()) else unused).append(region)
        total = sum(region.size for region in unused)
        if total == 0 or rounded > self.memory_limit - self._pool_bytes + total:
            return False
        if self.log:
            self.log(collection_line())
        for region in unused:
            self._chunks.delete_region(region)
            self._sub_allocator.free(region.address, region.size)
            self._pool_bytes -= region.size
        self._regions = kept
        return True

    # Timestamps

    def _merge_safe_chunks(self) -> None:
        """Merge chunks freed before the safe frontier; the rest stays queued."""
        safe: list[int] = []
        held: deque[Chunk] = deque()
        for chunk in self._queued_chunks():
            if chunk.freed_at_count < self._safe_frontier:
                chunk.freed_at_count = 0
            if chunk.freed_at_count:
                held.append(chunk)
            else:
                safe.append(chunk.address)
        self._timestamped = held
        for chunk in self._still_chunks(safe):
            self._chunks.rejoin(chunk, whenever_freed=False)

    def _merge_until(self, rounded: int) -> bool:
        """Merge queued chunks, regardless of their counts, until a chunk has at least this size. Return whether one has."""
        queued = [chunk.address for chunk in self._queued_chunks()]
        self._timestamped = deque()
        satisfied = False
        for chunk in self._still_chunks(queued):
            if satisfied:
                self._timestamped.append(chunk)
                continue
            joined = self._chunks.rejoin(chunk, whenever_freed=True)
            if joined is not chunk and joined.freed_at_count:
                self._timestamped.append(joined)
            satisfied = joined.size >= rounded
        return satisfied

    def _queued_chunks(self) -> Iterator[Chunk]:
        """Return the queued chunks that are still free, since a record may have been reused or deleted after it was queued."""
        return (chunk for chunk in self._timestamped if chunk.size and chunk.allocation_id == FREE)

    def _still_chunks(self, addresses: Iterable[int]) -> Iterator[Chunk]:
        """Yield the chunks that still begin at these addresses; earlier merges may have absorbed some."""
        for address in addresses:
            chunk = self._chunks.chunk_at(address)
            if chunk is not None:
                yield chunk


def _nine_tenths(size: int) -> int:
    """Return the size to request after this size was refused: 0.9 times the size in single precision, like TensorFlow."""
    return rounded_up(_single(_single(size) * _NINE_TENTHS_NUMERATOR) // _NINE_TENTHS_DENOMINATOR)


def _single(value: int) -> int:
    """Round an integer to the nearest single-precision number, ties to even."""
    drop = max(0, value.bit_length() - _SINGLE_BITS)
    whole, rest = value >> drop, value & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    if drop and (rest > half or (rest == half and whole & 1)):
        whole += 1
    return whole << drop
