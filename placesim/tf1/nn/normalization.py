"""Moments, normalisation and dropout."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import PerDimension, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import constant, convert_named, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

tf = namespace("")


def l2_normalize(
    x: TensorLike, axis: TensorLike | None = None, epsilon: float = 1e-12, name: str | None = None, dim: object = None
) -> Any:
    """x divided by its L2 norm along `axis`."""
    axis = renamed("axis", axis, "dim", dim)
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            square_sum = tf.real(tf.reduce_sum(tf.square(tf.real(x)) + tf.square(tf.imag(x)), axis, keepdims=True))
            inverse = tf.rsqrt(tf.maximum(square_sum, epsilon))
            return tf.complex(tf.multiply(tf.real(x), inverse), tf.multiply(tf.imag(x), inverse), name=scope)
        square_sum = tf.reduce_sum(tf.square(x), axis, keepdims=True)
        return tf.multiply(x, tf.rsqrt(tf.maximum(square_sum, epsilon)), name=scope)


def moments(
    x: TensorLike,
    axes: PerDimension | Tensor,
    shift: object = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, Any]:
    """Mean and variance over axes; for half precision inputs, they are computed in float32."""
    keep_dims = renamed("keepdims", keepdims, "keep_dims", keep_dims) or False
    half = _half_type(x)
    with name_scope(name, "moments", [x, axes]):
        wide = x if half is None else tf.cast(x, "float32")
        center = tf.reduce_mean(wide, axes, keepdims=True, name="mean")
        apart = tf.squared_difference(wide, tf.stop_gradient(center))
        spread = tf.reduce_mean(apart, axes, keepdims=True, name="variance")
        return _as_asked([center, spread], axes, keep_dims, half)


def _half_type(x: TensorLike) -> Any:
    """Type of a half precision tensor; None for other types and values."""
    dtype = getattr(x, "dtype", None)
    base = None if dtype is None else dtype.base_dtype
    return base if base is not None and dtypes.is_half(base) else None


def _as_asked(results: Sequence[Any], axes: TensorLike, keeps: bool, half: object) -> tuple[Any, Any]:
    """The two moments, without the reduced dimensions unless `keeps`, and in the type `half` if it is given."""
    if not keeps:
        results = [tf.squeeze(result, axes) for result in results]
    if half is not None:
        results = [tf.cast(result, half) for result in results]
    return results[0], results[1]


def weighted_moments(
    x: Any,
    axes: PerDimension | Tensor,
    frequency_weights: TensorLike,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, Any]:
    """Mean and variance of weighted elements."""
    keep_dims = renamed("keepdims", keepdims, "keep_dims", keep_dims) or False
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = convert_to_tensor(x, name="x")
        weights = convert_to_tensor(frequency_weights, name="frequency_weights")
        half = _half_type(x)
        if half is not None:
            x = tf.cast(x, "float32")
        if x.dtype != weights.dtype:
            weights = tf.cast(weights, x.dtype)
        along = functools.partial(tf.reduce_sum, axis=axes, keepdims=True)
        total = along(weights * x, name="weighted_input_sum")
        count = along(weights + tf.zeros_like(x), name="sum_of_weights")
        center = tf.div_no_nan(total, count)
        apart = along(tf.multiply(weights, tf.squared_difference(x, center), name="mul"), name="weighted_distsq")
        return _as_asked([center, tf.div_no_nan(apart, count)], axes, keep_dims, half)


def sufficient_statistics(
    x: TensorLike,
    axes: Any,
    shift: TensorLike | None = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Count, sum, sum of squares and shift."""
    keep_dims = renamed("keepdims", keepdims, "keep_dims", keep_dims) or False
    axes = list(set(axes))
    with name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert_to_tensor(x, name="x")
        count = _count_along(x, axes)
        if shift is None:
            parts = {"mean_ss": x, "var_ss": tf.square(x)}
        else:
            shift = convert_to_tensor(shift, name="shift")
            parts = {"mean_ss": tf.subtract(x, shift), "var_ss": tf.squared_difference(x, shift)}
        sums = [tf.reduce_sum(part, axes, keepdims=keep_dims, name=word) for word, part in parts.items()]
    return count, sums[0], sums[1], shift


def _count_along(x: Tensor, axes: list[int]) -> Any:
    """Number of elements that a reduction over the axes combines to one: a constant if the sizes are known."""
    if x.shape.rank is not None:
        sizes = x.shape.as_list()
        known: list[Any] = [sizes[axis] for axis in axes]
        if None not in known:
            return constant(math.prod(known), dtype=x.dtype)
    rank = tf.rank(x)
    places = [rank + axis if axis < 0 else axis for axis in axes]
    return tf.reduce_prod(tf.gather(tf.cast(tf.shape(x), x.dtype), places), name="count")


