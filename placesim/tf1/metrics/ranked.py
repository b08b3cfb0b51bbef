"""`tf.metrics` of the best k predictions: precision, recall and average precision at k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.metrics.means import across_replicas, collected, metric_variable
from placesim.tf1.sets import set_difference, set_intersection, set_size
from placesim.tf1.sparse.values import SparseTensor, convert_to_tensor_or_sparse_tensor
from placesim.tf1.weights import assert_broadcastable, broadcast_weights


def _at_k(name: str, k: int | None = None, class_id: object = None) -> str:
    name = f"{name}_at_k" if k is None else f"{name}_at_{k:d}"
    return name if class_id is None else f"{name}_class{class_id:d}"


def _expanded(labels: Any, predictions: Any) -> Any:
    """Add a last dimension to labels if each row of predictions has one label.  Raises ValueError for other ranks."""
    with tf.name_scope(None, "expand_labels", (labels, predictions)) as scope:
        labels = convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, SparseTensor):
            return tf.cond(
                tf.equal(tf.rank(predictions), tf.size(labels.dense_shape) + 1),
                lambda: tf.sparse_reshape(labels, tf.concat((labels.dense_shape, (1,)), 0), name=scope),
                lambda: labels,
            )
        ranks = labels.get_shape().ndims, predictions.get_shape().ndims
        if None not in ranks:
            if ranks[0] == ranks[1]:
                return labels
            if ranks[1] == ranks[0] + 1:
                return tf.expand_dims(labels, -1, name=scope)
            raise ValueError(
                f"Unexpected labels shape {labels.get_shape()} for predictions shape {predictions.get_shape()}. "
                f"Predictions rank should be the same rank as labels rank or be 1 larger."
            )
        is_one_less = tf.equal(tf.rank(predictions), tf.rank(labels) + 1)
        return tf.cond(is_one_less, lambda: tf.expand_dims(labels, -1, name=scope), lambda: labels)


def _only_class(ids: TensorLike, class_id: object) -> Any:
    """The ids that equal a class; without a class, all ids."""
    if class_id is None:
        return ids
    ids = convert_to_tensor_or_sparse_tensor(ids)
    if isinstance(ids, SparseTensor):
        return tf.sparse_retain(ids, tf.equal(ids.values, class_id))
    shape = tf.shape(ids, out_type=tf.int64)
    last = tf.size(shape) - 1
    rows = _with_ones(shape, tf.reshape(last, [1]))
    filled = tf.fill(rows, tf.cast(class_id, tf.int64))
    found = set_intersection(filled, ids)
    return SparseTensor(found.indices, found.values, shape)


def _with_ones(shape: Tensor, axes: Tensor) -> Any:
    """A shape with size 1 at some axes."""
    rank = tf.size(shape)
    axes = (axes + rank) % rank
    count = tf.shape(axes)
    return tf.dynamic_stitch([tf.range(rank), axes], [shape, tf.ones(count, shape.dtype)])


_SETS: dict[str, Any] = {
    "true_positive": set_intersection,
    "false_positive": lambda predicted, labels: set_difference(predicted, labels, aminusb=True),
    "false_negative": lambda predicted, labels: set_difference(predicted, labels, aminusb=False),
}
"""Kind of count -> operation on the sets of predicted and true classes, whose result is counted."""


def _counted(
    kind: str, labels: TensorLike, predicted: TensorLike, k: int | None, class_id: Any, weights: TensorLike | None
) -> tuple[Any, Any]:
    """The weighted number of classes of this kind so far, and the op that adds a step's number."""
    with tf.name_scope(None, _at_k(kind, k, class_id), (predicted, labels, weights)) as scope:
        with tf.name_scope(None, kind + "s", (predicted, labels, weights)):
            chosen = _only_class(labels, class_id), _only_class(predicted, class_id)
            found = tf.cast(set_size(_SETS[kind](chosen[1], chosen[0])), tf.float64)
            if weights is not None:
                with tf.control_dependencies((assert_broadcastable(weights, found),)):
                    found = tf.multiply(found, tf.cast(weights, tf.float64))
        total = tf.cast(tf.reduce_sum(found), tf.float64)
        variable = metric_variable([], tf.float64, scope)
        return variable, tf.assign_add(variable, total, name="update")


def _share_of_best(word: str, wrong: str, doc: str) -> Callable[..., tuple[Any, Any]]:
    """The metric `true positives / (true positives + wrong classes)`."""

    def at_top_k(
        labels: TensorLike,
        predictions_idx: TensorLike,
        k: int | None = None,
        class_id: int | None = None,
        weights: TensorLike | None = None,
        metrics_collections: object = None,
        updates_collections: object = None,
        name: str | None = None,
    ) -> tuple[Any, Any]:
        with tf.name_scope(name, _at_k(word, k, class_id), (predictions_idx, labels, weights)) as scope:
            labels = _expanded(labels, predictions_idx)
            predicted = tf.cast(predictions_idx, tf.int64)
            right, right_update = _counted("true_positive", labels, predicted, k, class_id, weights)
            other, other_update = _counted(wrong, labels, predicted, k, class_id, weights)
            result = across_replicas(lambda *counts: tf.divide(counts[0], tf.add(*counts), name=scope), right, other)
            update = tf.divide(right_update, tf.add(right_update, other_update), name="update")
        return collected(result, update, metrics_collections, updates_collections)

    at_top_k.__name__ = at_top_k.__qualname__ = f"{word}_at_top_k"
    at_top_k.__doc__ = doc
    return at_top_k


