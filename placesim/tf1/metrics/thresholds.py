"""`tf.metrics` over thresholds: counts at each threshold, areas under curves, and points of curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.metrics.means import across_replicas, collected, matched, metric_variable, read_sum
from placesim.tf1.weights import broadcast_weights

_EPSILON = 1e-7
"""Margin of the outermost thresholds around [0, 1]; it also prevents quotients of 0 / 0."""

_COUNTS = ("tp", "fn", "tn", "fp")
_WORDS = {"tp": "true_positives", "fn": "false_negatives", "tn": "true_negatives", "fp": "false_positives"}

Counts = dict[str, Any]


def _counts(
    labels: TensorLike, predictions: Any, thresholds: Sequence[float], weights: Any, wanted: str
) -> tuple[Counts, Counts]:
    """Running counts at each threshold, by `tp`, `fn`, `tn` and `fp`, and the ops that add the values of a step."""
    error = "predictions must be in [0, 1]"
    checks = [
        tf.assert_greater_equal(predictions, tf.cast(0.0, predictions.dtype), message=error),
        tf.assert_less_equal(predictions, tf.cast(1.0, predictions.dtype), message=error),
    ]
    with tf.control_dependencies(checks):
        predictions, labels, weights = matched(tf.cast(predictions, tf.float32), tf.cast(labels, tf.bool), weights)
    names = wanted.split()
    count = len(thresholds)
    column = tf.reshape(predictions, [-1, 1])
    row = tf.reshape(tf.cast(labels, tf.bool), [1, -1])
    number = column.get_shape().as_list()[0]
    if number is None:
        number = tf.shape(column)[0]
    limits = tf.tile(tf.expand_dims(tf.constant(thresholds), [1]), tf.stack([1, number]))
    is_positive = {"p": tf.greater(tf.tile(tf.transpose(column), [count, 1]), limits)}
    if "fn" in names or "tn" in names:
        is_positive["n"] = tf.logical_not(is_positive["p"])
    label = {True: tf.tile(row, [count, 1])}
    if "fp" in names or "tn" in names:
        label[False] = tf.logical_not(label[True])
    if weights is not None:
        weights = broadcast_weights(tf.cast(weights, tf.float32), predictions)
        weights = tf.tile(tf.reshape(weights, [1, -1]), [count, 1])
        limits.get_shape().assert_is_compatible_with(weights.get_shape())
    values, updates = {}, {}
    for name in _COUNTS:
        if name not in names:
            continue
        variable = metric_variable([count], tf.float32, _WORDS[name])
        truth = label[name in ("tp", "fn")]
        found = tf.cast(tf.logical_and(truth, is_positive[name[1]]), tf.float32)
        if weights is not None:
            found *= weights
        updates[name] = tf.assign_add(variable, tf.reduce_sum(found, 1))
        values[name] = variable
    return values, updates


def _both(
    values: Counts, updates: Counts, found: Callable[[Counts, str], Any], collections: tuple[Any, Any]
) -> tuple[Any, Any]:
    """A metric, computed from the counts before a step and from those after it."""
    result = across_replicas(lambda *counts: found(dict(zip(values, counts, strict=True)), "value"), *values.values())
    return collected(result, found(updates, "update_op"), *collections)


def _between(count: int) -> list[float]:
    """Thresholds at equal distances, the first below 0 and the last above 1."""
    inner = [(i + 1) * 1.0 / (count - 1) for i in range(count - 2)]
    return [0.0 - _EPSILON, *inner, 1.0 + _EPSILON]


# --- the area under a curve -----------------------------------------------------------------------------------------

_HEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "trapezoidal": lambda one, two: (one + two) / 2.0,
    "careful_interpolation": lambda one, two: (one + two) / 2.0,
    "minoring": lambda one, two: tf.minimum(one, two),
    "majoring": lambda one, two: tf.maximum(one, two),
}
"""Height of the curve between two points."""
_AREA_EPSILON = 1.0e-6


def auc(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> tuple[Any, Any]:
    """The area under the ROC or the precision-recall curve."""
    with tf.variable_scope(name, "auc", (labels, predictions, weights)):
        if curve not in ("ROC", "PR"):
            raise ValueError(f"Curve must be either ROC or PR. Curve {curve} is unknown.")
        limits = _between(num_thresholds) if thresholds is None else [0.0 - _EPSILON, *sorted(thresholds), 1.0 + _EPSILON]
        count = len(limits)
        values, updates = _counts(labels, predictions, limits, weights, "tp fn tn fp")

        def area(counts: Counts, word: str) -> Any:
            if curve == "PR" and summation_method == "careful_interpolation":
                return _interpolated(counts, count)
            along, height = _curve(counts, curve)
            if summation_method not in _HEIGHTS:
                raise ValueError(f"Invalid summation_method: {summation_method}")
            widths = along[: count - 1] - along[1:]
            heights = _HEIGHTS[summation_method](height[: count - 1], height[1:])
            return tf.reduce_sum(tf.multiply(widths, heights), name=word)

        return _both(values, updates, area, (metrics_collections, updates_collections))


def _curve(counts: Counts, curve: str) -> tuple[Any, Any]:
    recall = tf.divide(counts["tp"] + _AREA_EPSILON, counts["tp"] + counts["fn"] + _AREA_EPSILON)
    if curve == "ROC":
        return tf.divide(counts["fp"], counts["fp"] + counts["tn"] + _AREA_EPSILON), recall
    return recall, tf.divide(counts["tp"] + _AREA_EPSILON, counts["tp"] + counts["fp"] + _AREA_EPSILON)


def _interpolated(counts: Counts, count: int) -> Any:
    """Area under the precision-recall curve, with true positives interpolated between thresholds (Davis & Goadrich 2006)."""
    right, wrong, missed = counts["tp"], counts["fp"], counts["fn"]
    more_right = right[: count - 1] - right[1:]
    positives = right + wrong
    slope = tf.div_no_nan(more_right, tf.maximum(positives[: count - 1] - positives[1:], 0), name="prec_slope")
    intercept = right[1:] - tf.multiply(slope, positives[1:])
    ratio = tf.where(
        tf.logical_and(positives[: count - 1] > 0, positives[1:] > 0),
        tf.div_no_nan(positives[: count - 1], tf.maximum(positives[1:], 0), name="recall_relative_ratio"),
        tf.ones_like(positives[1:]),
    )
    steps = tf.div_no_nan(
        slope * (more_right + intercept * tf.log(ratio)), tf.maximum(right[1:] + missed[1:], 0), name="pr_auc_increment"
    )
    return tf.reduce_sum(steps, name="interpolate_pr_auc")


# --- at given thresholds --------------------------------------------------------------------------------------------


def _at_thresholds(word: str, scope: str, wanted: str, found: Callable[[Counts, str], Any]) -> Callable[..., tuple[Any, Any]]:
    """The metric that `found` computes from the wanted counts before a step and from those after it."""

    def at_thresholds(
        labels: TensorLike,
        predictions: TensorLike,
        thresholds: Sequence[float],
        weights: TensorLike | None = None,
        metrics_collections: object = None,
        updates_collections: object = None,
        name: str | None = None,
    ) -> tuple[Any, Any]:
        with tf.variable_scope(name, scope, (predictions, labels, weights)):
            counts = _counts(labels, predictions, thresholds, weights, wanted)
            return _both(*counts, found, (metrics_collections, updates_collections))

    at_thresholds.__name__ = at_thresholds.__qualname__ = f"{word}_at_thresholds"
    at_thresholds.__doc__ = f"The {word.replace('_', ' ')} at each threshold."
    return at_thresholds


def _counted(count: str) -> Callable[..., tuple[Any, Any]]:
    word = _WORDS[count]
    return _at_thresholds(word, word, count, lambda counts, end: read_sum(counts[count]) if end == "value" else counts[count])


true_positives_at_thresholds, false_negatives_at_thresholds = _counted("tp"), _counted("fn")
true_negatives_at_thresholds, false_positives_at_thresholds = _counted("tn"), _counted("fp")


def _share(word: str, wrong: str) -> Callable[..., tuple[Any, Any]]:
    def share(counts: Counts, end: str) -> Any:
        all_of_them = _EPSILON + counts["tp"] + counts[wrong]
        return tf.divide(counts["tp"], all_of_them, name=f"{word}_{end}")

    return _at_thresholds(word, f"{word}_at_thresholds", f"tp {wrong}", share)


precision_at_thresholds, recall_at_thresholds = _share("precision", "fp"), _share("recall", "fn")


def sensitivity_at_specificity(
    labels: TensorLike,
    predictions: TensorLike,
    specificity: float,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Sensitivity at the threshold whose specificity is closest to the given one."""
    if specificity < 0 or specificity > 1:
        raise ValueError(f"`specificity` must be in the range [0, 1]. Currently, `specificity` got {specificity}.")
    with tf.variable_scope(name, "sensitivity_at_specificity", (predictions, labels, weights)):
        values, updates = _counts(labels, predictions, _between(num_thresholds), weights, "tp fn tn fp")

        def found(counts: Counts, word: str) -> Any:
            each = tf.divide(counts["tn"], counts["tn"] + counts["fp"] + _EPSILON)
            place = tf.cast(tf.argmin(tf.abs(each - specificity), 0), tf.int32)
            return tf.divide(counts["tp"][place], counts["tp"][place] + counts["fn"][place] + _EPSILON, word)

        return _both(values, updates, found, (metrics_collections, updates_collections))


def specificity_at_sensitivity(
    labels: TensorLike,
    predictions: TensorLike,
    sensitivity: float,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Specificity at the highest threshold whose sensitivity is closest to the given one."""
    if sensitivity < 0 or sensitivity > 1:
        raise ValueError(f"`sensitivity` must be in the range [0, 1]. Currently, `sensitivity` is {sensitivity}.")
    with tf.variable_scope(name, "specificity_at_sensitivity", (predictions, labels, weights)):
        values, updates = _counts(labels, predictions, _between(num_thresholds), weights, "tp fn tn fp")

        def found(counts: Counts, word: str) -> Any:
            each = tf.divide(counts["tp"], counts["tp"] + counts["fn"] + _EPSILON)
            least = tf.reduce_min(tf.abs(each - sensitivity))
            nearest = tf.equal(tf.abs(each - sensitivity), least)
            place = tf.cast(tf.argmax(tf.cumsum(tf.cast(nearest, tf.int64)), 0), tf.int32)  # the last of the nearest
            return tf.divide(counts["tn"][place], counts["tn"][place] + counts["fp"][place] + _EPSILON, word)

        return _both(values, updates, found, (metrics_collections, updates_collections))
