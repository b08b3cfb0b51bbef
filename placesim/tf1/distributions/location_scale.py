"""Distributions on the real line, given by location and scale or by limits."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.distributions.distribution import Distribution
from placesim.tf1.distributions.divergences import RegisterKL
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.random.seeds import salted_seed


def positive(validate_args: bool, *values: TensorLike) -> AbstractContextManager[None]:
    """Control dependencies that check parameters, if `validate_args` asks for it."""
    found: AbstractContextManager[None] = tf.control_dependencies(
        [tf.assert_positive(value) for value in values] if validate_args else []
    )
    return found


class _LocationScale(Distribution):
    """Base class of distributions of `loc` and `scale`, tensors that broadcast to the batch's shape."""

    _shaping = ("loc", "scale")

    def _take_location_and_scale(self, parameters: dict[str, Any]) -> None:
        """Make the tensors of the arguments of `__init__`."""
        loc, scale, checks = (parameters[key] for key in ("loc", "scale", "validate_args"))
        with tf.name_scope(parameters["name"], values=[loc, scale]) as scope, positive(checks, scale):
            self.loc = tf.identity(loc, name="loc")
            self.scale = tf.identity(scale, name="scale")
            tf.assert_same_float_dtype([self.loc, self.scale])
        super().__init__(self.scale.dtype, None, checks, parameters["allow_nan_stats"], parameters, name=scope)

    def _standard(self, value: TensorLike) -> Any:
        with tf.name_scope("standardize"):
            return (value - self.loc) / self.scale


class Normal(_LocationScale):
    """Normal distributions of mean `loc` and standard deviation `scale`, tensors that broadcast to the batch's shape."""

    # TensorFlow computes them by series
    _missing = ("log_cdf", "log_survival_function", "quantile")

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        self._take_location_and_scale(dict(locals()))

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        drawn = tf.random_normal(self._drawn_shape(count), mean=0.0, stddev=1.0, dtype=self.loc.dtype, seed=seed)
        return drawn * self.scale + self.loc

    def _log_prob(self, value: TensorLike) -> Any:
        return -0.5 * tf.square(self._standard(value)) - (0.5 * math.log(2.0 * math.pi) + tf.log(self.scale))

    def _cdf(self, value: TensorLike) -> Any:
        return _normal_cdf(self._standard(value))

    def _survival_function(self, value: TensorLike) -> Any:
        return _normal_cdf(-self._standard(value))

    def _entropy(self) -> Any:
        scale = self.scale * tf.ones_like(self.loc)
        return 0.5 * math.log(2.0 * math.pi * math.e) + tf.log(scale)

    def _mean(self) -> Any:
        return self.loc * tf.ones_like(self.scale)

    _mode = _mean

    def _stddev(self) -> Any:
        return self.scale * tf.ones_like(self.loc)


class NormalWithSoftplusScale(Normal):
    """Normal distributions of standard deviation `softplus(scale)`."""

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "NormalWithSoftplusScale",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[scale]) as scope:
            super().__init__(loc, tf.nn.softplus(scale, name="softplus_scale"), validate_args, allow_nan_stats, scope)
        self._take_parameters(parameters)


def _normal_cdf(value: Any) -> Any:
    """The standard normal distribution function, by the error function near 0 and its complement elsewhere."""
    with tf.name_scope("ndtr"):
        root = tf.constant(0.5 * np.sqrt(2.0), dtype=value.dtype, name="half_sqrt_2")
        scaled = value * root
        size = tf.abs(scaled)
        is_small = tf.less(size, root)
        inner = 1.0 + tf.erf(scaled)
        is_right = tf.greater(scaled, 0.0)
        right = 2.0 - tf.erfc(size)
        return 0.5 * tf.where_v2(is_small, inner, tf.where_v2(is_right, right, tf.erfc(size)))