precision_at_top_k = _share_of_best("precision", "false_positive", "Fraction of the predicted classes that are labels.")
recall_at_top_k = _share_of_best("recall", "false_negative", "Fraction of the labels that are predicted classes.")


def _of_predictions(word: str, of_best: Any) -> Any:
    def at_k(
        labels: TensorLike,
        predictions: TensorLike,
        k: int,
        class_id: int | None = None,
        weights: TensorLike | None = None,
        metrics_collections: object = None,
        updates_collections: object = None,
        name: str | None = None,
    ) -> Any:
        with tf.name_scope(name, _at_k(word, k, class_id), (predictions, labels, weights)) as scope:
            best = tf.nn.top_k(predictions, k)[1]
            return of_best(labels, best, k, class_id, weights, metrics_collections, updates_collections, scope)

    at_k.__name__ = at_k.__qualname__ = f"{word}_at_k"
    at_k.__doc__ = f"The {word} of the k best predictions of each row."
    return at_k


precision_at_k = sparse_precision_at_k = _of_predictions("precision", precision_at_top_k)
recall_at_k = _of_predictions("recall", recall_at_top_k)


# --- average precision ----------------------------------------------------------------------------------------------


def average_precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Mean over rows of the average precision: sum of the precisions at the hits, divided by `min(k, number of labels)`."""
    with tf.name_scope(name, _at_k("average_precision", k), (predictions, labels, weights)) as scope:
        best = tf.nn.top_k(predictions, k)[1]
        labels = _without_impossible(labels, tf.shape(predictions)[-1])
        with tf.name_scope(scope, "average_precision_at_top_k", (best, labels, weights)) as inner:
            precision = _average_precision(best, labels)
            if weights is not None:
                weights = broadcast_weights(tf.cast(weights, tf.float64), precision)
                precision = tf.multiply(precision, weights)
            with tf.name_scope(None, "max", (precision,)) as max_scope:
                most = metric_variable([], tf.float64, max_scope)
                if weights is None:
                    added = tf.cast(tf.size(precision, name="batch_max"), tf.float64)
                else:
                    added = tf.reduce_sum(weights, name="batch_max")
                most_update = tf.assign_add(most, added, name="update")
            with tf.name_scope(None, "total", (precision,)) as total_scope:
                total = metric_variable([], tf.float64, total_scope)
                total_update = tf.assign_add(total, tf.reduce_sum(precision, name="batch_total"), name="update")
            result = across_replicas(lambda *sums: tf.div_no_nan(*sums, name="mean"), total, most)
            update = tf.div_no_nan(total_update, most_update, name=inner)
            return collected(result, update, metrics_collections, updates_collections)


sparse_average_precision_at_k = average_precision_at_k


def _without_impossible(labels: TensorLike, count: object) -> Any:
    """Replace labels that are not below the number of classes by -1."""
    count = tf.cast(count, tf.int64)

    def dropped() -> Any:
        return tf.where_v2(tf.greater_equal(values, count), -1 * tf.ones_like(values), values)

    values = labels.values if isinstance(labels, SparseTensor) else labels
    return tf.cond(tf.greater_equal(tf.reduce_max(values), count), dropped, lambda: values)


def _average_precision(best: Any, labels: Any) -> Any:
    with tf.name_scope(None, "average_precision", (best, labels)) as scope:
        best = tf.cast(best, tf.int64, name="predictions_idx")
        if best.get_shape().ndims == 0:
            raise ValueError("The rank of predictions_idx must be at least 1.")
        k = best.get_shape().as_list()[-1]
        labels = _expanded(labels, best)
        each = tf.expand_dims(best, -1, name="predictions_idx_per_k")
        labels_each = _repeated(labels, k)
        with tf.name_scope(None, "relevant_per_k", (labels, each)):
            relevant = tf.cast(set_size(set_intersection(each, labels_each)), tf.float64)
        right = tf.cumsum(relevant, axis=-1, name="tp_per_k")
        retrieved = tf.cumsum(tf.ones_like(relevant), axis=-1, name="retrieved_per_k")
        precision = tf.divide(right, retrieved, name="precision_per_k")
        counted = tf.multiply(precision, relevant, name="relevant_precision_per_k")
        total = tf.reduce_sum(counted, axis=(-1,), name="precision_sum")
        return tf.divide(total, tf.cast(_relevant_count(labels, k), tf.float64), name=scope)


def _repeated(labels: TensorLike, k: int) -> Any:
    """Repeat labels for each of the k predictions, along a new dimension before the last."""
    with tf.name_scope(None, "labels_per_k", (labels, k)) as scope:
        wide = tf.expand_dims(labels, axis=-2, name="expand")
        ones = tf.ones_like(tf.shape(labels))
        times = tf.concat((ones[:-1], [k], ones[-1:]), 0, name="multiples")
        return tf.tile(wide, times, name=scope)


def _relevant_count(labels: TensorLike, k: int) -> Any:
    """Number of labels in each row, at most k."""
    if k < 1:
        raise ValueError(f"Invalid k={k}")
    with tf.name_scope(None, "num_relevant", (labels,)) as scope:
        ones = tf.where_v2(tf.greater_equal(labels, 0), tf.ones_like(labels), tf.zeros_like(labels))
        return tf.minimum(tf.reduce_sum(ones, axis=-1), k, name=scope)
