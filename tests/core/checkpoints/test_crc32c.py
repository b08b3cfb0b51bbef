"""Checksums: those of the standard, of all sizes, in one go and in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.checkpoints.crc32c import crc32c, extend, mask, unmask


def slow_crc32c(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def test_published_checksums() -> None:
    """RFC 3720, section B.4."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283
    assert mask(0xE3069283) != 0xE3069283


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 5000, 8192, 8193, 16384, 70_001, 300_007])
def test_checksums_of_all_sizes(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    assert crc32c(data) == slow_crc32c(data)
    assert crc32c(np.frombuffer(data, np.uint8)) == crc32c(memoryview(data)) == crc32c(data)
    for first in (0, size // 3, size - size // 5):
        assert extend(crc32c(data[:first]), data[first:]) == crc32c(data)


def test_the_checksum_of_more_than_a_block() -> None:
    """Linearity: messages of one length, added bit by bit, have the added checksums, but for that of zeros."""
    data = bytes(range(256)) * (5 << 12)
    for half in (1, 1 << 20, len(data) - 7):
        first, second = data[:half] + bytes(len(data) - half), bytes(half) + data[half:]
        assert crc32c(data) == crc32c(first) ^ crc32c(second) ^ crc32c(bytes(len(data)))
        assert crc32c(data) == extend(crc32c(data[:half]), data[half:])


@given(st.integers(0, 0xFFFFFFFF))
def test_masks(checksum: int) -> None:
    assert unmask(mask(checksum)) == checksum
