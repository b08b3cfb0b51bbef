"""`tf.contrib.layers.optimize_loss`: a training step with clipped gradients and summaries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.framework import assert_scalar
from placesim.tf1.contrib.training import times, with_values
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.optimizers.steps import assert_global_step, get_global_step

OPTIMIZER_CLS_NAMES: dict[str, Callable[[Any], Any]] = {
    "Adagrad": lambda rate: tf.train.AdagradOptimizer(rate),
    "Adam": lambda rate: tf.train.AdamOptimizer(rate),
    "Ftrl": lambda rate: tf.train.FtrlOptimizer(rate),
    "Momentum": lambda rate: tf.train.MomentumOptimizer(rate, momentum=0.9),
    "RMSProp": lambda rate: tf.train.RMSPropOptimizer(rate),
    "SGD": lambda rate: tf.train.GradientDescentOptimizer(rate),
}
"""Factory of each optimizer by name, given a learning rate."""
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
"""Summaries that `optimize_loss` can make."""
_USUAL_SUMMARIES = ["learning_rate", "loss", "global_gradient_norm"]


def optimize_loss(
    loss: Any,
    global_step: TensorLike | None,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Any = None,
    variables: Any = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Any:
    """Loss that is evaluated after a step of `optimizer`: its name, its class, an object, or a function of the learning rate.

    Raises ValueError, and NotImplementedError for noise on gradients.
    """
    loss = tf.convert_to_tensor(loss)
    assert_scalar(loss)
    if gradient_noise_scale is not None:
        raise not_there("contrib.layers.optimize_loss with gradient_noise_scale", "without it, it is there")
    if global_step is None:
        global_step = get_global_step()
    else:
        assert_global_step(global_step)
    with tf.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = tf.get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            with tf.control_dependencies(list(updates)):
                loss = tf.identity(loss, name="control_dependency")
        rate = _learning_rate(learning_rate)
        wanted = _wanted_summaries(summaries)
        if global_step is None and learning_rate_decay_fn is not None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        if rate is not None and learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, global_step)
            if "learning_rate" in wanted:
                tf.summary.scalar("learning_rate", rate)
        chosen = _optimizer(optimizer, rate)
        trained = tf.trainable_variables() if variables is None else variables
        pairs = chosen.compute_gradients(loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_multipliers is not None:
            pairs = _multiplied(pairs, gradient_multipliers)
        if "global_gradient_norm" in wanted or "gradient_norm" in wanted:
            tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([gradient for gradient, _ in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in wanted:
            tf.summary.scalar("loss", loss)
        _summarize(pairs, wanted, is_clipped=clip_gradients is not None)
        step = chosen.apply_gradients(pairs, global_step=global_step if increment_global_step else None, name="train")
        with tf.control_dependencies([step]):
            return tf.identity(loss, name="control_dependency")


def _wanted_summaries(given: Sequence[str] | None) -> list[str]:
    """Checked names of summaries.  Raises ValueError for an unknown one."""
    wanted = _USUAL_SUMMARIES if given is None else list(given)
    for summary in wanted:
        if summary not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {summary}.")
    return wanted


def _learning_rate(given: object) -> Any:
    """Learning rate: a variable for a number, a tensor as it is.  Raises ValueError for other types and negative numbers."""
    if given is None:
        return None
    if isinstance(given, tf.Tensor) and given.get_shape().ndims == 0:
        return given
    if not isinstance(given, float):
        raise ValueError(f"Learning rate should be 0d Tensor or float. Got {given} of type {type(given)}")
    if given < 0.0:
        raise ValueError("Invalid learning_rate %s.", given)
    return tf.get_variable("learning_rate", [], trainable=False, initializer=tf.constant_initializer(given), dtype=tf.float32)


def _optimizer(given: object, rate: TensorLike) -> Any:
    if isinstance(given, str):
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is string ({given}).")
        if given not in OPTIMIZER_CLS_NAMES:
            raise ValueError(f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {given}.")
        return OPTIMIZER_CLS_NAMES[given](rate)
    if isinstance(given, type) and issubclass(given, tf.train.Optimizer):
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is class ({given}).")
        return given(learning_rate=rate)
    if isinstance(given, tf.train.Optimizer):
        return given
    if callable(given):
        made = given(rate) if rate is not None else given()
        if not isinstance(made, tf.train.Optimizer):
            raise ValueError(f"Unrecognized optimizer: function should return subclass of Optimizer. Got {made}.")
        return made
    raise ValueError(
        "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or function with "
        f"one argument. Got {given}."
    )


def _multiplied(pairs: list[Any], factors: Mapping[Any, Any]) -> list[Any]:
    """Gradients multiplied by factors, which are given by variable or by variable name."""
    found = []
    for gradient, variable in pairs:
        factor = next((one for key, one in factors.items() if key is variable or key == variable.name), None)
        if gradient is not None and factor is not None:
            gradient = with_values(gradient, functools.partial(times, tf.constant(factor, dtype=tf.float32)))
        found.append((gradient, variable))
    return found


def _clipped(pairs: list[Any], clipping: object) -> list[Any]:
    """Gradients clipped to a global norm, or by a function.  Raises ValueError."""
    if clipping is None:
        return pairs
    if isinstance(clipping, float):
        gradients, variables = zip(*pairs, strict=True)
        shorter, _ = tf.clip_by_global_norm(gradients, clipping)
        return list(zip(shorter, variables, strict=True))
    if callable(clipping):
        return clipping(pairs)  # type: ignore[no-any-return]
    raise ValueError(f"Unknown type {type(clipping)} for clip_gradients")


def _summarize(pairs: list[Any], wanted: list[str], is_clipped: bool) -> None:
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.name.replace(":", "_")
        if "gradients" in wanted:
            tf.summary.histogram("gradients/" + name, values)
        if "gradient_norm" in wanted:
            tf.summary.scalar("gradient_norm/" + name, tf.global_norm([values]))
    if is_clipped and ("global_gradient_norm" in wanted or "gradient_norm" in wanted):
        tf.summary.scalar("global_norm/clipped_gradient_norm", tf.global_norm([gradient for gradient, _ in pairs]))
