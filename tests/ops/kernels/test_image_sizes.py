"""An image's size is looked at before it is decoded: a file of few bytes may spell any."""

from __future__ import annotations

import struct
import zlib

import pytest

import placesim
from placesim.report.report import Report


def make_png(width: int, height: int) -> bytes:
    """A PNG file of that size, one bit a pixel and black, as far as its pixels are there."""
    black = zlib.compress(bytes(min(width // 8 + 2, 1 << 12) * min(height, 1 << 12)), 9)
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)), (b"IDAT", black), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def decode(data: bytes, limit: str) -> Report:
    nodes = [
        {"op": "Placeholder", "name": "file", "dtype": "string"},
        {"op": "DecodeImage", "name": "image", "inputs": ["file"], "attrs": {"channels": 3}},
    ]
    return placesim.run({"nodes": nodes, "fetch": ["image"]}, feed={"file": data}, memory_limit=limit)


def test_a_large_image_is_refused_under_a_limit() -> None:
    data = make_png(4096, 4096)
    assert len(data) < 1 << 14
    with pytest.raises(
        placesim.ResourceExhaustedError, match=r"OOM when allocating tensor with shape\[4096,4096,1\] and type uint8"
    ):
        decode(data, "100MiB")
    assert decode(data, "1GiB").results["image"].shape == (4096, 4096, 3)


@pytest.mark.parametrize("size", [(1 << 14, 1 << 14), ((1 << 31) - 1, (1 << 31) - 1)])
def test_an_image_of_too_many_pixels_is_no_bug(size: tuple[int, int]) -> None:
    with pytest.raises(placesim.UnimplementedError, match="does not decode images of more than 178956970 pixels"):
        decode(make_png(*size), "1GiB")
