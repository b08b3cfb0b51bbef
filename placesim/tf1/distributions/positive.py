"""Distributions of positive numbers, of probabilities and of vectors of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.distributions.distribution import Distribution
from placesim.tf1.distributions.divergences import RegisterKL
from placesim.tf1.distributions.location_scale import positive
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.random.seeds import salted_seed
from placesim.tf1.types.shapes import TensorShape


class _OfConcentrationAndRate(Distribution):
    """Base class of distributions of `concentration` and `rate`, tensors that broadcast to the batch's shape."""

    _shaping = ("concentration", "rate")

    def _take_concentration_and_rate(self, parameters: dict[str, Any]) -> None:
        """Make the tensors of the arguments of `__init__`."""
        concentration, rate, checks = (parameters[key] for key in ("concentration", "rate", "validate_args"))
        scope_of = tf.name_scope(parameters["name"], values=[concentration, rate])
        with scope_of as scope, positive(checks, concentration, rate):
            self.concentration = tf.identity(concentration, name="concentration")
            self.rate = tf.identity(rate, name="rate")
            tf.assert_same_float_dtype([self.concentration, self.rate])
        super().__init__(self.concentration.dtype, None, checks, parameters["allow_nan_stats"], parameters, name=scope)

    def _log_normalization(self) -> Any:
        return tf.lgamma(self.concentration) - self.concentration * tf.log(self.rate)

    def _checked(self, value: Any) -> Any:
        return with_dependencies([tf.assert_positive(value)], value) if self.validate_args else value

    def _where_defined(self, statistic: str, value: Any, least: float) -> Any:
        """A value where the concentration exceeds `least`; elsewhere NaN, or an error in the step."""
        if self.allow_nan_stats:
            nan = self._nan()
            return tf.where_v2(self.concentration > least, value, nan)
        message = f"{statistic} when any concentration <= {least:g}"
        bound = tf.ones([], self.dtype) if least == 1 else tf.constant(least, dtype=self.dtype)
        return with_dependencies([tf.assert_less(bound, self.concentration, message=message)], value)