@RegisterKL(Normal, Normal)
def _divergence_of_normals(a: Normal, b: Normal, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        one, two, half = (tf.constant(value, dtype=a.dtype) for value in (1, 2, 0.5))
        squared_a, squared_b = tf.square(a.scale), tf.square(b.scale)
        ratio = squared_a / squared_b
        return tf.squared_difference(a.loc, b.loc) / (two * squared_b) + half * (ratio - one - tf.log(ratio))


class Uniform(Distribution):
    """Uniform distributions from `low` (included) to `high` (excluded)."""

    _shaping = ("low", "high")

    def __init__(
        self,
        low: TensorLike = 0.0,
        high: TensorLike = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[low, high]) as scope:
            message = "uniform not defined when low >= high."
            with tf.control_dependencies([tf.assert_less(low, high, message=message)] if validate_args else []):
                self.low = tf.identity(low, name="low")
                self.high = tf.identity(high, name="high")
            tf.assert_same_float_dtype([self.low, self.high])
        super().__init__(self.low.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    def range(self, name: str = "range") -> Any:
        """`high - low`."""
        with self._scope(name):
            return self.high - self.low

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        drawn = tf.random_uniform(self._drawn_shape(count), dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _prob(self, value: Any) -> Any:
        value = value * tf.ones(self.batch_shape_tensor(), dtype=value.dtype)
        is_nan = tf.is_nan(value)
        is_outside = tf.logical_or(value < self.low, value >= self.high)
        outside = tf.zeros_like(value)
        return tf.where_v2(is_nan, value, tf.where_v2(is_outside, outside, tf.ones_like(value) / self.range()))

    def _cdf(self, value: TensorLike) -> Any:
        shape = tf.broadcast_dynamic_shape(tf.shape(value), self.batch_shape_tensor())
        zeros = tf.zeros(shape, dtype=self.dtype)
        ones = tf.ones(shape, dtype=self.dtype)
        broadcast = value * ones
        below_high = tf.where_v2(value < self.low, zeros, (broadcast - self.low) / self.range())
        return tf.where_v2(value >= self.high, ones, below_high)

    def _entropy(self) -> Any:
        return tf.log(self.range())

    def _mean(self) -> Any:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Any:
        return tf.square(self.range()) / 12.0

    def _stddev(self) -> Any:
        return self.range() / math.sqrt(12.0)


class Laplace(Distribution):
    """Laplace distributions: exponential distributions of scale `scale` to both sides of `loc`."""

    _shaping = ("loc", "scale")

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[loc, scale]) as scope:
            with positive(validate_args, scale):
                self.loc = tf.identity(loc, name="loc")
                self.scale = tf.identity(scale, name="scale")
                tf.assert_same_float_dtype([self.loc, self.scale])
            super().__init__(self.loc.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        real = self.dtype.as_numpy_dtype
        low = np.nextafter(real(-1.0), real(0.0))
        drawn = tf.random_uniform(self._drawn_shape(count), minval=low, maxval=1.0, dtype=self.dtype, seed=seed)
        return self.loc - self.scale * tf.sign(drawn) * tf.log1p(-tf.abs(drawn))

    def _log_prob(self, value: TensorLike) -> Any:
        return -tf.abs(self._standard(value)) - (math.log(2.0) + tf.log(self.scale))

    def _log_cdf(self, value: TensorLike) -> Any:
        return _log_laplace_cdf(self._standard(value))

    def _log_survival_function(self, value: TensorLike) -> Any:
        return _log_laplace_cdf(-self._standard(value))

    def _cdf(self, value: TensorLike) -> Any:
        standard = self._standard(value)
        return 0.5 + 0.5 * tf.sign(standard) * (1.0 - tf.exp(-tf.abs(standard)))

    def _entropy(self) -> Any:
        scale = self.scale + tf.zeros_like(self.loc)
        return math.log(2.0) + 1.0 + tf.log(scale)

    def _mean(self) -> Any:
        return self.loc + tf.zeros_like(self.scale)

    _mode = _mean

    def _stddev(self) -> Any:
        return math.sqrt(2.0) * self.scale + tf.zeros_like(self.loc)

    def _standard(self, value: TensorLike) -> Any:
        return (value - self.loc) / self.scale


def _log_laplace_cdf(value: Any) -> Any:
    """The logarithm of the standard Laplace distribution function."""
    with tf.name_scope("log_cdf_laplace"):
        left = -np.log(2.0) + value
        right = tf.log1p(-0.5 * tf.exp(-tf.abs(value)))
        return tf.where_v2(value < 0.0, left, right)


class Cauchy(_LocationScale):
    """Cauchy distributions of median `loc` and scale `scale`, tensors that broadcast to the batch's shape."""

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Cauchy",
    ) -> None:
        self._take_location_and_scale(dict(locals()))

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        shape = self._drawn_shape(count)
        return self._quantile(tf.random_uniform(shape, minval=0.0, maxval=1.0, dtype=self.dtype, seed=seed))

    def _log_prob(self, value: TensorLike) -> Any:
        unnormalized = -tf.log1p(tf.square(self._standard(value)))
        return unnormalized - (np.log(np.pi) + tf.log(self.scale))

    def _cdf(self, value: TensorLike) -> Any:
        return tf.atan(self._standard(value)) / np.pi + 0.5

    def _log_cdf(self, value: TensorLike) -> Any:
        return tf.log1p(2 / np.pi * tf.atan(self._standard(value))) - np.log(2)

    def _quantile(self, value: Any) -> Any:
        return self.loc + self.scale * tf.tan(np.pi * (value - 0.5))

    def _entropy(self) -> Any:
        entropy = np.log(4 * np.pi) + tf.log(self.scale)
        return entropy * tf.ones_like(self.loc)

    def _mode(self) -> Any:
        return self.loc * tf.ones_like(self.scale)

    def _mean(self) -> Any:
        return self._undefined("mean")

    def _stddev(self) -> Any:
        return self._undefined("stddev")

    def _undefined(self, statistic: str) -> Any:
        if not self.allow_nan_stats:
            raise ValueError(f"`{statistic}` is undefined for Cauchy distribution.")
        return tf.fill(self.batch_shape_tensor(), self.dtype.as_numpy_dtype(np.nan))


class StudentT(Distribution):
    """Student's t distributions of `df` degrees of freedom, moved by `loc` and scaled by `scale`."""

    _shaping = ("df", "loc", "scale")
    _missing = ("cdf", "log_cdf", "survival_function", "log_survival_function", "variance", "stddev")

    def __init__(
        self,
        df: TensorLike,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[df, loc, scale]) as scope, positive(validate_args, df):
            self.df = tf.identity(df, name="df")
            self.loc = tf.identity(loc, name="loc")
            self.scale = tf.identity(scale, name="scale")
            tf.assert_same_float_dtype([self.df, self.loc, self.scale])
        super().__init__(self.scale.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    def _batch_shape_tensor(self) -> Any:
        df = tf.shape(self.df)
        return tf.broadcast_dynamic_shape(df, tf.broadcast_dynamic_shape(tf.shape(self.loc), tf.shape(self.scale)))

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        drawn = tf.random_normal(self._drawn_shape(count), dtype=self.dtype, seed=seed)
        df = self.df * tf.ones(self.batch_shape_tensor(), dtype=self.dtype)
        second = salted_seed(seed, "student_t")
        chi = tf.random_gamma([count], 0.5 * df, beta=0.5, dtype=self.dtype, seed=second)
        return drawn * tf.rsqrt(chi / df) * self.scale + self.loc

    def _log_prob(self, value: TensorLike) -> Any:
        standard = (value - self.loc) / self.scale
        unnormalized = -0.5 * (self.df + 1.0) * tf.log1p(standard**2.0 / self.df)
        normalization = (
            tf.log(tf.abs(self.scale))
            + 0.5 * tf.log(self.df)
            + 0.5 * np.log(np.pi)
            + tf.lgamma(0.5 * self.df)
            - tf.lgamma(0.5 * (self.df + 1.0))
        )
        return unnormalized - normalization

    def _entropy(self) -> Any:
        ones = tf.ones(self.batch_shape_tensor(), dtype=self.dtype)[..., tf.newaxis]
        shapes = tf.concat([ones * self.df[..., tf.newaxis], ones], -1) / 2.0
        return (
            tf.log(tf.abs(self.scale))
            + 0.5 * tf.log(self.df)
            + tf.lbeta(shapes)
            + 0.5 * (self.df + 1.0) * (tf.digamma(0.5 * (self.df + 1.0)) - tf.digamma(0.5 * self.df))
        )

    def _mean(self) -> Any:
        mean = self.loc * tf.ones(self.batch_shape_tensor(), dtype=self.dtype)
        if self.allow_nan_stats:
            ones = tf.ones(self.batch_shape_tensor(), dtype=self.dtype)
            return tf.where_v2(tf.greater(self.df, ones), mean, self._nan())
        message = "mean not defined for components of df <= 1"
        return with_dependencies([tf.assert_less(tf.ones([], dtype=self.dtype), self.df, message=message)], mean)

    def _mode(self) -> Any:
        return tf.identity(self.loc)


class Logistic(_LocationScale):
    """Logistic distributions of mean `loc` and scale `scale`, tensors that broadcast to the batch's shape."""

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Logistic",
    ) -> None:
        self._take_location_and_scale(dict(locals()))

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        least = np.finfo(self.dtype.as_numpy_dtype).tiny
        shape = self._drawn_shape(count)
        drawn = tf.random_uniform(shape=shape, minval=least, maxval=1.0, dtype=self.dtype, seed=seed)
        return (tf.log(drawn) - tf.log1p(-1.0 * drawn)) * self.scale + self.loc

    def _log_prob(self, value: TensorLike) -> Any:
        z = self._standard(value)
        return -z - 2.0 * tf.nn.softplus(-z) - tf.log(self.scale)

    def _log_cdf(self, value: TensorLike) -> Any:
        return -tf.nn.softplus(-self._standard(value))

    def _cdf(self, value: TensorLike) -> Any:
        return tf.sigmoid(self._standard(value))

    def _log_survival_function(self, value: TensorLike) -> Any:
        return -tf.nn.softplus(self._standard(value))

    def _survival_function(self, value: TensorLike) -> Any:
        return tf.sigmoid(-self._standard(value))

    def _entropy(self) -> Any:
        return 2 + tf.log(self.scale * tf.ones_like(self.loc))

    def _mean(self) -> Any:
        return self.loc * tf.ones_like(self.scale)

    _mode = _mean

    def _stddev(self) -> Any:
        return self.scale * tf.ones_like(self.loc) * math.pi / math.sqrt(3)
