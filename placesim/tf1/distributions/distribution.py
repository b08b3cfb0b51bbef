"""Base class of distributions: the public methods, implemented with methods that subclasses define."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.array.shaping import broadcast_static_shape
from placesim.tf1.distributions import divergences
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.types.shapes import TensorShape


class ReparameterizationType:
    """Whether samples are differentiable functions of the parameters."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A batch of random variables, each with values of the event's shape.

    A subclass names its parameters' tensors in `_shaping`: the batch's shape is their common shape. It may define `_sample_n`,
    `_log_prob`, `_prob`, `_cdf`, `_entropy`, `_mean`, `_mode`, `_variance` and `_stddev`.
    """

    _shaping: tuple[str, ...] = ()
    _missing: tuple[str, ...] = ()
    """Methods that only TensorFlow has."""
    _is_reparameterized = True

    def __init__(
        self,
        dtype: Any = None,
        reparameterization_type: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        parameters: dict[str, Any] | None = None,
        graph_parents: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> None:
        if not name or not name.endswith("/"):
            with tf.name_scope(name or type(self).__name__) as name:
                pass
        self.dtype, self.name = dtype, name
        self.validate_args, self.allow_nan_stats = validate_args, allow_nan_stats
        self._take_parameters(parameters or {})
        default = FULLY_REPARAMETERIZED if self._is_reparameterized else NOT_REPARAMETERIZED
        self.reparameterization_type = reparameterization_type or default

    def _take_parameters(self, parameters: dict[str, Any]) -> None:
        """Keep the arguments of `__init__`, for `copy`."""
        known = {key: value for key, value in parameters.items() if key != "self" and not key.startswith("__")}
        self.parameters = known

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """A distribution of the same class with some parameters replaced."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    # --- shapes ---

    @property
    def batch_shape(self) -> TensorShape:
        shape = TensorShape([])
        for name in self._shaping:
            shape = broadcast_static_shape(shape, getattr(self, name).shape)
        return shape

    @property
    def event_shape(self) -> TensorShape:
        return TensorShape([])

    def _batch_shape_tensor(self) -> Any:
        first, *others = self._shaping
        shape = tf.shape(getattr(self, first))
        for other in others:
            shape = tf.broadcast_dynamic_shape(shape, tf.shape(getattr(self, other)))
        return shape

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The batch's shape as a tensor."""
        with self._scope(name):
            if self.batch_shape.is_fully_defined():
                return tf.convert_to_tensor(self.batch_shape.as_list(), dtype=tf.int32, name="batch_shape")
            return self._batch_shape_tensor()

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """The event's shape as a tensor."""
        with self._scope(name):
            if self.event_shape.is_fully_defined():
                return tf.convert_to_tensor(self.event_shape.as_list(), dtype=tf.int32, name="event_shape")
            return self._event_shape_tensor()

    def is_scalar_event(self, name: str = "is_scalar_event") -> Any:
        """Whether events are scalars."""
        with self._scope(name):
            return tf.convert_to_tensor(self.event_shape.ndims == 0, name="is_scalar_event")

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Any:
        """Whether there is one random variable."""
        with self._scope(name):
            return tf.convert_to_tensor(self.batch_shape.ndims == 0, name="is_scalar_batch")

    # --- samples ---

    def sample(self, sample_shape: object = (), seed: int | None = None, name: str = "sample") -> Any:
        """Random values of the shape `[*sample_shape, *batch_shape, *event_shape]`."""
        with self._scope(name):
            wanted = tf.convert_to_tensor(sample_shape, dtype=tf.int32, name="sample_shape")
            wanted, count = _as_vector(wanted)
            drawn = self._sample_n(count, seed)
            drawn = self._finish_sample(tf.reshape(drawn, tf.concat([wanted, tf.shape(drawn)[1:]], 0)))
            sizes = tf.get_static_value(wanted)
            if sizes is not None:
                drawn.set_shape(TensorShape(sizes.tolist()).concatenate(self.batch_shape).concatenate(self.event_shape))
            return drawn

    def _finish_sample(self, drawn: Any) -> Any:
        """Samples in their last shape, for subclasses that compute with it."""
        return drawn

    # --- densities ---

    def log_prob(self, value: TensorLike, name: str = "log_prob") -> Any:
        """The logarithm of the density or probability of values."""
        return self._of_value("log_prob", value, name, "_prob", tf.log)

    def prob(self, value: TensorLike, name: str = "prob") -> Any:
        """The density or probability of values."""
        return self._of_value("prob", value, name, "_log_prob", tf.exp)

    def cdf(self, value: TensorLike, name: str = "cdf") -> Any:
        """The probability of values up to these."""
        return self._of_value("cdf", value, name, "_log_cdf", tf.exp)

    def log_cdf(self, value: TensorLike, name: str = "log_cdf") -> Any:
        """The logarithm of `cdf`."""
        return self._of_value("log_cdf", value, name, "_cdf", tf.log)

    def survival_function(self, value: TensorLike, name: str = "survival_function") -> Any:
        """The probability of values beyond these."""
        return self._of_value("survival_function", value, name, "cdf", lambda found: 1.0 - found)

    def log_survival_function(self, value: TensorLike, name: str = "log_survival_function") -> Any:
        """The logarithm of `survival_function`."""
        return self._of_value("log_survival_function", value, name, "cdf", lambda found: tf.log1p(-found))

    def quantile(self, value: TensorLike, name: str = "quantile") -> Any:
        """The values below which random values lie with these probabilities."""
        return self._of_value("quantile", value, name)

    def _of_value(self, method: str, value: TensorLike, name: str, *fallback: Any) -> Any:
        with self._scope(name):
            # an integer becomes a value of the distribution's type if it can
            value = tf.convert_to_tensor(value, name="value", preferred_dtype=self.dtype)
            return self._compute(method, fallback, value)

    def _compute(self, method: str, fallback: tuple[Any, ...], *args: Any) -> Any:
        """The result of the subclass's method, or of its fallback: another method and a function of that method's result.

        Raises NotImplementedError if the subclass has neither.
        """
        if method in self._missing:
            raise not_there(f"distributions.{type(self).__name__}.{method}", "other methods of the distribution are")
        if (own := getattr(self, f"_{method}", None)) is not None:
            return own(*args)
        if fallback and (other := getattr(self, fallback[0], None)) is not None:
            return fallback[1](other(*args))
        raise NotImplementedError(f"{method} is not implemented: {type(self).__name__}")

    # --- statistics ---

    def entropy(self, name: str = "entropy") -> Any:
        """The entropy in nats."""
        return self._statistic("entropy", name)

    def mean(self, name: str = "mean") -> Any:
        """The mean."""
        return self._statistic("mean", name)

    def mode(self, name: str = "mode") -> Any:
        """The most probable value."""
        return self._statistic("mode", name)

    def variance(self, name: str = "variance") -> Any:
        """The variance."""
        return self._statistic("variance", name, "_stddev", tf.square)

    def stddev(self, name: str = "stddev") -> Any:
        """The standard deviation."""
        return self._statistic("stddev", name, "_variance", tf.sqrt)

    def covariance(self, name: str = "covariance") -> Any:
        """The covariance of the event's components."""
        return self._statistic("covariance", name)

    def _statistic(self, method: str, name: str, *fallback: Any) -> Any:
        with self._scope(name):
            return self._compute(method, fallback)

    def cross_entropy(self, other: Any, name: str = "cross_entropy") -> Any:
        """The entropy plus the divergence from `other`."""
        with self._scope(name), tf.name_scope("cross_entropy"):
            return self.entropy() + divergences.kl_divergence(self, other, self.allow_nan_stats)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Any:
        """The Kullback-Leibler divergence from `other`."""
        with self._scope(name):
            return divergences.kl_divergence(self, other, self.allow_nan_stats)

    def __str__(self) -> str:
        batch = "" if self.batch_shape.ndims is None else f", batch_shape={self.batch_shape}"
        event = "" if self.event_shape.ndims is None else f", event_shape={self.event_shape}"
        return f'tfp.distributions.{type(self).__name__}("{self.name}"{batch}{event}, dtype={self.dtype.name})'

    def __repr__(self) -> str:
        shapes = f"batch_shape={self.batch_shape} event_shape={self.event_shape}"
        return f"<tfp.distributions.{type(self).__name__} '{self.name}' {shapes} dtype={self.dtype.name}>"

    # --- for subclasses ---

    @contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        """Name scope of a method, inside the distribution's."""
        with tf.name_scope(self.name), tf.name_scope(name):
            yield

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        raise NotImplementedError(f"sample_n is not implemented: {type(self).__name__}")

    def _drawn_shape(self, count: Any) -> Any:
        """Shape of `count` samples of scalar events, for random ops."""
        return tf.concat([[count], self.batch_shape_tensor()], 0)

    def _nan(self) -> Any:
        """NaN for each random variable of the batch."""
        return tf.fill(self.batch_shape_tensor(), np.array(np.nan, self.dtype.as_numpy_dtype), name="nan")


