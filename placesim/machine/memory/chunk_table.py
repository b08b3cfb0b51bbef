"""Chunks of an allocator and their records: splitting, merging and lookup."""

from __future__ import annotations

from placesim.machine.memory.allocator_state import FREE, Chunk, Region
from placesim.machine.memory.free_chunks import FreeChunks


class ChunkTable:
    """All chunks by address, and free chunks in bin order.

    The record deleted last is reused first, so that a dump shows the same handles as TensorFlow's.
    """

    __slots__ = ("_at", "_free", "_length", "_unused")

    def __init__(self) -> None:
        self._at: dict[int, Chunk] = {}
        self._free = FreeChunks()
        self._unused: list[Chunk] = []
        self._length = 0

    @property
    def largest_free(self) -> int:
        """Size of the largest free chunk in bytes; 0 if there is none."""
        return self._free.largest

    def chunk_at(self, address: int) -> Chunk | None:
        """Return the chunk that begins at an address; None if there is none."""
        return self._at.get(address)

    def new_chunk(self, address: int, size: int, freed_at_count: int = 0) -> Chunk:
        """Add a chunk that has no neighbours and is in no bin.  A reused record keeps its old requested size."""
        if self._unused:
            chunk = self._unused.pop()
        else:
            chunk = Chunk(self._length)
            self._length += 1
        chunk.address = address
        chunk.size = size
        chunk.freed_at_count = freed_at_count
        self._at[address] = chunk
        return chunk

    def take(self, size: int) -> Chunk | None:
        """Remove the first free chunk of at least this size from its bin and return it; None if there is none."""
        address = self._free.take(size)
        return self._at[address] if address >= 0 else None

    def take_freed_by(self, size: int, count: int) -> Chunk | None:
        """Like `take`, but only for chunks that were freed at this count or before."""
        for address in self._free.of_at_least(size):
            chunk = self._at[address]
            if chunk.freed_at_count <= count:
                self._free.remove(chunk.size, address)
                return chunk
        return None

    def put(self, chunk: Chunk) -> None:
        """Put a free chunk into its bin."""
        self._free.add(chunk.size, chunk.address)

    def put_joined(self, chunk: Chunk, *, whenever_freed: bool = False) -> Chunk:
        """Merge a free chunk, which is in no bin, with its free neighbours, put the result into its bin and return it.

        The record of the first chunk remains.  Chunks with a count of their release are not merged unless `whenever_freed` is
        set.
        """
        if whenever_freed or not chunk.freed_at_count:
            following, before = chunk.next, chunk.prev
            if following is not None and following.allocation_id == FREE and (whenever_freed or not following.freed_at_count):
                self._free.remove(following.size, following.address)
                self._merge(chunk, following)
            if before is not None and before.allocation_id == FREE and (whenever_freed or not before.freed_at_count):
                self._free.remove(before.size, before.address)
                self._merge(before, chunk)
                chunk = before
        self._free.add(chunk.size, chunk.address)
        return chunk

    def rejoin(self, chunk: Chunk, *, whenever_freed: bool) -> Chunk:
        """Like `put_joined`, for a chunk that is already in its bin."""
        self._free.remove(chunk.size, chunk.address)
        return self.put_joined(chunk, whenever_freed=whenever_freed)

    def split(self, chunk: Chunk, size: int) -> None:
        """Split a chunk: it keeps the first `size` bytes, and the rest becomes a free chunk."""
        rest = self.new_chunk(chunk.address + size, chunk.size - size, chunk.freed_at_count)
        following = chunk.next
        rest.prev, rest.next = chunk, following
        if following is not None:
            following.prev = rest
        chunk.next = rest
        chunk.size = size
        self._free.add(rest.size, rest.address)

    def delete_region(self, region: Region) -> None:
        """Remove the chunks of a region that is entirely free."""
        for chunk in region.chunks():
            self._free.remove(chunk.size, chunk.address)
            self._delete(chunk)

    def _merge(self, first: Chunk, second: Chunk) -> None:
        following = second.next
        first.next = following
        if following is not None:
            following.prev = first
        first.size += second.size
        if second.freed_at_count > first.freed_at_count:
            first.freed_at_count = second.freed_at_count
        self._delete(second)

    def _delete(self, chunk: Chunk) -> None:
        del self._at[chunk.address]
        chunk.size = 0
        chunk.prev = chunk.next = None
        self._unused.append(chunk)
