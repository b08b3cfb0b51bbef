"""Classes as one-hot vectors, and continuous relaxations of classes and of 0 and 1 (Gumbel-softmax)."""

from __future__ import annotations

from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.distributions.bijectors import Exp, Sigmoid
from placesim.tf1.distributions.distribution import Distribution, logits_and_probs, refuse_checks
from placesim.tf1.distributions.divergences import RegisterKL
from placesim.tf1.distributions.location_scale import Logistic
from placesim.tf1.distributions.transformed import TransformedDistribution
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


class _Vectors(Distribution):
    """Base class of distributions of vectors with a component for each class, which `logits` or `probs` gives."""

    def _take_classes(self, logits: Any, probs: Any, scope: str) -> None:
        self.logits, self.probs = logits_and_probs(logits, probs, scope, has_classes=True)

    def _measure(self) -> None:
        """Make the tensors of the batch's rank and of the number of classes."""
        rank = self.logits.shape.with_rank_at_least(1).ndims
        if rank is not None:
            self._batch_rank = tf.convert_to_tensor(rank - 1, dtype=tf.int32, name="batch_rank")
        else:
            with tf.name_scope("batch_rank"):
                self._batch_rank = tf.rank(self.logits) - 1
        with tf.name_scope("event_size"):
            self.event_size = tf.shape(self.logits)[-1]

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = self.logits.shape[:-1]
        return found

    @property
    def event_shape(self) -> TensorShape:
        found: TensorShape = self.logits.shape.with_rank_at_least(1)[-1:]
        return found

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self.logits)[:-1]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self.logits)[-1:]

    def _rows(self, value: Tensor) -> tuple[Any, Any, Any]:
        """Rows of the values and of their logits, and the shape of their densities."""
        logits = self.logits
        if not (value.shape.is_fully_defined() and logits.shape.is_fully_defined() and value.shape == logits.shape):
            logits = tf.ones_like(value, dtype=logits.dtype) * logits
            value = tf.ones_like(logits, dtype=value.dtype) * value
        shape = tf.shape(tf.reduce_sum(logits, axis=self._density_axis))
        logits = tf.reshape(logits, [-1, self.event_size])
        return tf.reshape(value, [-1, self.event_size]), logits, shape

    _density_axis: Any = -1


class OneHotCategorical(_Vectors):
    """Distributions of classes as one-hot vectors.  Raises ValueError for both logits and probabilities."""

    _is_reparameterized = False

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "OneHotCategorical",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("OneHotCategorical")
        with tf.name_scope(name, values=[logits, probs]) as scope:
            self._take_classes(logits, probs, scope)
            self._measure()
        super().__init__(tf.as_dtype(dtype), None, validate_args, allow_nan_stats, parameters, name=scope)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        shape = tf.concat([[count], tf.shape(self.logits)], 0)
        logits = self.logits if self.logits.shape.ndims == 2 else tf.reshape(self.logits, [-1, self.event_size])
        drawn = tf.transpose(tf.multinomial(logits, count, seed=seed))
        return tf.reshape(tf.one_hot(drawn, self.event_size, dtype=self.dtype), shape)

    def _log_prob(self, value: Tensor) -> Any:
        labels, logits, shape = self._rows(value)
        # the gradient of labels, too
        return tf.reshape(-tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits), shape)

    def _entropy(self) -> Any:
        return -tf.reduce_sum(tf.nn.log_softmax(self.logits) * self.probs, axis=-1)

    def _mode(self) -> Any:
        mode = tf.one_hot(tf.argmax(self.logits, axis=self._batch_rank), self.event_size, dtype=self.dtype)
        mode.set_shape(self.logits.shape)
        return mode

    def _covariance(self) -> Any:
        products = -tf.matmul(self.probs[..., None], self.probs[..., None, :])
        return tf.matrix_set_diag(products, self._variance())

    def _variance(self) -> Any:
        return self.probs * (1.0 - self.probs)


@RegisterKL(OneHotCategorical, OneHotCategorical)
def _divergence_of_one_hots(a: OneHotCategorical, b: OneHotCategorical, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_categorical_categorical", values=[a.logits, b.logits]):
        share = tf.nn.softmax(a.logits)
        return tf.reduce_sum(share * (tf.nn.log_softmax(a.logits) - tf.nn.log_softmax(b.logits)), axis=-1)


class ExpRelaxedOneHotCategorical(_Vectors):
    """Logarithms of relaxed one-hot vectors.  Raises ValueError for both logits and probabilities."""

    _density_axis = [-1]  # noqa: RUF012

    def __init__(
        self,
        temperature: Any,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ExpRelaxedOneHotCategorical",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("ExpRelaxedOneHotCategorical")
        with tf.name_scope(name, values=[logits, probs, temperature]) as scope:
            self._take_classes(logits, probs, scope)
            if dtype is None:
                dtype = self.logits.dtype
                temperature = tf.cast(temperature, dtype)
            self.temperature = tf.identity(temperature, name="temperature")
            self._temperature_matrix = tf.reshape(temperature, [-1, 1], name="temperature_2d")
            self._measure()
        super().__init__(tf.as_dtype(dtype), None, validate_args, allow_nan_stats, parameters, name=scope)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        shape = tf.concat([[count], tf.shape(self.logits)], 0)
        logits = tf.reshape(self.logits * tf.ones(shape, dtype=self.dtype), [-1, self.event_size])
        least = np.finfo(self.dtype.as_numpy_dtype).tiny
        drawn = tf.random_uniform(shape=tf.shape(logits), minval=least, maxval=1.0, dtype=self.dtype, seed=seed)
        gumbel = -tf.log(-tf.log(drawn))
        return tf.reshape(tf.nn.log_softmax(tf.div(gumbel + logits, self._temperature_matrix)), shape)

    def _log_prob(self, value: Tensor) -> Any:
        value, logits, shape = self._rows(value)
        classes = tf.cast(self.event_size, value.dtype)
        normalization = tf.lgamma(classes) + (classes - 1.0) * tf.log(self.temperature)
        density = tf.nn.log_softmax(logits - value * self._temperature_matrix)
        return tf.reshape(normalization + tf.reduce_sum(density, [-1], keepdims=False), shape)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Relaxed one-hot vectors: positive components of sum 1.  Raises ValueError for both logits and probabilities."""

    def __init__(
        self,
        temperature: Any,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RelaxedOneHotCategorical",
    ) -> None:
        logarithms = ExpRelaxedOneHotCategorical(temperature, logits, probs, dtype, validate_args, allow_nan_stats)
        super().__init__(logarithms, Exp(), name=name)


class RelaxedBernoulli(TransformedDistribution):
    """Relaxed binary values, between 0 and 1. Raises ValueError for both logits and probabilities."""

    def __init__(
        self,
        temperature: Any,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RelaxedBernoulli",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("RelaxedBernoulli")
        with tf.name_scope(name, values=[logits, probs, temperature]) as scope:
            self.temperature = tf.identity(temperature, name="temperature")
            self.logits, self.probs = logits_and_probs(logits, probs, "get_logits_and_probs")
            loc, scale = self.logits / self.temperature, 1.0 / self.temperature
            logistic = Logistic(loc, scale, validate_args, allow_nan_stats, name=scope + "/Logistic")
            super().__init__(logistic, Sigmoid(), validate_args=validate_args, name=scope)
        self._take_parameters(parameters)
