"""Free chunks of an allocator, in the order in which TensorFlow searches its bins: by size, then by address.

A bin holds chunks with sizes between two powers of two, so bins one after another are in order of size too. TensorFlow's best
fit is therefore the first chunk that is large enough.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

ADDRESS_BITS = 64
_ADDRESS = (1 << ADDRESS_BITS) - 1
_MOST = 1024
"""Maximum keys per block, so that inserting a key moves only a few kilobytes."""
_FEW = _MOST // 8


class FreeChunks:
    """A sorted collection of pairs of size and address, whose changes stay cheap with a million chunks.

    A key is one integer: its upper bits are the size, its lower bits the address.  Keys are stored in sorted blocks, next to a
    list of the last key of each block.  A full block is halved, and a block with few keys is merged with its neighbour.
    """

    __slots__ = ("_blocks", "_lasts")

    def __init__(self) -> None:
        self._blocks: list[list[int]] = []
        self._lasts: list[int] = []

    def add(self, size: int, address: int) -> None:
        """Add a chunk that is not present."""
        key = size << ADDRESS_BITS | address
        lasts = self._lasts
        at = bisect_left(lasts, key)
        if at < len(lasts):
            block = self._blocks[at]
            insort(block, key)
        elif lasts:
            at -= 1
            block = self._blocks[at]
            block.append(key)
            lasts[at] = key
        else:
            block = [key]
            self._blocks.append(block)
            lasts.append(key)
        if len(block) > _MOST:
            self._halve(at)

    def remove(self, size: int, address: int) -> None:
        """Remove a chunk that is present."""
        key = size << ADDRESS_BITS | address
        at = bisect_left(self._lasts, key)
        self._delete(at, bisect_left(self._blocks[at], key))

    def take(self, size: int) -> int:
        """Remove the first chunk of at least this size and return its address; -1 if there is none."""
        key = size << ADDRESS_BITS
        lasts = self._lasts
        at = bisect_left(lasts, key)
        if at == len(lasts):
            return -1
        block = self._blocks[at]
        within = bisect_left(block, key)
        found = block[within]
        self._delete(at, within)
        return found & _ADDRESS

    def of_at_least(self, size: int) -> Iterator[int]:
        """Yield the addresses of all chunks of at least this size, in order."""
        key = size << ADDRESS_BITS
        start = bisect_left(self._lasts, key)
        for at in range(start, len(self._blocks)):
            block = self._blocks[at]
            within = bisect_left(block, key) if at == start else 0
            for index in range(within, len(block)):
                yield block[index] & _ADDRESS

    @property
    def largest(self) -> int:
        """Size of the largest chunk; 0 if there is none."""
        return self._lasts[-1] >> ADDRESS_BITS if self._lasts else 0

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def _delete(self, at: int, within: int) -> None:
        block = self._blocks[at]
        del block[within]
        if len(block) < _FEW and len(self._blocks) > 1:
            self._join(at)
        elif not block:
            del self._blocks[at], self._lasts[at]
        elif within == len(block):
            self._lasts[at] = block[-1]

    def _join(self, at: int) -> None:
        at -= at > 0
        joined = self._blocks[at]
        joined += self._blocks.pop(at + 1)
        del self._lasts[at]
        self._lasts[at] = joined[-1]
        if len(joined) > _MOST:
            self._halve(at)

    def _halve(self, at: int) -> None:
        block = self._blocks[at]
        middle = len(block) // 2
        self._blocks.insert(at + 1, block[middle:])
        del block[middle:]
        self._lasts.insert(at, block[-1])
