"""Moments, normalisation and dropout."""

from __future__ import annotations

from numbers import Real
from typing import Any

from placesim.tf1.arguments import renamed
from placesim.tf1.conversion import constant, convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.namespaces import namespace
from placesim.tf1.scopes import name_scope
from placesim.tf1.tensor import Tensor

tf: Any = namespace("")


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Any:
    """x over its length along `axis`."""
    axis = renamed("axis", axis, "dim", dim)
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            square_sum = tf.reduce_sum(tf.square(tf.real(x)) + tf.square(tf.imag(x)), axis, keepdims=True)
            inverse = tf.rsqrt(tf.maximum(square_sum, epsilon))
            real = tf.multiply(tf.real(x), inverse)
            return tf.complex(real, tf.multiply(tf.imag(x), inverse), name=scope)
        square_sum = tf.reduce_sum(tf.square(x), axis, keepdims=True)
        return tf.multiply(x, tf.rsqrt(tf.maximum(square_sum, epsilon)), name=scope)


def moments(
    x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: Any = None, keepdims: Any = None
) -> tuple[Any, Any]:
    """Mean and variance over axes; of half floats they are computed as float32."""
    keep_dims = renamed("keepdims", keepdims, "keep_dims", keep_dims) or False
    with name_scope(name, "moments", [x, axes]):
        y = tf.cast(x, "float32") if _name(x) in ("float16", "bfloat16") else x
        mean = tf.reduce_mean(y, axes, keepdims=True, name="mean")
        variance = tf.reduce_mean(tf.squared_difference(y, tf.stop_gradient(mean)), axes, keepdims=True, name="variance")
        if not keep_dims:
            mean = tf.squeeze(mean, axes)
            variance = tf.squeeze(variance, axes)
        if _name(x) in ("float16", "bfloat16"):
            half = x.dtype.base_dtype
            mean = tf.cast(mean, half)
            return mean, tf.cast(variance, half)
        return mean, variance


def _name(x: Any) -> str:
    found = getattr(x, "dtype", None)
    return "" if found is None else found.base_dtype.name


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: Any = None, keepdims: Any = None
) -> tuple[Any, Any]:
    """Mean and variance where elements count more or less."""
    keep_dims = renamed("keepdims", keepdims, "keep_dims", keep_dims) or False
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = convert_to_tensor(x, name="x")
        weights = convert_to_tensor(frequency_weights, name="frequency_weights")
        half = x.dtype if x.dtype.name in ("float16", "bfloat16") else None
        if half is not None:
            x = tf.cast(x, "float32")
        if weights.dtype != x.dtype:
            weights = tf.cast(weights, x.dtype)
        total = tf.reduce_sum(weights * x, axes, name="weighted_input_sum", keepdims=True)
        broadcast = weights + tf.zeros_like(x)
        count = tf.reduce_sum(broadcast, axes, name="sum_of_weights", keepdims=True)
        mean = tf.div_no_nan(total, count)
        distance = tf.reduce_sum(
            tf.multiply(weights, tf.squared_difference(x, mean), name="mul"), axes, name="weighted_distsq", keepdims=True
        )
        variance = tf.div_no_nan(distance, count)
        if not keep_dims:
            mean = tf.squeeze(mean, axis=axes)
            variance = tf.squeeze(variance, axis=axes)
        if half is not None:
            mean = tf.cast(mean, half)
            variance = tf.cast(variance, half)
        return mean, variance


def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keep_dims: Any = None, name: str | None = None, keepdims: Any = None
) -> tuple[Any, Any, Any, Any]:
    """Count, sum, sum of squares and shift."""
    keep_dims = renamed("keepdims", keepdims, "keep_dims", keep_dims) or False
    axes = list(set(axes))
    with name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert_to_tensor(x, name="x")
        sizes = None if x.shape.rank is None else x.shape.as_list()
        if sizes is not None and all(sizes[axis] is not None for axis in axes):
            product = 1
            for axis in axes:
                product *= sizes[axis]
            count = constant(product, dtype=x.dtype)
        else:
            rank = tf.rank(x)
            positive = [axis if axis >= 0 else rank + axis for axis in axes]
            x_dims = tf.gather(tf.cast(tf.shape(x), x.dtype), positive)
            count = tf.reduce_prod(x_dims, name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, name="shift")
            mean = tf.subtract(x, shift)
            variance = tf.squared_difference(x, shift)
        else:
            mean = x
            variance = tf.square(x)
        mean = tf.reduce_sum(mean, axes, keepdims=keep_dims, name="mean_ss")
        variance = tf.reduce_sum(variance, axes, keepdims=keep_dims, name="var_ss")
    return count, mean, variance, shift


