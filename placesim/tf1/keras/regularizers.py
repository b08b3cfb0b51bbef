"""`tf.keras.regularizers`."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.keras.custom_objects import get_custom_objects


class Regularizer:
    """A function from a weight to its part of the loss."""

    def __call__(self, x: TensorLike) -> Any:
        return 0.0


class L1(Regularizer):
    """`l1 * sum(|x|)`."""

    def __init__(self, l1: float = 0.01, **_: object) -> None:
        self.l1 = 0.01 if l1 is None else float(l1)

    def __call__(self, x: TensorLike) -> Any:
        return self.l1 * tf.reduce_sum(tf.abs(x))


class L2(Regularizer):
    """`l2 * sum(x ** 2)`."""

    def __init__(self, l2: float = 0.01, **_: object) -> None:
        self.l2 = 0.01 if l2 is None else float(l2)

    def __call__(self, x: TensorLike) -> Any:
        # an op that halves the sum, so the factor is doubled
        return 2.0 * self.l2 * tf.nn.l2_loss(x)


class L1L2(Regularizer):
    """The sum of L1 and L2 regularization."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = float(l1 or 0.0), float(l2 or 0.0)

    def __call__(self, x: Any) -> Any:
        total = tf.constant(0.0, dtype=x.dtype.base_dtype)
        if self.l1:
            total += self.l1 * tf.reduce_sum(tf.abs(x))
        if self.l2:
            total += 2.0 * self.l2 * tf.nn.l2_loss(x)
        return total


l1, l2 = L1, L2


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """The sum of L1 and L2 regularization."""
    return L1L2(l1, l2)


def get(identifier: object) -> Any:
    """Regularizer by name, or the given function.  Raises ValueError."""
    if identifier is None or callable(identifier):
        return identifier
    kinds: dict[str, Any] = {"l1": L1, "l2": L2, "l1_l2": lambda: L1L2(0.01, 0.01), "L1": L1, "L2": L2, "L1L2": L1L2}
    kinds |= get_custom_objects()
    if identifier in kinds:
        return kinds[identifier]()
    raise ValueError(f"Could not interpret regularizer identifier: {identifier}")