class Gamma(_OfConcentrationAndRate):
    """Gamma distributions of shape `concentration` and inverse scale `rate`."""

    def __init__(
        self,
        concentration: TensorLike,
        rate: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        self._take_concentration_and_rate(dict(locals()))

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        return tf.random_gamma([count], alpha=self.concentration, beta=self.rate, dtype=self.dtype, seed=seed)

    def _log_prob(self, value: TensorLike) -> Any:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _log_unnormalized_prob(self, value: TensorLike) -> Any:
        value = self._checked(value)
        return tf.math.xlogy(self.concentration - 1.0, value) - self.rate * value

    def _cdf(self, value: TensorLike) -> Any:
        return tf.igamma(self.concentration, self.rate * value)

    def _entropy(self) -> Any:
        total = self.concentration - tf.log(self.rate) + tf.lgamma(self.concentration)
        return total + (1.0 - self.concentration) * tf.digamma(self.concentration)

    def _mean(self) -> Any:
        return self.concentration / self.rate

    def _variance(self) -> Any:
        return self.concentration / tf.square(self.rate)

    def _stddev(self) -> Any:
        return tf.sqrt(self.concentration) / self.rate

    def _mode(self) -> Any:
        return self._where_defined("mode not defined", (self.concentration - 1.0) / self.rate, 1.0)


@RegisterKL(Gamma, Gamma)
def _divergence_of_gammas(a: Gamma, b: Gamma, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_gamma_gamma"):
        return (
            (a.concentration - b.concentration) * tf.digamma(a.concentration)
            + tf.lgamma(b.concentration)
            - tf.lgamma(a.concentration)
            + b.concentration * tf.log(a.rate)
            - b.concentration * tf.log(b.rate)
            + a.concentration * (b.rate / a.rate - 1.0)
        )


class Chi2(Gamma):
    """Chi-squared distributions of `df` degrees of freedom."""

    def __init__(self, df: TensorLike, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2") -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[df]) as scope:
            with positive(validate_args, df):
                self.df = tf.identity(df, name="df")
            half = 0.5 * self.df
            super().__init__(half, tf.constant(0.5, dtype=self.df.dtype), validate_args, allow_nan_stats, scope)
        self._take_parameters(parameters)


class InverseGamma(_OfConcentrationAndRate):
    """Distributions of the reciprocals of gamma distributed numbers."""

    _is_reparameterized = False

    def __init__(
        self,
        concentration: TensorLike,
        rate: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "InverseGamma",
    ) -> None:
        self._take_concentration_and_rate(dict(locals()))

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        return 1.0 / tf.random_gamma([count], alpha=self.concentration, beta=self.rate, dtype=self.dtype, seed=seed)

    def _log_prob(self, value: TensorLike) -> Any:
        value = self._checked(value)
        unnormalized = -(1.0 + self.concentration) * tf.log(value) - self.rate / value
        return unnormalized - self._log_normalization()

    def _cdf(self, value: TensorLike) -> Any:
        return tf.igammac(self.concentration, self.rate / self._checked(value))

    def _entropy(self) -> Any:
        total = self.concentration + tf.log(self.rate) + tf.lgamma(self.concentration)
        return total - (1.0 + self.concentration) * tf.digamma(self.concentration)

    def _mean(self) -> Any:
        return self._where_defined("mean undefined", self.rate / (self.concentration - 1.0), 1.0)

    def _variance(self) -> Any:
        scaled = tf.square(self.rate) / tf.math.squared_difference(self.concentration, 1.0)
        return self._where_defined("variance undefined", scaled / (self.concentration - 2.0), 2.0)

    def _mode(self) -> Any:
        return self.rate / (1.0 + self.concentration)


class Exponential(Gamma):
    """Exponential distributions of inverse scale `rate`."""

    def __init__(
        self, rate: TensorLike, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"
    ) -> None:
        with tf.name_scope(name, values=[rate]) as scope:
            given = tf.convert_to_tensor(rate, name="rate")
        super().__init__(tf.ones([], dtype=given.dtype), given, validate_args, allow_nan_stats, scope)
        self.parameters = {"rate": rate, "validate_args": validate_args, "allow_nan_stats": allow_nan_stats, "name": name}

    def _log_survival_function(self, value: TensorLike) -> Any:
        return self._log_prob(value) - tf.log(self.rate)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        shape = tf.concat([[count], tf.shape(self.rate)], 0)
        tiny = np.finfo(self.dtype.as_numpy_dtype).tiny
        drawn = tf.random_uniform(shape, minval=tiny, maxval=1.0, seed=seed, dtype=self.dtype)
        return -tf.log(drawn) / self.rate


class Beta(Distribution):
    """Beta distributions of probabilities, of shapes `concentration1` and `concentration0`."""

    _shaping = ("total_concentration",)

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[concentration1, concentration0]) as scope:
            self.concentration1 = _concentration(concentration1, "concentration1", validate_args)
            self.concentration0 = _concentration(concentration0, "concentration0", validate_args)
            self.total_concentration = self.concentration1 + self.concentration0
            tf.assert_same_float_dtype([self.concentration1, self.concentration0, self.total_concentration])
        super().__init__(self.total_concentration.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        one = tf.ones_like(self.total_concentration, dtype=self.dtype) * self.concentration1
        zero = tf.ones_like(self.total_concentration, dtype=self.dtype) * self.concentration0
        first = tf.random_gamma([count], alpha=one, dtype=self.dtype, seed=seed)
        second = tf.random_gamma([count], alpha=zero, dtype=self.dtype, seed=salted_seed(seed, "beta"))
        return first / (first + second)

    def _log_prob(self, value: TensorLike) -> Any:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _log_unnormalized_prob(self, value: Any) -> Any:
        if self.validate_args:
            checks = [tf.assert_positive(value, message="sample must be positive")]
            checks.append(tf.assert_less(value, tf.ones([], self.dtype), message="sample must be less than `1`."))
            value = with_dependencies(checks, value)
        return tf.math.xlogy(self.concentration1 - 1.0, value) + (self.concentration0 - 1.0) * tf.log1p(-value)

    def _log_normalization(self) -> Any:
        return tf.lgamma(self.concentration1) + tf.lgamma(self.concentration0) - tf.lgamma(self.total_concentration)

    def _cdf(self, value: TensorLike) -> Any:
        return tf.betainc(self.concentration1, self.concentration0, value)

    def _entropy(self) -> Any:
        return (
            self._log_normalization()
            - (self.concentration1 - 1.0) * tf.digamma(self.concentration1)
            - (self.concentration0 - 1.0) * tf.digamma(self.concentration0)
            + (self.total_concentration - 2.0) * tf.digamma(self.total_concentration)
        )

    def _mean(self) -> Any:
        return self.concentration1 / self.total_concentration

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self.total_concentration)

    def _mode(self) -> Any:
        mode = (self.concentration1 - 1.0) / (self.total_concentration - 2.0)
        if self.allow_nan_stats:
            nan = self._nan()
            is_defined = tf.logical_and(self.concentration1 > 1.0, self.concentration0 > 1.0)
            return tf.where_v2(is_defined, mode, nan)
        checks = [
            tf.assert_less(tf.ones([], dtype=self.dtype), value, message=f"Mode undefined for {name} <= 1.")
            for name, value in (("concentration1", self.concentration1), ("concentration0", self.concentration0))
        ]
        return with_dependencies(checks, mode)


@RegisterKL(Beta, Beta)
def _divergence_of_betas(a: Beta, b: Beta, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_beta_beta"):
        second = b._log_normalization()
        total = second - a._log_normalization()
        for parameter in ("concentration1", "concentration0"):
            own = getattr(a, parameter)
            total = total - tf.digamma(own) * (getattr(b, parameter) - own)
        return total + tf.digamma(a.total_concentration) * (b.total_concentration - a.total_concentration)


class Dirichlet(Distribution):
    """Dirichlet distributions of vectors of probabilities; the last axis of `concentration` is the event's."""

    _missing = ("mode", "covariance")
    _shaping = ("total_concentration",)

    def __init__(
        self, concentration: TensorLike, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Dirichlet"
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[concentration]) as scope:
            self.concentration = _concentration(concentration, "concentration", validate_args)
            self.total_concentration = tf.reduce_sum(self.concentration, -1)
        super().__init__(self.concentration.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    @property
    def event_shape(self) -> TensorShape:
        found: TensorShape = self.concentration.shape.with_rank_at_least(1)[-1:]
        return found

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self.concentration)[-1:]

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        drawn = tf.random_gamma([count], alpha=self.concentration, dtype=self.dtype, seed=seed)
        return drawn / tf.reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, value: TensorLike) -> Any:
        return tf.reduce_sum(tf.math.xlogy(self.concentration - 1.0, value), -1) - tf.lbeta(self.concentration)

    def _entropy(self) -> Any:
        size = tf.cast(self.event_shape_tensor()[0], self.dtype)
        return (
            tf.lbeta(self.concentration)
            + (self.total_concentration - size) * tf.digamma(self.total_concentration)
            - tf.reduce_sum((self.concentration - 1.0) * tf.digamma(self.concentration), axis=-1)
        )

    def _mean(self) -> Any:
        return self.concentration / self.total_concentration[..., tf.newaxis]

    def _variance(self) -> Any:
        scale = tf.rsqrt(1.0 + self.total_concentration[..., tf.newaxis])
        scaled = scale * self._mean()
        return scaled * (scale - scaled)


@RegisterKL(Dirichlet, Dirichlet)
def _divergence_of_dirichlets(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_dirichlet_dirichlet"):
        total = tf.digamma(tf.reduce_sum(a.concentration, axis=-1, keepdims=True))
        difference = tf.digamma(a.concentration) - total
        change = a.concentration - b.concentration
        return tf.reduce_sum(change * difference, axis=-1) - tf.lbeta(a.concentration) + tf.lbeta(b.concentration)


def _concentration(value: TensorLike, name: str, validate_args: bool) -> Any:
    found = tf.convert_to_tensor(value, name=name)
    if not validate_args:
        return found
    return with_dependencies([tf.assert_positive(found, message="Concentration parameter must be positive.")], found)
