"""PNG files with the bytes that TensorFlow's libpng writes, as far as Python's zlib is zlib."""

from __future__ import annotations

import zlib

import numpy as np

from placesim.ops.kernels.kernel import Tensor

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
PNG_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
"""libpng's number of a colour type, by the number of channels."""
_LEAST_WINDOW = 9
"""zlib's smallest window, as a power of two; the header of its data may say 8."""
_MEMORY_LEVEL = 9
"""The most memory for zlib's state, which TensorFlow asks for."""
_MOST_DATA = 16384
"""Bytes up to which libpng chooses a window by the size of the image."""
_CHUNK = 8192
"""Bytes in one chunk of data."""


def png_file(pixels: Tensor, level: int = -1) -> bytes:
    """Encode pixels `[rows, columns, channels]` of 8 or 16 bits as a PNG file; `level` is zlib's."""
    rows, columns, channels = pixels.shape
    depth = pixels.dtype.itemsize * 8
    header = b"".join(number.to_bytes(4, "big") for number in (columns, rows)) + bytes((depth, PNG_COLOURS[channels], 0, 0, 0))
    data = _compressed(_filtered(pixels), level)
    chunks = [(b"IDAT", data[start : start + _CHUNK]) for start in range(0, len(data), _CHUNK)]
    return PNG_MAGIC + b"".join(_chunk(*part) for part in ((b"IHDR", header), *chunks, (b"IEND", b"")))


def _filtered(pixels: Tensor) -> bytes:
    """The rows, each by the filter whose result has the least sum of absolute values, after the filter's number."""
    rows, columns = pixels.shape[:2]
    big = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">")))
    lines = big.view(np.uint8).reshape(rows, columns, -1).astype(np.int16)
    padded = np.pad(lines, ((1, 0), (1, 0), (0, 0)))
    left, above, corner = padded[1:, :-1], padded[:-1, 1:], padded[:-1, :-1]
    zero = np.zeros_like(lines)
    guesses = [zero, left, above, (left + above) // 2, _nearest(left, above, corner)]
    # libpng has no use for the row above in an image of one row, nor for the pixel to the left in one column
    left_out = {*((2, 3, 4) if rows == 1 else ()), *((1, 3, 4) if columns == 1 else ())}
    numbers = [number for number in range(len(guesses)) if number not in left_out]
    found = np.stack([(lines - guesses[number]).astype(np.uint8).reshape(rows, -1) for number in numbers])
    sums = np.abs(found.view(np.int8).astype(np.int64)).sum(axis=2)
    best = np.argmin(sums, axis=0)
    kinds = np.array(numbers, np.uint8)[best][:, None]
    return np.concatenate([kinds, found[best, np.arange(rows)]], axis=1).tobytes()


def _nearest(left: Tensor, above: Tensor, corner: Tensor) -> Tensor:
    """Paeth's guess: which of three neighbours is nearest to `left + above - corner`."""
    by_left, by_above, by_corner = np.abs(above - corner), np.abs(left - corner), np.abs(left + above - 2 * corner)
    is_left = (by_left <= by_above) & (by_left <= by_corner)
    return np.where(is_left, left, np.where(by_above <= by_corner, above, corner))


def _compressed(content: bytes, level: int) -> bytes:
    """The content in zlib's format, with the smallest window in the header that holds a small content."""
    window = 15
    while len(content) <= _MOST_DATA and window > 8 and 1 << (window - 1) >= len(content):
        window -= 1
    packer = zlib.compressobj(level, zlib.DEFLATED, max(window, _LEAST_WINDOW), _MEMORY_LEVEL, zlib.Z_FILTERED)
    packed = packer.compress(content) + packer.flush()
    first = (window - 8) << 4 | zlib.DEFLATED
    second = packed[1] & 0b11100000
    return bytes((first, second + -(first * 256 + second) % 31)) + packed[2:]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
