"""`tf.contrib.training`: train ops from a loss, gradient transformations and hyperparameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.optimizers.optimizer import Optimizer
from placesim.tf1.optimizers.steps import get_or_create_global_step

_USE_GLOBAL_STEP = 0
"""Default argument for the graph's global step; None means no global step."""


def create_train_op(
    total_loss: TensorLike,
    optimizer: Optimizer,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: object = None,
    transform_grads_fn: Callable[[list[Any]], list[Any]] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = 1,
    aggregation_method: object = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """Loss that is evaluated after the updates of the collection `update_ops` and a step of the optimizer."""
    if global_step is _USE_GLOBAL_STEP:
        global_step = get_or_create_global_step()
    collected = list(dict.fromkeys(tf.get_collection(GraphKeys.UPDATE_OPS)))
    updates = collected if update_ops is None else list(update_ops)
    if updates:
        with tf.control_dependencies(updates):
            barrier = tf.no_op(name="update_barrier")
        total_loss = with_dependencies([barrier], total_loss)
    trained = tf.trainable_variables() if variables_to_train is None else variables_to_train
    pairs = optimizer.compute_gradients(
        total_loss,
        trained,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    step = optimizer.apply_gradients(pairs, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        train_op = with_dependencies([step], total_loss)
    if not any(train_op is other for other in tf.get_collection(GraphKeys.TRAIN_OP)):
        tf.add_to_collection(GraphKeys.TRAIN_OP, train_op)
    return train_op


def with_values(gradient: object, values: Callable[[Any], Any]) -> Any:
    """Apply the function `values` to a gradient; of IndexedSlices, only the values are changed."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values(gradient.values), gradient.indices, gradient.dense_shape)
    return values(gradient)


def times(factor: Any, values: Any) -> Any:
    """Values times a factor of any numeric type."""
    return values * tf.cast(factor, values.dtype)


def multiply_gradients(grads_and_vars: object, gradient_multipliers: Mapping[Any, Any]) -> list[Any]:
    """Gradients multiplied by factors, which are given by variable or by variable name.  Raises ValueError."""
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, Mapping):
        raise ValueError("`gradient_multipliers` must be a dict.")
    found = []
    for gradient, variable in grads_and_vars:
        names = (variable, variable.op.name)
        factor = next(
            (one for key, one in gradient_multipliers.items() if any(key is name or key == name for name in names)), None
        )
        if factor is not None:
            if gradient is None:
                raise ValueError("Requested multiple of `None` gradient.")
            factor = factor if isinstance(factor, tf.Tensor) else tf.constant(factor, dtype=gradient.dtype)
            gradient = with_values(gradient, functools.partial(times, factor))
        found.append((gradient, variable))
    return found


def clip_gradient_norms(gradients_to_variables: Sequence[tuple[Any, Any]], max_norm: float) -> list[Any]:
    """Gradients, each clipped to a norm."""
    return [
        (gradient if gradient is None else with_values(gradient, lambda values: tf.clip_by_norm(values, max_norm)), variable)
        for gradient, variable in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Any], list[Any]]:
    """`clip_gradient_norms` as a function of the gradients alone."""
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


def add_gradients_summaries(grads_and_vars: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Two summaries for each gradient: its histogram, and its norm."""
    found = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        found.append(tf.summary.histogram(variable.op.name + "_gradient", values))
        found.append(tf.summary.scalar(variable.op.name + "_gradient_norm", tf.global_norm([values])))
    return found
