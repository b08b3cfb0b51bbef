"""Broadcasting of weights to values for losses and metrics, with static and dynamic checks."""

from __future__ import annotations

from functools import partial
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.generated_functions import gen

_PREFIX = "weights can not be broadcast to values."


def assert_broadcastable(weights: Any, values: Any) -> Any:
    """Make an op that fails unless weights are a scalar, or have the values' rank and sizes, where a size may also be 1.

    Raises ValueError if the static shapes already exclude it.
    """
    with tf.name_scope(None, "assert_broadcastable", (weights, values)) as scope:
        weights, weights_shape, weights_rank = _described(weights, "weights")
        values, values_shape, values_rank = _described(values, "values")
        ranks = constant_value(weights_rank), constant_value(values_rank)
        if ranks[0] is not None and ranks[1] is not None:
            if ranks[0] == 0:
                return tf.no_op(name="static_scalar_check_success")
            received = f"Received weights={weights}, values={values}"
            if ranks[0] != ranks[1]:
                raise ValueError(
                    f"{_PREFIX} values.rank={ranks[1]}. weights.rank={ranks[0]}. values.shape={values.shape}. "
                    f"weights.shape={weights.shape}. {received}"
                )
            sizes = constant_value(weights_shape), constant_value(values_shape)
            if sizes[0] is not None and sizes[1] is not None:
                for axis, (size, wanted) in enumerate(zip(*sizes, strict=True)):
                    if size not in (1, wanted):
                        shapes = f"values.shape={sizes[1]}, weights.shape={sizes[0]}"
                        raise ValueError(f"{_PREFIX} Mismatch at dim {axis}. {shapes}. {received}")
                return tf.no_op(name="static_dims_check_success")
        is_scalar = tf.equal(0, weights_rank, name="is_scalar")
        data: list[Any] = [_PREFIX]
        for word, tensor, shape in (("weights", weights, weights_shape), ("values", values, values_shape)):
            data += [f"{word}.shape=", tensor.name, shape]
        has_valid_shape = partial(_has_valid_shape, weights_rank, weights_shape, values_rank, values_shape)
        is_valid = tf.cond(is_scalar, lambda: is_scalar, has_valid_shape, name="is_valid_shape")
        return tf.Assert(is_valid, [*data, "is_scalar=", is_scalar], name=scope)


def _described(value: TensorLike, name: str) -> tuple[Any, Any, Any]:
    """Convert a value to a tensor named `name`; return it with its shape and its rank."""
    with tf.name_scope(None, name, (value,)) as scope:
        value = tf.convert_to_tensor(value, name=scope)
        return value, tf.shape(value, name="shape"), tf.rank(value, name="rank")


def _has_valid_shape(weights_rank: object, weights_shape: object, values_rank: object, values_shape: object) -> Any:
    given = (weights_rank, weights_shape, values_rank, values_shape)
    with tf.name_scope(None, "has_valid_nonscalar_shape", given) as scope:
        is_same_rank = tf.equal(values_rank, weights_rank, name="is_same_rank")
        return tf.cond(is_same_rank, lambda: _has_valid_sizes(weights_shape, values_shape), lambda: is_same_rank, name=scope)


def _has_valid_sizes(weights_shape: object, values_shape: object) -> Any:
    with tf.name_scope(None, "has_invalid_dims", (weights_shape, values_shape)) as scope:
        column = tf.expand_dims(values_shape, -1)
        allowed = tf.concat((column, tf.ones_like(column)), axis=1)
        outside = gen("DenseToDenseSetOperation")(tf.expand_dims(weights_shape, -1), allowed, "a-b", True)
        return tf.equal(0, tf.size(outside.result_values, name="num_invalid_dims"), name=scope)


def broadcast_weights(weights: Any, values: Any) -> Any:
    """Broadcast weights to the values' shape.  Raises ValueError."""
    with tf.name_scope(None, "broadcast_weights", (weights, values)) as scope:
        values = tf.convert_to_tensor(values, name="values")
        weights = tf.convert_to_tensor(weights, dtype=values.dtype.base_dtype, name="weights")
        wanted = values.shape
        if wanted.is_fully_defined() and weights.shape.is_fully_defined() and wanted.is_compatible_with(weights.shape):
            return weights
        with tf.control_dependencies((assert_broadcastable(weights, values),)):
            return tf.multiply(weights, tf.ones_like(values), name=scope)


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Any, Any]:
    """Labels and predictions. The last dimension of one of them is squeezed if its rank is one higher than expected."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions = tf.convert_to_tensor(predictions)
        labels = tf.convert_to_tensor(labels)
        ranks = predictions.get_shape().ndims, labels.get_shape().ndims
        if ranks[0] is not None and ranks[1] is not None:
            difference = ranks[0] - ranks[1]
            if difference == expected_rank_diff + 1 and predictions.shape.dims[-1].is_compatible_with(1):
                predictions = tf.squeeze(predictions, [-1])
            elif difference == expected_rank_diff - 1 and labels.shape.dims[-1].is_compatible_with(1):
                labels = tf.squeeze(labels, [-1])
            return labels, predictions
        difference = tf.rank(predictions) - tf.rank(labels)
        if ranks[0] is None or predictions.shape.dims[-1].is_compatible_with(1):
            predictions = squeezed_if(tf.equal(expected_rank_diff + 1, difference), predictions)
        if ranks[1] is None or labels.shape.dims[-1].is_compatible_with(1):
            labels = squeezed_if(tf.equal(expected_rank_diff - 1, difference), labels)
        return labels, predictions


def squeezed_if(condition: TensorLike, value: TensorLike) -> Any:
    """A value squeezed along its last dimension if a condition holds at run time."""
    return tf.cond(condition, lambda: tf.squeeze(value, [-1]), lambda: value)
