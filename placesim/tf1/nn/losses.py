"""Cross entropies and similar losses, one for each row or element."""

from __future__ import annotations

import math
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import control_dependencies, name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

tf = namespace("")


def _check_named(labels: TensorLike | None, logits: TensorLike | None) -> None:
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")


def _flattened(logits: Any) -> Any:
    """The logits as a matrix of the rows along the last dimension."""
    rank, shape = tf.rank(logits), tf.shape(logits)
    last = tf.slice(shape, [tf.subtract(rank, 1)], [1])
    found = tf.reshape(logits, tf.concat([[-1], last], 0))
    sizes = None if logits.shape.rank is None else logits.shape.as_list()
    if sizes is not None and None not in sizes[:-1]:
        # Without elements, shape inference cannot know the number of rows.
        found.set_shape([math.prod(sizes[:-1]), sizes[-1]])
    return found


def softmax_cross_entropy_with_logits_v2(
    labels: TensorLike, logits: TensorLike, axis: int | None = None, name: str | None = None, dim: object = None
) -> Any:
    """Loss of each row, differentiable in the labels too."""
    axis = renamed("axis", axis, "dim", dim)
    return _softmax_cross_entropy(labels, logits, -1 if axis is None else axis, name)


def softmax_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    dim: int = -1,
    name: str | None = None,
    axis: TensorLike | None = None,
) -> Any:
    """The loss of each row; the labels have no gradient."""
    dim = renamed("axis", axis, "dim", dim) if axis is not None else dim
    _check_named(labels, logits)
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as name:
        labels = tf.stop_gradient(labels, name="labels_stop_gradient")
    return _softmax_cross_entropy(labels, logits, dim, name)


def _softmax_cross_entropy(labels: TensorLike, logits: TensorLike | None, axis: int, name: str | None) -> Any:
    _check_named(labels, logits)
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        half = dtypes.is_half(logits.dtype)
        precise = tf.cast(logits, "float32") if half else logits
        labels = tf.cast(labels, precise.dtype)
        rank = tf.rank(precise)
        shape = logits.shape
        if axis != -1:
            precise = _dim_to_end(precise, axis, rank)
            labels = _dim_to_end(labels, axis, rank)
        input_shape = tf.shape(precise)
        flat_logits = _flattened(precise)
        flat_labels = _flattened(labels)
        cost, _ = gen("SoftmaxCrossEntropyWithLogits")(flat_logits, flat_labels, name=scope)
        outer = tf.slice(input_shape, [0], [tf.subtract(rank, 1)])
        cost = tf.reshape(cost, outer)
        if shape.rank is not None:
            sizes = shape.as_list()
            del sizes[axis]
            cost.set_shape(sizes)
        return tf.cast(cost, logits.dtype) if half else cost


def _dim_to_end(tensor: TensorLike, axis: int, rank: object) -> Any:
    return tf.transpose(tensor, tf.concat([tf.range(axis), tf.range(axis + 1, rank), [axis]], 0))


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Loss of each row for class labels."""
    if _sentinel is not None:
        labels, logits, name = _sentinel, labels, logits
    _check_named(labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        precise = tf.cast(logits, "float32") if dtypes.is_half(logits.dtype) else logits
        of_labels = labels.shape
        labels_shape = tf.shape(labels)
        known = of_labels.is_fully_defined() and logits.shape[:-1].is_fully_defined()
        of_logits = logits.shape
        if of_logits.rank is not None and of_logits.rank == 0:
            raise ValueError(f"`logits` cannot be a scalar. Received logits={logits}`")
        if of_logits.rank is not None and of_labels.rank not in (None, of_logits.rank - 1):
            raise ValueError(
                "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
                f"labels.shape={of_labels} of rank {of_labels.rank} and logits.shape={of_logits} of rank {of_logits.rank}"
            )
        if known and of_labels != of_logits[:-1]:
            raise ValueError(
                "`labels.shape` must equal `logits.shape` except for the last dimension. Received: "
                f"labels.shape={of_labels} and logits.shape={of_logits}"
            )
        if of_logits.rank == 2:
            cost, _ = gen("SparseSoftmaxCrossEntropyWithLogits")(precise, labels, name=name)
            return tf.cast(cost, logits.dtype) if precise is not logits else cost
        checks = []
        if not known:
            checks.append(tf.assert_equal(tf.shape(labels), tf.shape(logits)[:-1]))
        with control_dependencies(checks):
            row = tf.shape(logits)[tf.rank(logits) - 1]
            rows, numbers = tf.reshape(precise, [-1, row]), tf.reshape(labels, [-1])
        flat, _ = gen("SparseSoftmaxCrossEntropyWithLogits")(rows, numbers, name=name)
        cost = tf.reshape(flat, labels_shape)
        cost.set_shape(of_labels)
        return tf.cast(cost, logits.dtype) if precise.dtype != logits.dtype else cost


def _check_same(labels: Tensor, logits: Tensor, words: str) -> None:
    from placesim.tf1.types.shapes import as_shape

    try:
        as_shape(labels.shape).merge_with(logits.shape)
    except ValueError:
        raise ValueError(words.format(logits=logits.shape, labels=labels.shape)) from None


def sigmoid_cross_entropy_with_logits(
    labels: TensorLike | None = None, logits: TensorLike | None = None, name: str | None = None
) -> Any:
    """Loss of each element; the sigmoid of the logit is the probability of the label."""
    _check_named(labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        _check_same(labels, logits, "`logits` and `labels` must have the same shape, received ({logits} vs {labels}).")
        zeros = tf.zeros_like(logits, dtype=logits.dtype)
        is_positive = logits >= zeros
        upper = tf.where(is_positive, logits, zeros)
        # exp of a number that is never positive: it can't overflow.
        decay = tf.where(is_positive, -logits, logits)
        return tf.add(upper - logits * labels, tf.log1p(tf.exp(decay)), name=scope)


def weighted_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    pos_weight: Any = None,
    name: str | None = None,
    targets: TensorLike | None = None,
) -> Any:
    """Sigmoid cross entropy with positives weighted by `pos_weight`."""
    labels = renamed("labels", labels, "targets", targets)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        _check_same(labels, logits, "`logits` and `labels` must have the same shape, received ({logits} vs {labels}).")
        factor = 1 + (pos_weight - 1) * labels
        linear = (1 - labels) * logits
        curved = tf.log1p(tf.exp(-tf.abs(logits))) + gen("Relu")(-logits)
        return tf.add(linear, factor * curved, name=scope)


def log_poisson_loss(
    targets: TensorLike, log_input: TensorLike, compute_full_loss: bool = False, name: str | None = None
) -> Any:
    """Loss of the logarithm of a Poisson rate."""
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert_to_tensor(log_input, name="log_input")
        targets = convert_to_tensor(targets, name="targets")
        _check_same(targets, log_input, "`log_input` and `targets` must have the same shape, received ({logits} vs {labels}).")
        loss = tf.exp(log_input) - log_input * targets
        return loss + _log_factorial(targets) if compute_full_loss else loss


def _log_factorial(targets: Tensor) -> Any:
    """Stirling's approximation of `log(targets!)`; zero for targets from 0 to 1."""
    half, circle = (convert_to_tensor(number, dtype=targets.dtype) for number in (0.5, 2 * math.pi))
    found = targets * tf.log(targets) - targets + half * tf.log(circle * targets)
    low, high = (make(targets, dtype=targets.dtype) for make in (tf.zeros_like, tf.ones_like))
    is_small = tf.logical_and(targets >= low, targets <= high)
    return tf.where(is_small, low, found)
