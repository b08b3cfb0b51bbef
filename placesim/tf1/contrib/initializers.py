"""`tf.contrib.layers`' initializers, whose variance depends on the numbers of inputs and outputs of a weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike

_FANS: dict[str, Callable[[float, float], float]] = {
    "FAN_IN": lambda inputs, outputs: inputs,
    "FAN_OUT": lambda inputs, outputs: outputs,
    "FAN_AVG": lambda inputs, outputs: (inputs + outputs) / 2.0,
}


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: DTypeLike = tf.float32
) -> Callable[..., Any]:
    """Initializer with variance `factor / n`; n is the number of inputs, of outputs, or their mean.  Raises TypeError."""
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in _FANS:
        raise TypeError("Unknown mode %s [FAN_IN, FAN_OUT, FAN_AVG]", mode)

    def _initializer(shape: ShapeLike, dtype: DTypeLike = dtype, partition_info: object = None) -> Any:
        if not tf.as_dtype(dtype).is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        sizes = tf.TensorShape(shape).as_list()
        inputs = outputs = float(sizes[-1]) if sizes else 1.0
        inputs = float(sizes[-2]) if len(sizes) > 1 else inputs
        for window in sizes[:-2]:
            inputs, outputs = inputs * float(window), outputs * float(window)
        count = _FANS[mode](inputs, outputs)
        if uniform:
            limit = math.sqrt(3.0 * factor / count)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # Truncation at two standard deviations divides the variance by about 1.3.
        return tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / count), dtype, seed=seed)

    return _initializer


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: DTypeLike = tf.float32) -> Callable[..., Any]:
    """Initializer that keeps the scale of gradients about the same in all layers."""
    return variance_scaling_initializer(factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed, dtype=dtype)


xavier_initializer_conv2d = xavier_initializer
