"""Learning rates that change with the global step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_n_to_tensor


def _start(learning_rate: TensorLike, *others: object) -> tuple[Any, list[Any]]:
    """Convert the initial rate to a tensor, then the other numbers to tensors of its type."""
    rate = tf.convert_to_tensor(learning_rate, name="initial_learning_rate")
    return rate, [tf.cast(value, rate.dtype) for value in others]


def exponential_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """`rate * decay_rate ^ (step / decay_steps)`; `staircase` rounds the exponent down."""
    with tf.name_scope(name, "ExponentialDecay", [learning_rate, global_step, decay_steps, decay_rate]) as scope:
        rate, (steps, decay, step) = _start(learning_rate, decay_steps, decay_rate, global_step)
        power = step / steps
        if staircase:
            power = tf.floor(power)
        return tf.multiply(rate, tf.pow(decay, power), name=scope)


def natural_exp_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """`rate * exp(-decay_rate * step / decay_steps)`."""
    factor = tf.exp(tf.negative(decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, factor, staircase, name)


def inverse_time_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """`rate / (1 + decay_rate * step / decay_steps)`."""
    with tf.name_scope(name, "InverseTimeDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate, (steps, decay, step) = _start(learning_rate, decay_steps, decay_rate, global_step)
        passed = step / steps
        if staircase:
            passed = tf.floor(passed)
        one = tf.cast(tf.constant(1), rate.dtype)
        return tf.divide(rate, tf.add(one, tf.multiply(decay, passed)), name=scope)


def polynomial_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    end_learning_rate: object = 0.0001,
    power: object = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """Decay to `end_learning_rate` in `decay_steps` steps; with `cycle`, restart at each multiple of `decay_steps`."""
    values = [learning_rate, global_step, decay_steps, end_learning_rate, power]
    with tf.name_scope(name, "PolynomialDecay", values) as scope:
        rate, (end, exponent, step) = _start(learning_rate, end_learning_rate, power, global_step)
        steps = tf.cast(decay_steps, rate.dtype)
        if cycle:
            rounds = tf.where_v2(tf.equal(step, 0), 1.0, tf.ceil(step / decay_steps))
            steps = tf.multiply(steps, rounds)
        else:
            step = tf.minimum(step, steps)
        left = step / steps
        return tf.add(tf.multiply(rate - end, tf.pow(1 - left, exponent)), end, name=scope)


def piecewise_constant(x: TensorLike, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Any:
    """The value of the interval that contains x; each interval includes its upper boundary.  Raises ValueError."""
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    bounds = convert_n_to_tensor(boundaries)
    results = convert_n_to_tensor(values)
    at = tf.convert_to_tensor(x)
    bounds = [_boundary(bound, at) for bound in bounds]
    for result in results[1:]:
        if result.dtype.base_dtype != results[0].dtype.base_dtype:
            kinds = f"({results[0].dtype.base_dtype!r} vs {result.dtype.base_dtype!r})"
            raise ValueError(f"Values must have elements all with the same dtype {kinds}.")
    with tf.name_scope(name, "PiecewiseConstant", [x, boundaries, values, name]):
        at = tf.convert_to_tensor(x)
        cases = [(at <= bounds[0], _giving(results[0])), (at > bounds[-1], _giving(results[-1]))]
        for low, high, result in zip(bounds[:-1], bounds[1:], results[1:-1], strict=True):
            cases.append(((at > low) & (at <= high), _giving(result)))
        return tf.case(cases, _giving(results[0]), exclusive=True)


piecewise_constant_decay = piecewise_constant


def _giving(value: TensorLike) -> Callable[[], Any]:
    return lambda: value


def _boundary(bound: Any, at: Any) -> Any:
    """Convert a boundary to the type of x, which is possible only from int32 to int64."""
    if bound.dtype.base_dtype == at.dtype.base_dtype:
        return bound
    if bound.dtype.base_dtype == tf.int32 and at.dtype.base_dtype == tf.int64:
        return tf.cast(bound, tf.int64)
    kinds = f"({bound.dtype.base_dtype}) must have the same dtype as x ({at.dtype.base_dtype})"
    raise ValueError(f"Boundaries {kinds}.")


def cosine_decay(
    learning_rate: TensorLike, global_step: TensorLike, decay_steps: TensorLike, alpha: float = 0.0, name: str | None = None
) -> Any:
    """Decay along half a period of a cosine to `alpha * rate`."""
    with tf.name_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate, (steps, step) = _start(learning_rate, decay_steps, global_step)
        passed = tf.minimum(step, steps) / steps
        cosine = 0.5 * (1.0 + tf.cos(_pi() * passed))
        return tf.multiply(rate, (1 - alpha) * cosine + alpha)


def cosine_decay_restarts(
    learning_rate: TensorLike,
    global_step: TensorLike,
    first_decay_steps: object,
    t_mul: object = 2.0,
    m_mul: object = 1.0,
    alpha: object = 0.0,
    name: str | None = None,
) -> Any:
    """Cosine decay with restarts; each period is `t_mul` times as long and `m_mul` times as high as the previous one."""
    with tf.name_scope(name, "SGDRDecay", [learning_rate, global_step]) as scope:
        rate, numbers = _start(learning_rate, first_decay_steps, alpha, t_mul, m_mul, global_step)
        steps, end, longer, higher, step = numbers
        passed = step / steps

        def alike() -> tuple[Any, Any]:
            restart = tf.floor(passed)
            return restart, passed - restart

        def growing() -> tuple[Any, Any]:
            restart = tf.floor(tf.log(1.0 - passed * (1.0 - longer)) / tf.log(longer))
            before = (1.0 - longer**restart) / (1.0 - longer)
            return restart, (passed - before) / longer**restart

        restart, fraction = tf.cond(tf.equal(longer, 1.0), alike, growing)
        height = higher**restart
        cosine = 0.5 * height * (1.0 + tf.cos(_pi() * fraction))
        return tf.multiply(rate, (1 - end) * cosine + end, name=scope)


def linear_cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    num_periods: object = 0.5,
    alpha: object = 0.0,
    beta: TensorLike = 0.001,
    name: str | None = None,
) -> Any:
    """`rate * ((alpha + line) * cosine + beta)`, with a line from 1 to 0 and a cosine of `num_periods` periods."""
    with tf.name_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, numbers = _start(learning_rate, decay_steps, num_periods, alpha, beta, global_step)
        steps, periods, rise, end, step = numbers
        step = tf.minimum(step, steps)
        line = (steps - step) / steps
        passed = step / steps
        fraction = 2.0 * periods * passed
        cosine = 0.5 * (1.0 + tf.cos(_pi() * fraction))
        return tf.multiply(rate, (rise + line) * cosine + end, name=scope)


def noisy_linear_cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    initial_variance: object = 1.0,
    variance_decay: object = 0.55,
    num_periods: object = 0.5,
    alpha: object = 0.0,
    beta: TensorLike = 0.001,
    name: str | None = None,
) -> Any:
    """`linear_cosine_decay` with normal noise of decreasing variance."""
    with tf.name_scope(name, "NoisyLinearCosineDecay", [learning_rate, global_step]) as scope:
        given = (decay_steps, initial_variance, variance_decay, num_periods, alpha, beta, global_step)
        rate, (steps, variance, falling, periods, rise, end, step) = _start(learning_rate, *given)
        step = tf.minimum(step, steps)
        line = (steps - step) / steps
        deviation = tf.sqrt(variance / tf.pow(1.0 + step, falling))
        line = line + tf.random_normal(line.shape, stddev=deviation)
        passed = step / steps
        fraction = 2.0 * periods * passed
        cosine = 0.5 * (1.0 + tf.cos(_pi() * fraction))
        return tf.multiply(rate, (rise + line) * cosine + end, name=scope)


def _pi() -> Any:
    return tf.constant(math.pi)
