"""CRC-32C (Castagnoli) checksums, also in the masked form in which tables, checkpoints and records store them.

Source: RFC 3720 section 12.1; for the mask, LevelDB's table format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
Buffer = bytes | bytearray | memoryview | np.ndarray[Any, Any]


def crc32c(data: Buffer) -> int:
    """Return the checksum of `data`."""
    return extend(0, data)


def extend(checksum: int, data: Buffer) -> int:
    """Return the checksum of earlier bytes followed by `data`; `checksum` is the checksum of the earlier bytes."""
    import google_crc32c  # graphs that are no checkpoints need none

    # google-crc32c takes bytes and arrays, but no memoryview; this array shares the bytes
    return int(google_crc32c.extend(checksum, data if isinstance(data, bytes) else _as_array(data)))


def _as_array(data: Buffer) -> np.ndarray[Any, Any]:
    return np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)


def unmask(masked: int) -> int:
    """Return the checksum that a stored form contains."""
    rotated = (masked - _MASK_DELTA) & _ALL_ONES
    return (rotated >> 17 | rotated << 15) & _ALL_ONES


def mask(checksum: int) -> int:
    """Return the stored form of a checksum.

    Stored checksums are masked, because the checksum of data that contains unmasked checksums is a weak test.
    """
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & _ALL_ONES
