"""Parts of tensors: their keys, and how a saver spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.checkpoints.tensor_slices import Extent, SliceSpec, bounds, parse_slice_spec, slice_key
from placesim.core.errors import InternalError, InvalidArgumentError

WHOLE = Extent()


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=2, max_size=2, unique=True))
def test_keys_sort_as_their_numbers(numbers: list[int]) -> None:
    """The defining property of the ordered code."""
    keys = [slice_key(b"w", (Extent(number, 0),)) for number in sorted(numbers)]
    assert keys == sorted(keys)
    assert keys[0] != keys[1]


def test_keys() -> None:
    assert slice_key(b"w", (Extent(0, 3), WHOLE)) == b"\0w\0\1\1\2\x80\x83\x80\x7f"
    assert slice_key(b"\0\xff", ()) == b"\0\0\xff\xff\0\0\1\0"
    assert slice_key(b"", (Extent(64, 8192),)) == b"\0\0\1\1\1\xc0\x40\xe0\x20\0"


def test_specs() -> None:
    assert parse_slice_spec("") is None
    assert parse_slice_spec("6 5 0,3:-") == SliceSpec((6, 5), (Extent(0, 3), WHOLE))
    with pytest.raises(InvalidArgumentError, match="Expected a pair of numbers or '-' but got 'x': string = x"):
        parse_slice_spec("6 x")


def test_keys_of_slices_sort_as_the_slices_do() -> None:
    assert slice_key(b"v", (Extent(0, 1), Extent())) == b"\0v\0\1\1\2\x80\x81\x80\x7f"
    keys = [slice_key(b"v", (Extent(start, 70),)) for start in (0, 5, 63, 64, 200, 8191, 8192, 1 << 40)]
    assert keys == sorted(keys)
    assert slice_key("a\0\xff".encode(), ()).startswith(b"\0a\0\xff\xc3\xbf\0\1")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("-:-", "Need least two elements in shape_and_slice specification: -:-"),
        ("4 x -:-", "Non numerical dimension in shape_and_slice: 4 x -:-"),
        ("4 0;2", "Expected a pair of numbers or '-' but got '0;2': string = 0;2"),
        ("4 0,0", "Expected non-negative start and positive length but got start = 0, length = 0: string = 0,0"),
    ],
)
def test_specs_of_slices_must_be_well_formed(spec: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_slice_spec(spec)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ((WHOLE,), "Mismatching ranks: shape = [3,2], slice = -"),
        ((Extent(0, 4), WHOLE), "Extent in dimension 0 out of bounds: shape = [3,2], slice = 0,4:-"),
        ((WHOLE, Extent(3)), "Extent in dimension 1 out of bounds: shape = [3,2], slice = -:3,-1"),
        ((Extent(2, -2), WHOLE), "Extent in dimension 0 out of bounds: shape = [3,2], slice = 2,-2:-"),
        ((Extent(-1, 2), WHOLE), "Extent in dimension 0 out of bounds: shape = [3,2], slice = -1,2:-"),
    ],
)
def test_regions_must_lie_in_their_tensor(region: tuple[Extent, ...], message: str) -> None:
    assert bounds((3, 2), (Extent(1), Extent(0, 2))) == (slice(1, 3), slice(0, 2))
    with pytest.raises(InternalError) as caught:
        bounds((3, 2), region)
    assert caught.value.message == message
