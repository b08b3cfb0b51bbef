"""Checks and sizes of images for `tf.image`, and conversion of an image to a batch."""

from __future__ import annotations

from typing import Any

from placesim.tf1.array.shaping import expand_dims, rank, unstack
from placesim.tf1.array.shaping import shape as array_shape
from placesim.tf1.graphs.tensor import Tensor


def checked(image: Tensor, least_rank: int = 3) -> list[Any]:
    """Make assertions for an image with a partly unknown shape.  Raises ValueError for an invalid static shape."""
    shape = image.shape
    if shape.rank is not None and shape.rank < least_rank:
        raise ValueError(f"'image' (shape {shape}) must be at least three-dimensional.")
    last = shape[-3:] if shape.rank is not None else None
    if last is not None and any(dim.value == 0 for dim in last):
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {shape}")
    if shape.rank is not None and shape[-3:].is_fully_defined():
        return []
    from placesim.tf1.assertions.conditions import assert_greater_equal, assert_positive

    return [
        assert_positive(array_shape(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."]),
        assert_greater_equal(rank(image), 3, message="'image' must be at least three-dimensional."),
    ]


def sizes_of(image: Tensor, rank: int) -> list[Any]:
    """Size of each dimension: a number if known, else a tensor."""
    if image.shape.is_fully_defined():
        return list(image.shape.as_list())
    static = image.shape.with_rank(rank).as_list()
    dynamic = unstack(array_shape(image), rank)
    return [size if size is not None else found for size, found in zip(static, dynamic, strict=True)]


def as_batch(image: Tensor) -> tuple[Tensor, bool]:
    """Convert an image or a batch to a batch `[N, H, W, C]`; return it, and whether it was a batch before."""
    known = image.shape.rank
    if known is None:
        image = expand_dims(image, 0)
        image.set_shape([None] * 4)
        return image, False
    if known == 3:
        return expand_dims(image, 0), False
    if known != 4:
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    return image, True
