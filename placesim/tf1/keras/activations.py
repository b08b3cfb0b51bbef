"""`tf.keras.activations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.keras.custom_objects import get_custom_objects

elu, exponential, selu, sigmoid = tf.nn.elu, tf.exp, tf.nn.selu, tf.sigmoid
softplus, softsign, swish, tanh = tf.nn.softplus, tf.nn.softsign, tf.nn.swish, tf.tanh


def linear(x: TensorLike) -> Any:
    """Identity."""
    return x


def hard_sigmoid(x: Any) -> Any:
    """A sigmoid of three straight lines: 0 below -2.5, 1 above 2.5."""
    slope, middle = (tf.constant(number, x.dtype.base_dtype) for number in (0.2, 0.5))
    return tf.clip_by_value(tf.add(tf.multiply(x, slope), middle), 0.0, 1.0)


def relu(x: TensorLike, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    """ReLU, leaky with `alpha`, or limited to `max_value`.  Raises NotImplementedError for a threshold."""
    if threshold != 0.0:
        from placesim.tf1.importing.missing_names import not_there

        raise not_there("keras.activations.relu with a threshold", "without it it is there")
    if alpha != 0.0:
        return tf.nn.leaky_relu(x, alpha=alpha)
    if max_value == 6:
        return tf.nn.relu6(x)
    positive = tf.nn.relu(x)
    if max_value is None:
        return positive
    largest = tf.constant(max_value, positive.dtype.base_dtype)
    return tf.clip_by_value(positive, tf.constant(0.0, positive.dtype.base_dtype), largest)


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax along an axis.  Raises ValueError for a vector."""
    if x.shape.rank == 1:
        raise ValueError(f"Cannot apply softmax to a tensor that is 1D. Received input: {x}")
    return tf.nn.softmax(x, axis=axis)


_NAMES = (
    *("elu", "exponential", "hard_sigmoid", "linear", "relu", "selu"),
    *("sigmoid", "softmax", "softplus", "softsign", "swish", "tanh"),
)


def get(identifier: Any) -> Callable[..., Any]:
    """Activation by name, or the given function.  Raises ValueError."""
    if identifier is None:
        return linear
    if callable(identifier):
        return identifier  # type: ignore[no-any-return]
    if identifier in get_custom_objects():
        return get_custom_objects()[identifier]  # type: ignore[no-any-return]
    if identifier in _NAMES:
        return globals()[identifier]  # type: ignore[no-any-return]
    if not isinstance(identifier, str):
        raise TypeError(f"Could not interpret activation function identifier: {identifier}")
    raise ValueError(
        f"Unknown activation function: '{identifier}'. Please ensure you are using a `keras.utils.custom_object_scope` and "
        "that this object is included in the scope. See "
        "https://www.tensorflow.org/guide/keras/save_and_serialize#registering_the_custom_object for details."
    )
