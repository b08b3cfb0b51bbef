"""`tf.contrib.losses`: predictions come first, and losses are means over elements with non-zero weight, as
in versions before `tf.losses`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.losses import add_loss as put_loss


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Any:
    """Weighted mean of losses; the shape of the weights is that of the losses' first dimensions.  Raises ValueError."""
    with tf.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = tf.convert_to_tensor(losses)
        dtype = losses.dtype
        losses = tf.cast(losses, tf.float32)
        weights = tf.cast(tf.convert_to_tensor(weights), tf.float32)
        rank = losses.get_shape().ndims
        if rank is None:
            raise ValueError("losses.get_shape().ndims cannot be None")
        weights_rank = weights.get_shape().ndims
        if weights_rank is None:
            raise ValueError("weights.get_shape().ndims cannot be None")
        if weights_rank > 1 and weights.get_shape().dims[-1].value == 1:
            weights = tf.squeeze(weights, [-1])
            weights_rank -= 1
        summed = tf.reduce_sum(losses, axis=list(range(weights_rank, rank)))
        total = tf.reduce_sum(tf.multiply(summed, weights))
        count = tf.reduce_sum(_weighted_by_example(losses, weights))
        mean = tf.div_no_nan(tf.reduce_sum(total), count, name="value")
        mean = tf.cast(mean, dtype)
        put_loss(mean)
        return mean


def _weighted_by_example(losses: TensorLike, weights: Any) -> Any:
    """Number of losses with a nonzero weight, per example."""
    rank = weights.get_shape().ndims
    if rank == 0:
        examples = tf.reshape(tf.slice(tf.shape(losses), [0], [1]), [])
        each = tf.div(tf.cast(tf.size(losses), tf.float32), tf.cast(examples, tf.float32))
        each = tf.where(tf.equal(weights, 0), 0.0, each)
        return tf.multiply(tf.ones(tf.reshape(examples, [1])), each)
    flags = tf.cast(tf.not_equal(weights, 0), tf.float32)
    flags = tf.reduce_sum(flags, axis=list(range(1, rank)))
    below = tf.reduce_prod(tf.slice(tf.shape(losses), [rank], [-1]))
    return tf.multiply(flags, tf.cast(below, tf.float32))


def _loss(default_scope: str, values: Callable[..., Any]) -> Callable[..., Any]:
    """A loss whose values per element are `values(predictions, labels)`."""

    def loss(predictions: Any, labels: Any = None, weights: TensorLike = 1.0, scope: str | None = None) -> Any:
        with tf.name_scope(scope, default_scope, [predictions, labels, weights]) as opened:
            predictions.get_shape().assert_is_compatible_with(labels.get_shape())
            predictions, labels = tf.cast(predictions, tf.float32), tf.cast(labels, tf.float32)
            return compute_weighted_loss(values(predictions, labels), weights, scope=opened)

    loss.__name__ = loss.__qualname__ = default_scope
    loss.__doc__ = f"The {default_scope.replace('_', ' ')}, in the collection of losses.  Raises ValueError."
    return loss


def _difference(predictions: TensorLike, labels: TensorLike) -> Any:
    return tf.abs(tf.subtract(predictions, labels))


absolute_difference = add_arg_scope(_loss("absolute_difference", _difference))
mean_squared_error = add_arg_scope(_loss("mean_squared_error", tf.squared_difference))


@add_arg_scope
def log_loss(
    predictions: TensorLike,
    labels: TensorLike | None = None,
    weights: TensorLike = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
) -> Any:
    """Log loss of probabilities; `epsilon` keeps it finite."""

    def values(predictions: Any, labels: Any) -> Any:
        there = -tf.multiply(labels, tf.log(predictions + epsilon))
        return there - tf.multiply(1 - labels, tf.log(1 - predictions + epsilon))

    return _loss("log_loss", values)(predictions, labels, weights, scope)


@add_arg_scope
def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: TensorLike = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Any:
    """Cross entropy of independent classes."""
    with tf.name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels, weights]) as opened:
        logits.get_shape().assert_is_compatible_with(multi_class_labels.get_shape())
        labels = tf.cast(multi_class_labels, logits.dtype)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope=opened)


@add_arg_scope
def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: TensorLike = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Any:
    """Cross entropy of mutually exclusive classes."""
    with tf.name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as opened:
        logits.get_shape().assert_is_compatible_with(onehot_labels.get_shape())
        labels = tf.cast(onehot_labels, logits.dtype)
        if label_smoothing > 0:
            classes = tf.cast(tf.shape(labels)[1], logits.dtype)
            shared = label_smoothing / classes
            labels = labels * (1.0 - label_smoothing) + shared
        losses = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope=opened)


@add_arg_scope
def sparse_softmax_cross_entropy(
    logits: TensorLike, labels: TensorLike, weights: TensorLike = 1.0, scope: str | None = None
) -> Any:
    """`softmax_cross_entropy` whose labels are class numbers."""
    with tf.name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as opened:
        labels = tf.reshape(labels, shape=[tf.shape(labels)[0]])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope=opened)


@add_arg_scope
def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Any:
    """Hinge loss of each element, which is not added to a collection."""
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        logits.get_shape().assert_is_compatible_with(labels.get_shape())
        labels = tf.cast(labels, tf.float32)
        ones = tf.ones_like(labels)
        signs = tf.subtract(2 * labels, ones)
        return tf.nn.relu(tf.subtract(ones, tf.multiply(signs, logits)))


@add_arg_scope
def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Any:
    """1 minus the dot product along an axis, of vectors with length 1.  Raises ValueError without an axis."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    with tf.name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as opened:
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
        predictions, labels = tf.cast(predictions, tf.float32), tf.cast(labels, tf.float32)
        losses = 1 - tf.reduce_sum(tf.multiply(predictions, labels), axis=[axis])
        return compute_weighted_loss(losses, weights, scope=opened)


def mean_pairwise_squared_error(*_: object, **__: object) -> Any:
    """Raise NotImplementedError, which names `tf.losses.mean_pairwise_squared_error`."""
    raise not_there("contrib.losses.mean_pairwise_squared_error", "tf.losses.mean_pairwise_squared_error is")


@add_arg_scope
def add_loss(loss: TensorLike, loss_collection: str | None = "losses") -> None:
    """Add a loss to a collection."""
    put_loss(loss, loss_collection)
