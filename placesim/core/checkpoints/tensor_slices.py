"""Regions of partitioned tensors: their text form in a saver's graph, and their keys in a checkpoint.

Keys are encoded such that they sort like the values in them. Source: TensorFlow's `tensor_slice.cc`, `ParseShapeAndSlice`,
`EncodeTensorNameSlice` and its `OrderedCode`.
"""

from __future__ import annotations

from typing import NamedTuple

from placesim.core.errors import InternalError, InvalidArgumentError

FULL = -1
"""Length of an extent that covers a dimension to its end."""


class Extent(NamedTuple):
    """The range of one dimension in a region; by default the whole dimension."""

    start: int = 0
    length: int = FULL

    def __str__(self) -> str:
        return "-" if self == (0, FULL) else f"{self.start},{self.length}"


Region = tuple[Extent, ...]


class SliceSpec(NamedTuple):
    """A part of a tensor that a saver requests: the full shape and the region."""

    shape: tuple[int, ...]
    region: Region


def bounds(shape: tuple[int, ...], region: Region) -> tuple[slice, ...]:
    """Return a region of a tensor of `shape` as numpy slices. Raises InternalError if it lies outside."""
    shown = f"shape = [{','.join(map(str, shape))}], slice = {format_region(region)}"
    if len(shape) != len(region):
        raise InternalError(f"Mismatching ranks: {shown}")
    found = []
    for axis, (size, extent) in enumerate(zip(shape, region, strict=True)):
        end = size if extent.length == FULL else extent.start + extent.length
        if not 0 <= extent.start <= end <= size:
            raise InternalError(f"Extent in dimension {axis} out of bounds: {shown}")
        found.append(slice(extent.start, end))
    return tuple(found)


# --- as text --------------------------------------------------------------------------------------------------------


def parse_slice_spec(text: str) -> SliceSpec | None:
    """Parse `6 5 0,3:-` (full shape, then extents); None for an empty text, which means the whole tensor.

    Raises InvalidArgumentError with TensorFlow's message.
    """
    if not text:
        return None
    *sizes, last = text.split(" ")
    if not sizes:
        raise InvalidArgumentError(f"Need least two elements in shape_and_slice specification: {text}")
    region = tuple(_parse_extent(part, last) for part in last.split(":") if part)
    try:
        return SliceSpec(tuple(map(int, sizes)), region)
    except ValueError:
        raise InvalidArgumentError(f"Non numerical dimension in shape_and_slice: {text}") from None


def _parse_extent(part: str, text: str) -> Extent:
    if part == "-":
        return Extent()
    try:
        start, length = map(int, part.split(","))
    except ValueError:
        raise InvalidArgumentError(f"Expected a pair of numbers or '-' but got '{part}': string = {text}") from None
    if start < 0 or length <= 0:
        raise InvalidArgumentError(
            f"Expected non-negative start and positive length but got start = {start}, length = {length}: string = {text}"
        )
    return Extent(start, length)


def format_region(region: Region) -> str:
    """Format a region, for example `-:0,2`."""
    return ":".join(map(str, region))


# --- as keys --------------------------------------------------------------------------------------------------------


def slice_key(name: bytes, region: Region) -> bytes:
    """Return the key of a part of a tensor."""
    key = _unsigned(0) + _escaped(name) + _unsigned(len(region))
    return key + b"".join(_signed(extent.start) + _signed(extent.length) for extent in region)


def _unsigned(value: int) -> bytes:
    """Encode a number as its byte count followed by its bytes, highest first; zero has no bytes after the count."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _escaped(text: bytes) -> bytes:
    """Encode bytes with an end mark that sorts before everything else."""
    return b"\xff\0".join(part.replace(b"\0", b"\0\xff") for part in text.split(b"\xff")) + b"\0\1"


def _signed(value: int) -> bytes:
    """Encode a signed number so that encoded bytes sort like numbers. The leading bits of the first byte give the length."""
    size = (~value if value < 0 else value).bit_length() // 7 + 1
    header = (1 << size) - 1 << 7 * size
    return ((value & (1 << 8 * size) - 1) ^ header).to_bytes(size, "big")
