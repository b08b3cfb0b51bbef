"""`tf.metrics`: values accumulated over steps in local variables, and the ops that add the values of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.assertions.ranks import assert_rank_in
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.variables.creating import create_variable
from placesim.tf1.weights import broadcast_weights, remove_squeezable_dimensions

_COLLECTIONS = ["local_variables", "metric_variables"]


def metric_variable(shape: list[int], dtype: DTypeLike, name: str) -> Any:
    """Make a local variable of zeros in the current name scope; each replica of a strategy has its own part of the sum."""
    return create_variable(
        lambda: tf.zeros(shape, dtype),
        trainable=False,
        collections=_COLLECTIONS,
        name=name,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
    )


def across_replicas(make: Callable[..., Any], *values: Any) -> Any:
    """`make(*values)`, once for all replicas of a strategy: variables are then sums over the replicas."""
    context = tf.distribute.get_replica_context()
    return context.merge_call(lambda _, *grouped: make(*grouped), values)


def read_sum(variable: Any) -> Any:
    """The value of a metric's variable; between the replicas of a strategy the sum of their parts."""
    return tf.distribute.get_strategy().extended.read_var(variable)


def matched(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Squeeze or expand the last dimension of predictions, labels and weights (which may be None) until the ranks match."""
    predictions = tf.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
    if weights is None:
        return predictions, labels, None
    weights = tf.convert_to_tensor(weights)
    ranks = weights.get_shape().ndims, predictions.get_shape().ndims
    if ranks[0] == 0:
        return predictions, labels, weights
    if None not in ranks:
        if ranks[0] - ranks[1] == 1:
            weights = tf.squeeze(weights, [-1])
        elif ranks[1] - ranks[0] == 1:
            weights = tf.expand_dims(weights, [-1])
        return predictions, labels, weights
    difference = tf.rank(weights) - tf.rank(predictions)
    given = weights

    def adjusted() -> Any:
        return tf.cond(tf.equal(difference, -1), lambda: tf.expand_dims(given, [-1]), lambda: given)

    def maybe_squeezed() -> Any:
        return tf.cond(tf.equal(difference, 1), lambda: tf.squeeze(given, [-1]), adjusted)

    return predictions, labels, tf.cond(tf.equal(tf.rank(weights), 0), lambda: given, maybe_squeezed)


def collected(result: Any, update: Any, metrics_collections: object, updates_collections: object) -> tuple[Any, Any]:
    """Add a metric's result and update to collections, if any are given; return both."""
    for value, collections in ((result, metrics_collections), (update, updates_collections)):
        if collections:
            tf.add_to_collections(collections, value)
    return result, update


def _weighted(values: TensorLike, weights: TensorLike) -> tuple[Any, Any]:
    """Values multiplied by their weights, and the weights broadcast to the values' shape."""
    values, _, weights = matched(values, None, weights)
    weights = broadcast_weights(tf.cast(weights, tf.float32), values)
    return tf.multiply(values, weights), weights


def _running_mean(
    variables: Sequence[Any], added: Sequence[Any], after: object, metrics_collections: object, updates_collections: object
) -> tuple[Any, Any]:
    """Quotient of a sum and a count, before and after a step adds to both.  The count is updated after `after`."""
    new_sum = tf.assign_add(variables[0], added[0])
    with tf.control_dependencies([after]):
        new_count = tf.assign_add(variables[1], added[1])

    # if the sum of weights is negative, the mean is 0
    def quotient(part: Any, count: Any, word: str) -> Any:
        return tf.div_no_nan(part, tf.maximum(count, 0), name=word)

    result = across_replicas(lambda part, count: quotient(part, count, "value"), *variables)
    update = quotient(new_sum, new_count, "update_op")
    return collected(result, update, metrics_collections, updates_collections)


def mean(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The weighted mean of all values so far, and the op that adds more."""
    with tf.variable_scope(name, "mean", (values, weights)):
        values = tf.cast(values, tf.float32)
        variables = [metric_variable([], tf.float32, word) for word in ("total", "count")]
        if weights is None:
            count = tf.cast(tf.size(values), tf.float32)
        else:
            values, weights = _weighted(values, weights)
            count = tf.reduce_sum(weights)
        return _running_mean(variables, (tf.reduce_sum(values), count), values, metrics_collections, updates_collections)


def mean_tensor(
    values: Any,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The weighted mean of each element so far, and the op that adds more."""
    with tf.variable_scope(name, "mean", (values, weights)):
        values = tf.cast(values, tf.float32)
        words = ("total_tensor", "count_tensor")
        variables = [metric_variable(values.get_shape(), tf.float32, word) for word in words]
        count = tf.ones_like(values)
        if weights is not None:
            values, weights = _weighted(values, weights)
            count = tf.multiply(count, weights)
        return _running_mean(variables, (values, count), values, metrics_collections, updates_collections)


def _metric(word: str, doc: str, compute: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """The metric whose result and update are `compute(labels, predictions, weights, name)`."""

    def metric(
        labels: TensorLike,
        predictions: TensorLike,
        weights: TensorLike | None = None,
        metrics_collections: object = None,
        updates_collections: object = None,
        name: str | None = None,
    ) -> tuple[Any, Any]:
        return collected(*compute(labels, predictions, weights, name), metrics_collections, updates_collections)

    metric.__name__ = metric.__qualname__ = word
    metric.__doc__ = doc
    return metric


def _mean_of(word: str, score: Callable[[Any, Any], Any], doc: str) -> Callable[..., tuple[Any, Any]]:
    """The metric that is the mean of `score(labels, predictions)`."""

    def mean_score(labels: Any, predictions: Any, weights: Any, name: str | None) -> tuple[Any, Any]:
        predictions, labels, weights = matched(predictions, labels, weights)
        return mean(score(labels, predictions), weights, name=name or word)

    return _metric(word, doc, mean_score)


def _hits(labels: Any, predictions: Any) -> Any:
    same_type = predictions if predictions.dtype == labels.dtype else tf.cast(predictions, labels.dtype)
    return tf.cast(tf.equal(same_type, labels), tf.float32)


accuracy = _mean_of("accuracy", _hits, "Share of predictions equal to labels.")
mean_absolute_error = _mean_of(
    "mean_absolute_error",
    lambda labels, predictions: tf.abs(predictions - labels),
    "The mean of `|predictions - labels|`.",
)
mean_squared_error = _mean_of(
    "mean_squared_error",
    lambda labels, predictions: tf.squared_difference(labels, predictions),
    "The mean of `(predictions - labels) ^ 2`.",
)


def _root_mean_square(labels: Any, predictions: Any, weights: Any, name: str | None) -> tuple[Any, Any]:
    predictions, labels, weights = matched(predictions, labels, weights)
    square, update = mean_squared_error(labels, predictions, weights, name=name or "root_mean_squared_error")
    return across_replicas(tf.sqrt, square), tf.sqrt(update)


root_mean_squared_error = _metric(
    "root_mean_squared_error", "The root of the mean of `(predictions - labels) ^ 2`.", _root_mean_square
)


def percentage_below(
    values: TensorLike,
    threshold: object,
    weights: TensorLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Share of values below a threshold."""
    is_below = tf.cast(tf.less(values, threshold), tf.float32)
    return mean(is_below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


# --- counts of true and false positives and negatives ---------------------------------------------------------------


def _counter(word: str, label: bool, prediction: bool) -> Callable[..., tuple[Any, Any]]:
    def count(labels: Any, predictions: Any, weights: Any, name: str | None) -> tuple[Any, Any]:
        with tf.variable_scope(name, word, (predictions, labels, weights)):
            predictions, labels, weights = matched(tf.cast(predictions, tf.bool), tf.cast(labels, tf.bool), weights)
            return _count(tf.logical_and(tf.equal(labels, label), tf.equal(predictions, prediction)), weights)

    return _metric(word, f"The weighted number of {word.replace('_', ' ')} so far, and the op that adds more.", count)


def _count(values: TensorLike, weights: TensorLike) -> tuple[Any, Any]:
    with tf.name_scope("assert_type"):
        tf.no_op(name="statically_determined_correct_type")
    count = metric_variable([], tf.float32, "count")
    values = tf.cast(values, tf.float32)
    if weights is not None:
        with tf.control_dependencies((assert_rank_in(weights, (0, tf.rank(values))),)):
            weights = tf.cast(weights, tf.float32)
            values = tf.multiply(values, weights)
    return across_replicas(read_sum, count), tf.assign_add(count, tf.reduce_sum(values))


true_positives = _counter("true_positives", True, True)
true_negatives = _counter("true_negatives", False, False)
false_positives = _counter("false_positives", False, True)
false_negatives = _counter("false_negatives", True, False)


def _share(word: str, count_wrong: Callable[..., tuple[Any, Any]], doc: str) -> Callable[..., tuple[Any, Any]]:
    """The metric `true positives / (true positives + wrong ones)`."""

    def share(labels: Any, predictions: Any, weights: Any, name: str | None) -> tuple[Any, Any]:
        with tf.variable_scope(name, word, (predictions, labels, weights)):
            predictions, labels, weights = matched(tf.cast(predictions, tf.bool), tf.cast(labels, tf.bool), weights)
            right, right_update = true_positives(labels, predictions, weights)
            wrong, wrong_update = count_wrong(labels, predictions, weights)
            return across_replicas(lambda one, other: _ratio(one, other, "value"), right, wrong), _ratio(
                right_update, wrong_update, "update_op"
            )

    return _metric(word, doc, share)


precision = _share("precision", false_positives, "Fraction of predicted positives that are true.")
recall = _share("recall", false_negatives, "Fraction of positives that are predicted as such.")


def _ratio(right: Tensor, wrong: Tensor, name: str) -> Any:
    return tf.where(tf.greater(right + wrong, 0), tf.divide(right, right + wrong), 0, name)
