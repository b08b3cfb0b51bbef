"""Distributions of classes and counts."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distributions.distribution import Distribution, logits_and_probs, refuse_checks
from placesim.tf1.distributions.divergences import RegisterKL
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.random.seeds import salted_seed
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


class Bernoulli(Distribution):
    """Distributions of 0 and 1; `probs`, or `sigmoid(logits)`, is the probability of 1.  Raises ValueError for both."""

    _shaping = ("logits",)
    _is_reparameterized = False

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("Bernoulli")
        with tf.name_scope(name) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, scope)
        super().__init__(tf.as_dtype(dtype), None, validate_args, allow_nan_stats, parameters, name=scope)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        drawn = tf.random_uniform(self._drawn_shape(count), seed=seed, dtype=self.probs.dtype)
        return tf.cast(tf.less(drawn, self.probs), self.dtype)

    def _log_prob(self, value: Any) -> Any:
        logits, value = self.logits, tf.cast(value, self.logits.dtype)
        if not (value.shape.is_fully_defined() and value.shape == logits.shape):
            logits, value = tf.ones_like(value) * logits, tf.ones_like(logits) * value
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels=value, logits=logits)

    def _entropy(self) -> Any:
        return -self.logits * (tf.sigmoid(self.logits) - 1) + tf.nn.softplus(-self.logits)

    def _mean(self) -> Any:
        return tf.identity(self.probs)

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Any:
        return tf.cast(self.probs > 0.5, self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _divergence_of_bernoullis(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_bernoulli_bernoulli"):
        zeros = tf.nn.softplus(-b.logits) - tf.nn.softplus(-a.logits)
        ones = tf.nn.softplus(b.logits) - tf.nn.softplus(a.logits)
        return tf.sigmoid(a.logits) * zeros + tf.sigmoid(-a.logits) * ones


class Categorical(Distribution):
    """Distributions of classes; the last axis of `logits` or `probs` has the classes. Raises ValueError for both."""

    _is_reparameterized = False

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("Categorical")
        with tf.name_scope(name, values=[logits, probs]) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, scope, has_classes=True)
            self._measure()
        super().__init__(tf.as_dtype(dtype), None, validate_args, allow_nan_stats, parameters, name=scope)

    def _measure(self) -> None:
        """Make the tensors of the batch's rank and shape and of the number of classes."""
        static = self.logits.shape.with_rank_at_least(1)
        if static.ndims is not None:
            self._batch_rank = tf.convert_to_tensor(static.ndims - 1, dtype=tf.int32, name="batch_rank")
        else:
            with tf.name_scope("batch_rank"):
                self._batch_rank = tf.rank(self.logits) - 1
        shape = tf.shape(self.logits, name="logits_shape")
        classes = None if static.ndims is None else static.as_list()[-1]
        if classes is not None:
            self.event_size = tf.convert_to_tensor(classes, dtype=tf.int32, name="event_size")
        else:
            with tf.name_scope("event_size"):
                self.event_size = shape[self._batch_rank]
        if static[:-1].is_fully_defined():
            self._batch_shape_value = tf.constant(static[:-1].as_list(), dtype=tf.int32, name="batch_shape")
        else:
            with tf.name_scope("batch_shape"):
                self._batch_shape_value = shape[:-1]

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = self.logits.shape[:-1]
        return found

    def _batch_shape_tensor(self) -> Any:
        return tf.identity(self._batch_shape_value)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        is_matrix = self.logits.shape.ndims == 2
        logits = self.logits if is_matrix else tf.reshape(self.logits, [-1, self.event_size])
        integer = tf.int64 if self.dtype.size > 4 else tf.int32
        drawn = tf.multinomial(logits, count, seed=seed, output_dtype=integer)
        drawn = tf.transpose(drawn)
        return tf.cast(tf.reshape(drawn, self._drawn_shape(count)), self.dtype)

    def _log_prob(self, value: TensorLike) -> Any:
        value, logits = self._broadcast(tf.convert_to_tensor(value, name="k"), self.logits)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=value, logits=logits)

    def _cdf(self, value: TensorLike) -> Any:
        value, probs = self._broadcast(tf.convert_to_tensor(value, name="k"), self.probs)
        flat = tf.reshape(probs, (-1, self.event_size))
        is_below = tf.sequence_mask(tf.reshape(value, [-1]), self.event_size)
        total = tf.reduce_sum(tf.where(is_below, flat, tf.zeros_like(flat)), axis=-1)
        return tf.reshape(total, tf.shape(value))

    def _broadcast(self, value: Any, parameters: Any) -> tuple[Any, Any]:
        """Classes, and the parameters of the distribution of each of them.  Raises TypeError for values of other types."""
        if value.dtype.is_floating:
            value = tf.cast(value, tf.int32)
        elif not value.dtype.is_integer:
            raise TypeError(f"`value` should have integer `dtype` or `self.dtype` ({self.dtype.base_dtype})")
        batch = parameters.shape[:-1]
        if batch.is_fully_defined() and value.shape.is_fully_defined() and batch == value.shape:
            return value, parameters
        parameters = parameters * tf.ones_like(value[..., tf.newaxis], dtype=parameters.dtype)
        value = value * tf.ones(tf.shape(parameters)[:-1], dtype=value.dtype)
        if parameters.shape.ndims is not None:
            value.set_shape(parameters.shape[:-1])
        return value, parameters

    def _entropy(self) -> Any:
        return -tf.reduce_sum(tf.nn.log_softmax(self.logits) * self.probs, axis=-1)

    def _mode(self) -> Any:
        mode = tf.cast(tf.argmax(self.logits, axis=self._batch_rank), self.dtype)
        mode.set_shape(self.batch_shape)
        return mode


