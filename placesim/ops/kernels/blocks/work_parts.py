"""Split work into parts that fit into a cache, and that the threads of an op can share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil

BLOCK_BYTES = 1 << 21
"""Size of data that stays in a processor's caches if it is read again soon."""


def parts(total: int, bytes_each: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Split `range(total)` into equal parts of at most `block_bytes`, or one element; an element has `bytes_each` bytes."""
    return even_parts(total, ceil(total / max(1, block_bytes // max(1, bytes_each))))


def even_parts(total: int, count: int, start: int = 0) -> Iterator[slice]:
    """Split `total` elements into at most `count` parts whose sizes differ by at most one."""
    count = max(1, min(count, total))
    for number in range(count):
        # the multiplication distributes the remainder evenly
        yield slice(start + total * number // count, start + total * (number + 1) // count)


@lru_cache(maxsize=1024)
def piece(total: int, longest: int) -> int:
    """Length of equal pieces of `total` elements, at most `longest`; a nearby divisor of `total` is preferred."""
    fewest = ceil(total / longest)
    return next((total // count for count in range(fewest, 2 * fewest) if total % count == 0), longest)


def shares(wanted: int) -> int:
    """Round up to a power of two, a number of parts that two, four or eight threads share evenly."""
    return 1 << (wanted - 1).bit_length() if wanted > 1 else 1


def shares_within(most: int) -> int:
    """Round down to a power of two; see `shares`."""
    return 1 << (most.bit_length() - 1)