def _as_vector(shape: Tensor) -> tuple[Any, Any]:
    """A sample's shape as a vector, and the number of samples."""
    sizes = tf.get_static_value(shape)
    count = tf.reduce_prod(shape) if sizes is None else np.prod(sizes, dtype=np.int32)
    rank = shape.shape.ndims
    if rank == 0:
        return (tf.reshape(shape, [1]) if sizes is None else tf.constant([sizes], tf.int32, name="sample_shape")), count
    if rank != 1:
        if rank is None:
            raise not_there("distributions.Distribution.sample of a shape of unknown rank", "set its shape")
        raise ValueError("Input is neither scalar nor vector.")
    return shape, count


def logits_and_probs(logits: Any, probs: Any, name: str, has_classes: bool = False) -> tuple[Any, Any]:
    """Logits and probabilities of a distribution, from either of them. Raises ValueError or TypeError."""
    with tf.name_scope(name):
        if (probs is None) == (logits is None):
            raise ValueError("Must pass probs or logits, but not both.")
        given = tf.convert_to_tensor(*((logits, None, "logits") if probs is None else (probs, None, "probs")))
        if not given.dtype.is_floating:
            raise TypeError(f"{'logits' if probs is None else 'probs'} must having floating type.")
        if probs is None:
            return given, tf.nn.softmax(given, name="probs") if has_classes else tf.sigmoid(given, name="probs")
        with tf.name_scope("logits"):
            log = tf.log(given)
            return (log if has_classes else log - tf.log1p(-1.0 * given)), given


def refuse_checks(distribution: str) -> NotImplementedError:
    """Error for `validate_args` of a distribution without checks."""
    return not_there(f"distributions.{distribution} with validate_args", "without it, it is")
