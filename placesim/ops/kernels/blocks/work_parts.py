"""Work cut into parts: small enough for a cache, and for the threads of an op to share."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

BLOCK_BYTES = 1 << 21
"""Of what is made to be read again at once: it stays in a processor's caches."""


def parts(total: int, bytes_each: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Equal parts of `range(total)`, each of at most so many bytes or of one element."""
    return even_parts(total, ceil(total / max(1, block_bytes // max(1, bytes_each))))


def even_parts(total: int, count: int, start: int = 0) -> Iterator[slice]:
    """Split `total` elements into at most `count` parts whose sizes differ by at most one."""
    count = max(1, min(count, total))
    for number in range(count):
        # by multiplication, so that what is left over is spread evenly
        yield slice(start + total * number // count, start + total * (number + 1) // count)


def shares(wanted: int) -> int:
    """At least so many parts, a number that two, four or eight threads share evenly."""
    return 1 << (wanted - 1).bit_length() if wanted > 1 else 1


def shares_within(most: int) -> int:
    """Like `shares`, limited to `most`."""
    return 1 << (most.bit_length() - 1)
