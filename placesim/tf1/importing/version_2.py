"""Functions of `tensorflow.compat.v2` whose arguments or nodes differ from those of version 1."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.array.creation import ones_like_v2


def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros of a tensor's shape."""
    return tf.zeros_like(input, dtype, name)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements of `x` or `y`, which are broadcast; or the places of true elements."""
    return tf.where_v2(condition, x, y, name)


def while_loop(cond: Any, body: Any, loop_vars: Any, **options: Any) -> Any:
    """Loop whose result has the structure of `loop_vars`, also for a single variable."""
    return tf.while_loop(cond, body, loop_vars, return_same_structure=True, **options)


def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Any:
    """Loss of each row, differentiable in the labels too."""
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels, logits, axis, name)


def Variable(initial_value: Any = None, **options: Any) -> Any:  # noqa: N802 - TensorFlow's name
    """Resource variable."""
    return tf.Variable(initial_value, use_resource=True, **options)


FUNCTIONS = {
    "nn.softmax_cross_entropy_with_logits": softmax_cross_entropy_with_logits,
    "ones_like": ones_like_v2,
    **{function.__name__: function for function in (zeros_like, where, while_loop, Variable)},
}
"""By name, without `tf.compat.v2.`; all others are as in version 1."""