def normalize_moments(counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None) -> tuple[Any, Any]:
    """Mean and variance of sufficient statistics."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = tf.reciprocal(counts, name="divisor")
        if shift is not None:
            shifted = tf.multiply(mean_ss, divisor, name="shifted_mean")
            mean = tf.add(shifted, shift, name="mean")
        else:
            shifted = mean = tf.multiply(mean_ss, divisor, name="mean")
        variance = tf.subtract(tf.multiply(variance_ss, divisor), tf.square(shifted), name="variance")
    return mean, variance


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Any:
    """x normalised by moments, scaled and moved."""
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = tf.rsqrt(variance + variance_epsilon)
        if scale is not None:
            inverse *= scale
        scaled = x * tf.cast(inverse, x.dtype)
        return scaled + tf.cast(offset - mean * inverse if offset is not None else -mean * inverse, x.dtype)


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Any:
    """The old batch norm, by the new one's nodes."""
    t = renamed("input", input, "t", t)
    m = renamed("mean", mean, "m", m)
    v = renamed("variance", variance, "v", v)
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name)


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """Batch norm in one op: what comes out, and the batch's mean and variance."""
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or `exponential_avg_factor` != 1.0. "
            f"Received: `mean` {mean!r} and `variance` {variance!r}"
        )
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, name="scale")
    offset = convert_to_tensor(offset, name="offset")
    if mean is None:
        mean = constant([])
    if variance is None:
        variance = constant([])
    found = gen("FusedBatchNormV3")(
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return found[0], found[1], found[2]


def dropout(
    x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: Any = None, name: str | None = None, rate: Any = None
) -> Any:
    """Zeros some of the elements by chance, and scales the others so that their sum stays."""
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
    return _dropout(x, rate, noise_shape, seed, name)


def dropout_v2(x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None) -> Any:
    """As `dropout`, by the rate alone."""
    return _dropout(x, rate, noise_shape, seed, name)


def _dropout(x: Any, rate: Any, noise_shape: Any, seed: Any, name: str | None) -> Any:
    with name_scope(name, "dropout", [x]):
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
                raise ValueError(f"`rate` must be a scalar tensor.Received: {rate}")
            if rate.dtype != dtype:
                if not rate.dtype.is_compatible_with(dtype):
                    raise ValueError(
                        f"`x.dtype` must be same as `rate.dtype`. Received: x_dtype={dtype}, rate_dtype={rate.dtype}"
                    )
                rate = tf.cast(rate, dtype, name="rate")
            one = constant(1, dtype=dtype)
            scaled = gen("RealDiv")(x, gen("Sub")(one, rate))
        else:
            rate = rate if is_number else convert_to_tensor(rate, dtype=dtype, name="rate")
            scaled = gen("Mul")(x, convert_to_tensor(1 / (1 - rate), dtype=dtype))
        shape = _noise_shape(x, noise_shape)
        noise = tf.random_uniform(shape, seed=seed, dtype=dtype)
        kept = noise >= rate
        zero = constant(0, dtype=dtype)
        result = tf.where_v2(kept, scaled, zero)
        result.set_shape(x.shape)
        return result


def _noise_shape(x: Any, noise_shape: Any) -> Any:
    if noise_shape is None:
        return tf.shape(x)
    try:
        from placesim.tf1.shapes import as_shape

        given = as_shape(noise_shape)
    except (TypeError, ValueError):
        return noise_shape
    if x.shape.rank is not None and given.rank == x.shape.rank:
        sizes = [
            of_x if size is None and of_x is not None else size
            for of_x, size in zip(x.shape.as_list(), given.as_list(), strict=True)
        ]
        from placesim.tf1.shapes import TensorShape

        return TensorShape(sizes)
    return noise_shape
