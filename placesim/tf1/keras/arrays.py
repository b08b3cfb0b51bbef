"""Functions of arrays in `tf.keras.utils`."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.graphs.tensor_likes import TensorLike


def to_categorical(y: TensorLike, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """One-hot array of class numbers."""
    numbers = np.array(y, dtype="int")
    shape = numbers.shape[:-1] if numbers.ndim > 1 and numbers.shape[-1] == 1 else numbers.shape
    numbers = numbers.ravel()
    count = int(num_classes or numbers.max() + 1)
    return np.eye(count, dtype=dtype)[numbers].reshape(*shape, count)


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """Divide an array by its norms along an axis."""
    lengths = np.atleast_1d(np.linalg.norm(x, order, axis))
    lengths[lengths == 0] = 1
    return x / np.expand_dims(lengths, axis)
