"""`tf.losses`: weighted losses, and their collection."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.weights import assert_broadcastable, broadcast_weights, remove_squeezable_dimensions, squeezed_if

_COLLECTION = "losses"


class Reduction:
    """Names of the ways to reduce the weighted losses of all elements to one loss."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        words = "NONE SUM MEAN SUM_OVER_BATCH_SIZE SUM_OVER_NONZERO_WEIGHTS SUM_BY_NONZERO_WEIGHTS"
        return tuple(getattr(cls, word) for word in words.split())

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ValueError for an unknown reduction."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}. Key should be one of {cls.all()}.")


_BY_NONZERO = Reduction.SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(
    losses: Any,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """Multiply losses by weights, reduce them, and add the result to a collection.  Raises ValueError for bad weights."""
    Reduction.validate(reduction)
    with tf.name_scope(scope, "weighted_loss", (losses, weights)):
        check = assert_broadcastable(weights, losses)
        with tf.control_dependencies((check,)):
            losses = tf.convert_to_tensor(losses)
            dtype = losses.dtype
            losses = tf.cast(losses, tf.float32)
            weights = tf.cast(weights, tf.float32)
            loss = _reduced(tf.multiply(losses, weights), losses, weights, reduction)
            loss = tf.cast(loss, dtype)
            add_loss(loss, loss_collection)
            return loss


def _reduced(weighted: object, losses: Any, weights: TensorLike, reduction: str) -> Any:
    if reduction == Reduction.NONE:
        return weighted
    total = tf.reduce_sum(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN:
        count = tf.reduce_sum(tf.ones_like(losses) * weights)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        count = _size(losses)
    else:
        count = _weighted_count(losses, weights)
    return tf.div_no_nan(tf.reduce_sum(total), count, name="value")


def _weighted_count(losses: TensorLike, weights: TensorLike, of_rows: bool = False) -> Any:
    """Number of elements with a nonzero weight, in all or in each row."""
    with tf.name_scope(None, "num_present", (losses, weights)) as scope:
        factors = tf.cast(weights, tf.float32)
        flags = tf.where(tf.equal(factors, 0.0), tf.zeros_like(factors), tf.ones_like(factors))
        flags = broadcast_weights(flags, losses)
        settings = {"axis": tf.range(1, tf.rank(flags)), "keepdims": True} if of_rows else {}
        return tf.reduce_sum(flags, **settings, name=scope)


def _size(losses: Tensor) -> Any:
    """Number of elements, as a tensor of the elements' type."""
    with tf.name_scope(None, "num_elements", [losses]) as scope:
        return tf.cast(tf.size(losses, name=scope), losses.dtype)


def _required(**values: object) -> None:
    for name, value in values.items():
        if value is None:
            raise ValueError(f"Argument `{name}` must not be None.")


def _pair(labels: TensorLike, predictions: TensorLike) -> tuple[Tensor, Tensor]:
    """Convert both to float32.  Raises ValueError for different shapes."""
    found: Tensor = tf.cast(predictions, tf.float32)
    wanted: Tensor = tf.cast(labels, tf.float32)
    found.get_shape().assert_is_compatible_with(wanted.get_shape())
    return wanted, found


def _with_logits(labels: TensorLike, logits: TensorLike) -> tuple[Tensor, Tensor]:
    """Convert labels to the logits' type.  Raises ValueError for different shapes."""
    found: Tensor = tf.convert_to_tensor(logits)
    wanted: Tensor = tf.cast(labels, found.dtype)
    found.get_shape().assert_is_compatible_with(wanted.get_shape())
    return wanted, found


def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """`|predictions - labels|`."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "absolute_difference", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = tf.abs(tf.subtract(predictions, labels))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """`(predictions - labels) ^ 2`."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "mean_squared_error", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = tf.squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    axis: int | None = None,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
    dim: int | None = None,
) -> Any:
    """`1 - predictions . labels` along an axis, for unit vectors."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify argument `axis`.")
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "cosine_distance_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = 1 - tf.reduce_sum(tf.multiply(predictions, labels), axis=(axis,), keepdims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """`max(0, 1 - (2 labels - 1) logits)`."""
    _required(labels=labels, logits=logits)
    with tf.name_scope(scope, "hinge_loss", (logits, labels, weights)) as scope:
        labels, logits = _pair(labels, logits)
        ones = tf.ones_like(labels)
        signs = tf.subtract(2 * labels, ones)
        losses = tf.nn.relu(tf.subtract(ones, tf.multiply(signs, logits)))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    delta: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """Half the square of an error up to `delta`; linear in a larger error."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "huber_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        error = tf.abs(tf.subtract(predictions, labels))
        small = tf.minimum(error, delta)
        large = tf.subtract(error, small)
        half = tf.convert_to_tensor(0.5, dtype=small.dtype)
        losses = tf.add(tf.multiply(half, tf.multiply(small, small)), tf.multiply(delta, large))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def log_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """`-labels log(predictions) - (1 - labels) log(1 - predictions)`, with `epsilon` in both logarithms."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "log_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions)
        losses = -tf.multiply(labels, tf.log(predictions + epsilon))
        losses = losses - tf.multiply((1 - labels), tf.log(1 - predictions + epsilon))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
) -> Any:
    """Mean of the squared differences between the errors of each two elements of a row."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "mean_pairwise_squared_error", (predictions, labels, weights)) as scope:
        weights = tf.cast(weights, tf.float32)
        labels = tf.cast(labels, tf.float32)
        with tf.control_dependencies((assert_broadcastable(weights, labels),)):
            predictions = tf.cast(predictions, tf.float32)
            predictions.get_shape().assert_is_compatible_with(labels.get_shape())
            errors = tf.subtract(predictions, labels)
            along = tf.range(1, tf.rank(errors))
            squares = tf.reduce_sum(tf.square(errors), axis=along, keepdims=True)
            count = _weighted_count(errors, weights, of_rows=True)
            of_each = _twice_quotient(squares, count - 1)
            square = tf.square(tf.reduce_sum(errors, axis=along, keepdims=True))
            of_pairs = _twice_quotient(square, tf.multiply(count, count - 1))
            loss = tf.reduce_sum(tf.multiply(of_each - of_pairs, weights))
            is_any = tf.reduce_sum(count) > 0
            loss = tf.where(is_any, loss, tf.zeros_like(loss), name="value")
            add_loss(loss, loss_collection)
            return loss


def _twice_quotient(total: TensorLike, count: object) -> Any:
    """`2 total / count`, 0 for a count of 0."""
    return 2.0 * tf.div_no_nan(total, tf.maximum(count, 0), name="value")


def sigmoid_cross_entropy(
    multi_class_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """Cross-entropy of each logit's sigmoid."""
    _required(multi_class_labels=multi_class_labels, logits=logits)
    with tf.name_scope(scope, "sigmoid_cross_entropy_loss", (logits, multi_class_labels, weights)) as scope:
        labels, logits = _with_logits(multi_class_labels, logits)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """Cross-entropy of the softmax; no gradient flows to the labels."""
    _required(onehot_labels=onehot_labels, logits=logits)
    with tf.name_scope(scope, "softmax_cross_entropy_loss", (logits, onehot_labels, weights)) as scope:
        labels, logits = _with_logits(onehot_labels, logits)
        if label_smoothing > 0:
            share = label_smoothing / tf.cast(tf.shape(labels)[-1], logits.dtype)
            labels = labels * (1.0 - label_smoothing) + share
        labels = tf.stop_gradient(labels, name="labels_stop_gradient")
        losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _COLLECTION,
    reduction: str = _BY_NONZERO,
) -> Any:
    """Cross-entropy of the softmax, with class numbers as labels."""
    _required(labels=labels, logits=logits)
    with tf.name_scope(scope, "sparse_softmax_cross_entropy_loss", (logits, labels, weights)) as scope:
        labels, logits = remove_squeezable_dimensions(labels, logits, expected_rank_diff=1)
        weights = _squeezed_weights(labels, weights)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def _squeezed_weights(labels: Any, weights: Any) -> Any:
    """Remove the weights' last dimension if their rank is one more than the labels'."""
    weights = tf.convert_to_tensor(weights)
    rank, labels_rank = weights.get_shape().ndims, labels.get_shape().ndims
    if rank == 0:
        return weights
    if rank is not None and labels_rank is not None:
        return tf.squeeze(weights, [-1]) if rank - labels_rank == 1 else weights
    difference = tf.rank(weights) - tf.rank(labels)
    if rank is None or (rank > 0 and weights.shape.dims[-1].is_compatible_with(1)):
        return squeezed_if(tf.equal(1, difference), weights)
    return weights


# --- the collection -------------------------------------------------------------------------------------------------


def add_loss(loss: TensorLike, loss_collection: str | None = _COLLECTION) -> None:
    """Add a loss to a collection, if one is named."""
    if loss_collection:
        tf.add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = _COLLECTION) -> list[Any]:
    """The losses of a scope."""
    return tf.get_collection(loss_collection, scope)  # type: ignore[no-any-return]


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """The losses of regularizers."""
    return tf.get_collection("regularization_losses", scope)  # type: ignore[no-any-return]


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Any:
    """Sum of the regularization losses, 0 if there are none."""
    losses = get_regularization_losses(scope)
    return tf.add_n(losses, name=name) if losses else tf.constant(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None) -> Any:
    """The sum of all losses."""
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    return tf.add_n(losses, name=name)
