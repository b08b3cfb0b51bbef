"""`tf.contrib.layers`' regularizers: functions from a weight to its part of the loss."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike, TypedTensor

Regularizer = Callable[[Any], Any]


def _nothing(_: object) -> None:
    return None


def _check(scale: TensorLike, argument: str = "scale", is_number: bool = True) -> None:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"{argument} cannot be an integer: {scale}")
    if is_number and isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale:g}")


def l1_regularizer(scale: float | Tensor, scope: str | None = None) -> Regularizer:
    """`scale * sum(|weights|)`.  Raises ValueError for a scale that is an integer or below 0."""
    _check(scale)
    if scale == 0.0 and isinstance(scale, numbers.Real):
        return _nothing

    def l1(weights: TypedTensor, name: str | None = None) -> Any:
        with tf.name_scope(scope, "l1_regularizer", [weights]) as inside:
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, tf.reduce_sum(tf.abs(weights)), name=inside)

    return l1


def l2_regularizer(scale: float | Tensor, scope: str | None = None) -> Regularizer:
    """`scale * sum(weights ** 2) / 2`.  Raises ValueError for a scale that is an integer or below 0."""
    _check(scale)
    if scale == 0.0 and isinstance(scale, numbers.Real):
        return _nothing

    def l2(weights: TypedTensor) -> Any:
        with tf.name_scope(scope, "l2_regularizer", [weights]) as inside:
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, tf.nn.l2_loss(weights), name=inside)

    return l2


def l1_l2_regularizer(scale_l1: float | Tensor = 1.0, scale_l2: float | Tensor = 1.0, scope: str | None = None) -> Regularizer:
    """Sum of an L1 and an L2 regularizer."""
    _check(scale_l1, "scale_l1", False)
    _check(scale_l2, "scale_l2", False)
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)  # type: ignore[no-any-return]


def sum_regularizer(regularizer_list: Sequence[Regularizer | None], scope: str | None = None) -> Any:
    """Sum of regularizers; None for an empty list."""
    regularizers = [one for one in regularizer_list if one is not None]
    if not regularizers:
        return None

    def sum_reg(weights: TensorLike) -> Any:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as inside:
            found = [loss for loss in (one(weights) for one in regularizers) if loss is not None]
            return tf.add_n(found, name=inside) if found else None

    return sum_reg


def apply_regularization(regularizer: Regularizer, weights_list: Sequence[TensorLike] | None = None) -> Any:
    """Sum of a regularizer's losses, added to their collection.  Raises ValueError for a loss that is not a scalar."""
    weights = weights_list if weights_list else tf.get_collection(GraphKeys.WEIGHTS)
    with tf.name_scope("get_regularization_penalty", values=weights) as scope:
        penalties = [regularizer(one) for one in weights]
        penalties = [tf.constant(0.0) if one is None else one for one in penalties]
        for one in penalties:
            if one.get_shape().ndims != 0:
                raise ValueError(
                    f"regularizer must return a scalar Tensor instead of a Tensor with rank {one.get_shape().ndims}."
                )
        total = tf.add_n(penalties, name=scope)
        tf.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
        return total
