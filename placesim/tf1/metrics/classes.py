"""`tf.metrics`: means over classes (IoU, accuracy per class), and mean distances (relative, cosine)."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.metrics.means import across_replicas, collected, matched, mean, metric_variable
from placesim.tf1.weights import remove_squeezable_dimensions


def _flattened(value: Any) -> Any:
    return tf.reshape(value, [-1]) if value.get_shape().ndims > 1 else value


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Mean of intersection over union over all classes.  The update op updates the confusion matrix."""
    with tf.variable_scope(name, "mean_iou", (predictions, labels, weights)):
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
        total, update = _confusions(labels, predictions, num_classes, weights)
        return collected(across_replicas(_mean_over_unions, total), update, metrics_collections, updates_collections)


def _confusions(labels: TensorLike, predictions: TensorLike, num_classes: Any, weights: Any) -> tuple[Any, Any]:
    """The accumulated confusion matrix, and the op that adds the matrix of a step."""
    total = metric_variable([num_classes, num_classes], tf.float64, "total_confusion_matrix")
    predictions, labels, count = (tf.cast(value, tf.int64) for value in (predictions, labels, num_classes))
    predictions, labels = _flattened(predictions), _flattened(labels)
    weights = None if weights is None else _flattened(weights)
    found = tf.confusion_matrix(labels, predictions, count, weights=weights, dtype=tf.float64)
    return total, tf.assign_add(total, found)


def _mean_over_unions(total: TensorLike) -> Any:
    """Mean of intersection over union over the classes that occur."""
    predicted = tf.cast(tf.reduce_sum(total, 0), tf.float32)
    true = tf.cast(tf.reduce_sum(total, 1), tf.float32)
    both = tf.cast(tf.diag_part(total), tf.float32)
    either = predicted + true - both
    classes = tf.reduce_sum(tf.cast(tf.not_equal(either, 0), tf.float32))
    either = tf.where(tf.greater(either, 0), either, tf.ones_like(either))
    ratios = tf.divide(both, either)
    return tf.where(tf.greater(classes, 0), tf.reduce_sum(ratios, name="mean_iou") / classes, 0)


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: Any,
    weights: Any = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Mean of the accuracies of all classes; the update op returns the accuracy of each class."""
    with tf.variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = tf.cast(labels, tf.int64)
        labels = _flattened(labels)
        predictions = _flattened(predictions)
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
        total = metric_variable([num_classes], tf.float32, "total")
        count = metric_variable([num_classes], tf.float32, "count")
        ones = tf.ones([tf.size(labels)], tf.float32)
        if labels.dtype != predictions.dtype:
            predictions = tf.cast(predictions, labels.dtype)
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is not None:
            weights = tf.cast(_flattened(weights), tf.float32)
            right *= weights
            ones *= weights
        new_total = tf.scatter_add(total, labels, ones)
        new_count = tf.scatter_add(count, labels, right)

        def mean_of_classes(count: Any, total: Any) -> Any:
            return tf.reduce_mean(tf.div_no_nan(count, tf.maximum(total, 0)), name="mean_accuracy")

        result = across_replicas(mean_of_classes, count, total)
        update = tf.div_no_nan(new_count, tf.maximum(new_total, 0), name="update_op")
        return collected(result, update, metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Mean of `|labels - predictions| / normalizer`; elements with normalizer 0 count as 0."""
    predictions, labels, weights = matched(predictions, labels, weights)
    predictions, normalizer = remove_squeezable_dimensions(predictions, normalizer)
    predictions.get_shape().assert_is_compatible_with(normalizer.get_shape())
    is_zero = tf.equal(normalizer, 0.0)
    error = tf.where(is_zero, tf.zeros_like(labels), tf.divide(tf.abs(labels - predictions), normalizer))
    return mean(error, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    dim: int,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """1 minus the mean of the products along `dim`, which are cosines if the vectors are unit vectors."""
    predictions, labels, weights = matched(predictions, labels, weights)
    products = tf.multiply(predictions, labels)
    cosines = tf.reduce_sum(products, axis=[dim], keepdims=True)
    found, update = mean(cosines, weights, None, None, name or "mean_cosine_distance")
    distance, updated = across_replicas(lambda one: tf.subtract(1.0, one), found), tf.subtract(1.0, update)
    return collected(distance, updated, metrics_collections, updates_collections)