@RegisterKL(Categorical, Categorical)
def _divergence_of_categoricals(a: Categorical, b: Categorical, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_categorical_categorical", values=[a.logits, b.logits]):
        difference = tf.nn.log_softmax(a.logits) - tf.nn.log_softmax(b.logits)
        return tf.reduce_sum(tf.nn.softmax(a.logits) * difference, axis=-1)


class Multinomial(Distribution):
    """Distributions of the counts of classes in `total_count` draws."""

    _missing = ("covariance",)
    _is_reparameterized = False

    def __init__(
        self,
        total_count: Any,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("Multinomial")
        with tf.name_scope(name, values=[total_count, logits, probs]) as scope:
            self.total_count = tf.convert_to_tensor(total_count, name="total_count")
            self.logits, self.probs = logits_and_probs(logits, probs, scope, has_classes=True)
            self._mean_value = self.total_count[..., tf.newaxis] * self.probs
        super().__init__(self.probs.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = self._mean_value.shape.with_rank_at_least(1)[:-1]
        return found

    @property
    def event_shape(self) -> TensorShape:
        found: TensorShape = self._mean_value.shape.with_rank_at_least(1)[-1:]
        return found

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._mean_value)[:-1]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._mean_value)[-1:]

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        draws = tf.cast(self.total_count, dtype=tf.int32)
        classes = self.event_shape_tensor()[0]
        draws = tf.ones_like(self.logits[..., 0], dtype=draws.dtype) * draws
        logits = tf.ones_like(draws[..., tf.newaxis], dtype=self.logits.dtype) * self.logits
        flat = tf.reshape(logits, [-1, classes])
        flat_draws = count * tf.reshape(draws, [-1])

        def draw(args: Any) -> Any:
            drawn = tf.reshape(tf.multinomial(args[0][tf.newaxis, ...], args[1], seed), shape=[count, -1])
            return tf.reduce_sum(tf.one_hot(drawn, depth=classes), axis=-2)

        counts = tf.transpose(tf.map_fn(draw, [flat, flat_draws], dtype=self.dtype), perm=[1, 0, 2])
        return tf.reshape(counts, tf.concat([[count], self.batch_shape_tensor(), [classes]], 0))

    def _log_prob(self, value: Any) -> Any:
        unnormalized = tf.reduce_sum(value * tf.nn.log_softmax(self.logits), -1)
        with tf.name_scope("log_combinations"):
            permutations = tf.lgamma(self.total_count + 1)
            combinations = permutations - tf.reduce_sum(tf.lgamma(value + 1), axis=[-1])
        return unnormalized - -combinations

    def _mean(self) -> Any:
        return tf.identity(self._mean_value)

    def _variance(self) -> Any:
        probs = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        return self._mean_value - self._mean_value * probs


class Poisson(Distribution):
    """Poisson distributions of counts; `rate`, or `exp(log_rate)`, is the mean.  Raises ValueError for both."""

    _shaping = ("rate",)
    _is_reparameterized = False

    def __init__(
        self,
        rate: TensorLike | None = None,
        log_rate: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Poisson",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("Poisson")
        if (rate is None) == (log_rate is None):
            raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
        with tf.name_scope(name, values=[rate]) as scope:
            known = "rate" if log_rate is None else "log_rate"
            given = tf.convert_to_tensor(parameters[known], name=known)
            if not given.dtype.is_floating:
                raise TypeError(f"{known}.dtype ({given.dtype.name}) is a not a float-type.")
            self.rate = tf.identity(given, name="rate") if log_rate is None else tf.exp(given, name="rate")
            self.log_rate = tf.log(given, name="log_rate") if log_rate is None else given
        super().__init__(self.rate.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        return tf.random_poisson(self.rate, [count], dtype=self.dtype, seed=seed)

    def _log_prob(self, value: Any) -> Any:
        return value * self.log_rate - tf.lgamma(1.0 + value) - self.rate

    def _log_cdf(self, value: Any) -> Any:
        return tf.log(self.cdf(value))

    def _cdf(self, value: Any) -> Any:
        return tf.igammac(1.0 + value, self.rate)

    def _mean(self) -> Any:
        return tf.identity(self.rate)

    _variance = _mean

    def _mode(self) -> Any:
        return tf.floor(self.rate)


class _OfTotalCount(Distribution):
    """Base class of distributions of counts, of `total_count` and `logits` or `probs`."""

    _shaping = ("total_count", "probs")
    _is_reparameterized = False

    def _take_total_count(self, parameters: dict[str, Any], is_count_first: bool) -> None:
        """Make the tensors of the arguments of `__init__`.  Raises NotImplementedError for `validate_args`."""
        count, logits, probs, name = (parameters[key] for key in ("total_count", "logits", "probs", "name"))
        if parameters["validate_args"]:
            raise refuse_checks(type(self).__name__)
        with tf.name_scope(name, values=[count, logits, probs]) as scope:
            if is_count_first:
                self.total_count = tf.convert_to_tensor(count, name="total_count")
            self.logits, self.probs = logits_and_probs(logits, probs, scope)
            if not is_count_first:
                self.total_count = tf.identity(count)
        super().__init__(self.probs.dtype, None, False, parameters["allow_nan_stats"], parameters, name=scope)


class Binomial(_OfTotalCount):
    """Distributions of the number of successes in `total_count` trials; TensorFlow draws no samples of them."""

    def __init__(
        self,
        total_count: Any,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Binomial",
    ) -> None:
        self._take_total_count(dict(locals()), is_count_first=True)

    def _log_prob(self, value: Any) -> Any:
        unnormalized = value * tf.log(self.probs) + (self.total_count - value) * tf.log1p(-self.probs)
        normalization = tf.lgamma(1.0 + self.total_count - value) + tf.lgamma(1.0 + value)
        return unnormalized - (normalization - tf.lgamma(1.0 + self.total_count))

    def _prob(self, value: Any) -> Any:
        return tf.exp(self._log_prob(value))

    def _cdf(self, value: Any) -> Any:
        probs = self.probs
        are_known = value.shape.is_fully_defined() and probs.shape.is_fully_defined()
        if not (are_known and value.shape.is_compatible_with(probs.shape)):
            probs += tf.zeros_like(value)
            value += tf.zeros_like(self.probs)
        ones = tf.ones_like(self.total_count - value)
        is_most = tf.equal(value, self.total_count)
        failures = tf.where_v2(is_most, ones, self.total_count - value)
        return tf.where_v2(is_most, ones, tf.betainc(failures, value + 1, 1 - probs))

    def _mean(self) -> Any:
        return self.total_count * self.probs

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Any:
        return tf.floor((1.0 + self.total_count) * self.probs)


class NegativeBinomial(_OfTotalCount):
    """Distributions of the number of successes before `total_count` failures."""

    def __init__(
        self,
        total_count: Any,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "NegativeBinomial",
    ) -> None:
        self._take_total_count(dict(locals()), is_count_first=False)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        rate = tf.random_gamma([count], alpha=self.total_count, beta=tf.exp(-self.logits), dtype=self.dtype, seed=seed)
        return tf.random_poisson(rate, [], dtype=self.dtype, seed=salted_seed(seed, "negative_binom"))

    def _cdf(self, value: Any) -> Any:
        return tf.betainc(self.total_count, 1.0 + value, tf.sigmoid(-self.logits))

    def _log_prob(self, value: Any) -> Any:
        unnormalized = self.total_count * tf.log_sigmoid(-self.logits) + value * tf.log_sigmoid(self.logits)
        normalization = -tf.lgamma(self.total_count + value) + tf.lgamma(1.0 + value) + tf.lgamma(self.total_count)
        return unnormalized - normalization

    def _mean(self) -> Any:
        return self.total_count * tf.exp(self.logits)

    def _variance(self) -> Any:
        return self._mean() / tf.sigmoid(-self.logits)

    def _mode(self) -> Any:
        count = tf.where_v2(self.total_count > 1.0, self.total_count - 1.0, tf.zeros_like(self.total_count))
        return tf.floor(count * tf.exp(self.logits))


class Deterministic(Distribution):
    """Random variables with the only value `loc`. Other values within `atol + rtol * abs(loc)` count as equal."""

    _shaping = ("loc",)
    _is_reparameterized = False

    def __init__(
        self,
        loc: TensorLike,
        atol: TensorLike | None = None,
        rtol: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Deterministic",
    ) -> None:
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("Deterministic")
        with tf.name_scope(name, values=[loc, atol, rtol]) as scope:
            self.loc = tf.convert_to_tensor(loc, name="loc")
            super().__init__(self.loc.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)
            self.atol = tf.convert_to_tensor(0 if atol is None else atol, dtype=self.dtype)
            self.rtol = tf.convert_to_tensor(0 if rtol is None else rtol, dtype=self.dtype)
            self._slack = self.atol if rtol is None else self.atol + self.rtol * tf.abs(self.loc)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        known = tf.get_static_value(tf.convert_to_tensor(count))
        rank = self.loc.shape.ndims
        if known is not None and rank is not None:
            multiples: Any = [known] + [1] * rank
        else:
            multiples = tf.concat(([count], tf.ones_like(tf.shape(self.loc))), axis=0)
        return tf.tile(self.loc[tf.newaxis, ...], multiples=multiples)

    def _prob(self, value: Any) -> Any:
        return tf.cast(tf.abs(value - self.loc) <= self._slack, dtype=self.dtype)

    def _cdf(self, value: Any) -> Any:
        return tf.cast(value >= self.loc - self._slack, dtype=self.dtype)

    def _entropy(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), dtype=self.dtype)

    def _mean(self) -> Any:
        return tf.identity(self.loc)

    def _variance(self) -> Any:
        return tf.zeros_like(self.loc)

    def _mode(self) -> Any:
        return self.mean()
