"""`tf.contrib.metrics`: `tf.metrics` with the predictions first, under the name `streaming_...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike

OF_PREDICTIONS = {
    name: name
    for name in (
        *("accuracy", "auc", "false_negatives", "false_positives", "mean_absolute_error", "mean_cosine_distance"),
        *("mean_iou", "mean_relative_error", "mean_squared_error", "precision", "precision_at_thresholds", "recall"),
        *("recall_at_k", "recall_at_thresholds", "root_mean_squared_error", "sensitivity_at_specificity"),
        *("specificity_at_sensitivity", "true_negatives", "true_positives"),
    )
} | {"sparse_average_precision_at_k": "average_precision_at_k", "sparse_precision_at_k": "precision_at_k"}
"""`streaming_NAME` of predictions and labels -> its name in `tf.metrics`."""
OF_VALUES = {"mean": "mean", "mean_tensor": "mean_tensor", "percentage_less": "percentage_below"}
"""`streaming_NAME` of values -> its name in `tf.metrics`."""


def _of_predictions(name: str) -> Callable[..., Any]:
    def metric(predictions: TensorLike, labels: TensorLike, *args: object, **kwargs: object) -> Any:
        return getattr(tf.metrics, name)(labels, predictions, *args, **kwargs)

    metric.__doc__ = f"`tf.metrics.{name}`, the predictions first."
    return metric


def _of_values(name: str) -> Callable[..., Any]:
    def metric(values: TensorLike, *args: object, **kwargs: object) -> Any:
        return getattr(tf.metrics, name)(values, *args, **kwargs)

    metric.__doc__ = f"`tf.metrics.{name}`."
    return metric


for _kinds, _make in ((OF_PREDICTIONS, _of_predictions), (OF_VALUES, _of_values)):
    globals().update({f"streaming_{_name}": _make(_what) for _name, _what in _kinds.items()})


def accuracy(predictions: Any, labels: Any, weights: TensorLike | None = None, name: str | None = None) -> Any:
    """Fraction of a batch's predictions that equal the labels.  Raises ValueError for other types."""
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ValueError(f"Labels should have bool, integer, or string dtype, not {labels.dtype!r}")
    if not labels.dtype.is_compatible_with(predictions.dtype):
        raise ValueError(
            f"Dtypes of predictions and labels should match. Given: predictions ({predictions.dtype!r}) "
            f"and labels ({labels.dtype!r})"
        )
    with tf.name_scope(name, "accuracy", values=[predictions, labels]):
        hits = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(hits)
        hits = tf.multiply(hits, weights)
        counted = tf.multiply(weights, tf.ones_like(hits))
        return tf.div(tf.reduce_sum(hits), tf.reduce_sum(counted))


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: object = None,
    dtype: DTypeLike = tf.int32,
    name: str | None = None,
    weights: TensorLike | None = None,
) -> Any:
    """`tf.confusion_matrix`, its arguments in another order."""
    return tf.confusion_matrix(labels, predictions, num_classes=num_classes, dtype=dtype, name=name, weights=weights)


def aggregate_metrics(*value_update_tuples: object) -> tuple[list[Any], list[Any]]:
    """Values and update ops of several metrics.  Raises ValueError for no metrics."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Several metrics' values, and their updates, by name."""
    values = {name: pair[0] for name, pair in names_to_tuples.items()}
    return values, {name: pair[1] for name, pair in names_to_tuples.items()}
