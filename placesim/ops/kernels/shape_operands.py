"""Tensors that give a shape or an axis to a running kernel, with TensorFlow's error texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.shapes import format_dims


def shape_text(tensor: Any) -> str:
    """Return a tensor's shape as TensorFlow prints it: `[2,3]`."""
    return format_dims(np.shape(tensor))


def is_legacy_scalar(tensor: Tensor) -> bool:
    """Whether a tensor is a scalar, or the vector of one element by which old graphs give a scalar."""
    return tensor.ndim == 0 or tensor.shape == (1,)


def shape_of_values(values: Tensor) -> tuple[int, ...]:
    """Return the shape whose dimensions are these integers, in a tensor of any shape.

    Raises InvalidArgumentError for a negative dimension, or for more elements than an int64 can count.
    """
    shape = tuple(int(value) for value in values.reshape(-1))
    for dim in shape:
        if dim < 0:
            raise InvalidArgumentError(f"Dimension {dim} must be >= 0")
    # numpy's message would differ, or its number wrap
    if math.prod(shape) > np.iinfo(np.int64).max:
        raise InvalidArgumentError(f"Shape {format_dims(shape)} would have more than 2**63 - 1 elements")
    return shape


def shape_of_vector(tensor: Tensor, allowed: str = "{int32,int64}") -> tuple[int, ...]:
    """Return the shape that a vector `[rank]` gives. Raises InvalidArgumentError for another rank or an invalid dimension."""
    if tensor.ndim != 1:
        raise InvalidArgumentError(f"shape must be a vector of {allowed}, got shape {shape_text(tensor)}")
    return shape_of_values(tensor)


def broadcast_dims(one: Sequence[int], two: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape to which two known shapes broadcast, or None if they do not fit."""
    rank = max(len(one), len(two))
    left, right = ((1,) * (rank - len(dims)) + tuple(dims) for dims in (one, two))
    if any(a != b and a != 1 and b != 1 for a, b in zip(left, right, strict=True)):
        return None
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))