def normalize_moments(
    counts: TensorLike, mean_ss: TensorLike, variance_ss: TensorLike, shift: TensorLike, name: str | None = None
) -> tuple[Any, Any]:
    """Mean and variance from sufficient statistics."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        inverse = tf.reciprocal(counts, name="divisor")
        moved = tf.multiply(mean_ss, inverse, name="mean" if shift is None else "shifted_mean")
        center = moved if shift is None else tf.add(moved, shift, name="mean")
        return center, tf.subtract(tf.multiply(variance_ss, inverse), tf.square(moved), name="variance")


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Any:
    """x normalised by moments, times `scale`, plus `offset`."""
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = tf.rsqrt(variance + variance_epsilon)
        if scale is not None:
            inverse *= scale
        scaled = x * tf.cast(inverse, x.dtype)
        return scaled + tf.cast(offset - mean * inverse if offset is not None else -mean * inverse, x.dtype)


def batch_norm_with_global_normalization(
    t: object = None,
    m: object = None,
    v: object = None,
    beta: TensorLike | None = None,
    gamma: TensorLike | None = None,
    variance_epsilon: TensorLike | None = None,
    scale_after_normalization: object = None,
    name: str | None = None,
    input: TensorLike | None = None,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
) -> Any:
    """`batch_normalization` under an older name and arguments."""
    pairs = (("input", input, "t", t), ("mean", mean, "m", m), ("variance", variance, "v", v))
    x, center, spread = (renamed(*pair) for pair in pairs)
    factor = gamma if scale_after_normalization else None
    return batch_normalization(x, center, spread, beta, factor, variance_epsilon, name)


def fused_batch_norm(
    x: TensorLike,
    scale: TensorLike,
    offset: TensorLike,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """Batch norm in one op.  Return the output, and the batch's mean and variance."""
    uses_given = not is_training or exponential_avg_factor != 1.0
    if uses_given and any(moment is None for moment in (mean, variance)):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or `exponential_avg_factor` != 1.0. "
            f"Received: `mean` {mean!r} and `variance` {variance!r}"
        )
    inputs = convert_named(input=x, scale=scale, offset=offset)
    inputs += [constant([]) if moment is None else moment for moment in (mean, variance)]
    attrs = {"epsilon": epsilon, "exponential_avg_factor": exponential_avg_factor}
    found = gen("FusedBatchNormV3")(*inputs, **attrs, data_format=data_format, is_training=is_training, name=name)
    return found[0], found[1], found[2]


def dropout(
    x: TensorLike,
    keep_prob: Any = None,
    noise_shape: object = None,
    seed: int | None = None,
    name: str | None = None,
    rate: TensorLike | None = None,
) -> Any:
    """Set random elements to zero, and scale the others so that the expected sum stays the same."""
    if keep_prob is not None:
        try:
            kept_rate = 1.0 - keep_prob
        except TypeError:
            raise ValueError(
                f"`keep_prob` must be a floating point number or Tensor. Received: keep_prob={keep_prob}"
            ) from None
    else:
        kept_rate = None
    rate = renamed("rate", rate, "keep_prob", kept_rate)
    if rate is None:
        raise ValueError(f"`rate` must be provided. Received: rate={rate}")
    with name_scope(name, "dropout", [x]):
        return _dropout(x, rate, noise_shape, lambda shape, dtype: tf.random_uniform(shape, seed=seed, dtype=dtype))


def general_dropout(
    x: TensorLike, rate: TensorLike, uniform_sampler: Callable[..., Any], noise_shape: object = None, name: str | None = None
) -> Any:
    """Dropout with random numbers from `uniform_sampler`."""
    with name_scope(name, "general_dropout", [x]):
        return _dropout(x, rate, noise_shape, uniform_sampler)


def stateless_dropout(
    x: TensorLike,
    rate: TensorLike,
    seed: TensorLike,
    rng_alg: str = "auto_select",
    noise_shape: object = None,
    name: str | None = None,
) -> Any:
    """Dropout determined by its seed."""
    with name_scope(name, "stateless_dropout", [x]):
        return _dropout(
            x,
            rate,
            noise_shape,
            lambda shape, dtype: tf.random.stateless_uniform(shape=shape, seed=seed, dtype=dtype, alg=rng_alg),
        )


def _dropout(x: TensorLike, rate: Any, noise_shape: object, sampler: Callable[..., Any]) -> Any:
    """Dropout in the current name scope."""
    is_number = isinstance(rate, Real)
    if is_number and not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    x = convert_to_tensor(x, name="x")
    dtype = x.dtype
    if not dtype.is_floating:
        raise ValueError(f"`x.dtype` must be a floating point tensor as `x` will be scaled. Received: x_dtype={dtype}")
    if is_number and rate == 0:
        return x
    if not is_number and isinstance(rate, Tensor):
        if rate.shape.rank is not None and rate.shape.rank != 0:
            raise ValueError(f"Shape {rate.shape} must have rank 0")
        if rate.dtype != dtype:
            if not rate.dtype.is_compatible_with(dtype):
                raise ValueError(
                    f"`x.dtype` must be compatible with `rate.dtype`. Received: x.dtype={dtype} and rate.dtype={rate.dtype}"
                )
            rate = tf.cast(rate, dtype, name="rate")
        one = constant(1, dtype=dtype)
        scaled = gen("RealDiv")(x, gen("Sub")(one, rate))
    else:
        rate = rate if is_number else convert_to_tensor(rate, dtype=dtype, name="rate")
        scaled = gen("Mul")(x, convert_to_tensor(1 / (1 - rate), dtype=dtype))
    shape = _noise_shape(x, noise_shape)
    noise = sampler(shape=shape, dtype=dtype)
    kept = noise >= rate
    zero = constant(0, dtype=dtype)
    result = tf.where_v2(kept, scaled, zero)
    result.set_shape(x.shape)
    return result


def _noise_shape(x: Tensor, noise_shape: object) -> Any:
    if noise_shape is None:
        return tf.shape(x)
    try:
        from placesim.tf1.types.shapes import as_shape

        given = as_shape(noise_shape)
    except (TypeError, ValueError):
        return noise_shape
    if x.shape.rank is not None and given.rank == x.shape.rank:
        sizes = [
            of_x if size is None and of_x is not None else size
            for of_x, size in zip(x.shape.as_list(), given.as_list(), strict=True)
        ]
        from placesim.tf1.types.shapes import TensorShape

        return TensorShape(sizes)
    return noise_shape
