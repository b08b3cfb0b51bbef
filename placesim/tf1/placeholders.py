"""`tf.placeholder` and its kin."""

from __future__ import annotations

from typing import Any

from placesim.tf1.generated import gen
from placesim.tf1.shapes import TensorShape
from placesim.tf1.tensor import Tensor


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """`tf.placeholder`."""
    return gen("Placeholder")(dtype=dtype, shape=TensorShape(shape), name=name)  # type: ignore[no-any-return]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """`tf.placeholder_with_default`."""
    return gen("PlaceholderWithDefault")(input, TensorShape(shape), name=name)  # type: ignore[no-any-return]
