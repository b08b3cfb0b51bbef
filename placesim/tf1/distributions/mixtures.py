"""Mixtures of distributions, and batches of distributions as one distribution of larger events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.distributions.discrete import Categorical
from placesim.tf1.distributions.distribution import Distribution, refuse_checks
from placesim.tf1.distributions.divergences import RegisterKL, kl_divergence
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.random.seeds import salted_seed
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape


class Mixture(Distribution):
    """Mixtures of `components`, each drawn with its probability in the distribution `cat`."""

    _is_reparameterized = False

    def __init__(
        self,
        cat: Any,
        components: Sequence[Any],
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        use_static_graph: bool = False,
        name: str = "Mixture",
    ) -> None:
        """Raise TypeError and ValueError for distributions that do not fit together."""
        parameters = dict(locals())
        if not isinstance(cat, Categorical):
            raise TypeError(f"cat must be a Categorical distribution, but saw: {cat}")
        if not components:
            raise ValueError("components must be a non-empty list or tuple")
        if validate_args:
            raise refuse_checks("Mixture")
        if use_static_graph:
            raise not_there("contrib.distributions.Mixture with use_static_graph", "without it, it is")
        dtype = components[0].dtype
        if any(component.dtype != dtype for component in components):
            found = [(component.name, component.dtype) for component in components]
            raise TypeError(f"All components must have the same dtype, but saw dtypes: {found}")
        self._event_shape: TensorShape = components[0].event_shape
        self._batch_shape: TensorShape = cat.batch_shape
        for component in components:
            self._event_shape = self._event_shape.merge_with(component.event_shape)
            self._batch_shape = self._batch_shape.merge_with(component.batch_shape)
        with tf.name_scope(name, values=[cat.logits]) as scope:
            count = tf.get_static_value(cat.event_size)
            if count is None:
                raise ValueError(
                    "Could not infer number of classes from cat and unable to compare this value to the number of components "
                    "passed in."
                )
            if count != len(components):
                raise ValueError(f"cat.num_classes != len(components): {count} vs. {len(components)}")
            tf.size(cat.batch_shape_tensor())
        self.cat, self.components, self.num_components = cat, list(components), int(count)
        super().__init__(dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    batch_shape: TensorShape = read_only("_batch_shape")
    event_shape: TensorShape = read_only("_event_shape")

    def _batch_shape_tensor(self) -> Any:
        return self.cat.batch_shape_tensor()

    def _event_shape_tensor(self) -> Any:
        return self.components[0].event_shape_tensor()

    def _shares(self, softmax: Any) -> list[Any]:
        """The probabilities of the components, or their logarithms."""
        found: list[Any] = tf.unstack(softmax(self.cat.logits), num=self.num_components, axis=-1)
        return found

    def _of_event(self, share: Any) -> Any:
        """A share with added axes for the axes of the event."""
        for _ in range(self.event_shape.ndims or 0):
            share = tf.expand_dims(share, -1)
        return share

    def _mean(self) -> Any:
        means = [component.mean() for component in self.components]
        shares = [self._of_event(share) for share in self._shares(tf.nn.softmax)]
        return tf.add_n([share * mean for share, mean in zip(shares, means, strict=True)])

    def _log_prob(self, value: Tensor) -> Any:
        return self._mixed("log_prob", value)

    def _log_cdf(self, value: Tensor) -> Any:
        return self._mixed("log_cdf", value)

    def _mixed(self, method: str, value: Tensor) -> Any:
        value = tf.convert_to_tensor(value, name="x")
        found = [getattr(component, method)(value) for component in self.components]
        shares = self._shares(tf.nn.log_softmax)
        return tf.reduce_logsumexp(tf.stack([share + one for share, one in zip(shares, found, strict=True)], axis=0), [0])

    def _sample_n(self, count: TensorLike, seed: int | None) -> Any:
        number = tf.convert_to_tensor(count, name="n")
        known = tf.get_static_value(number)
        samples = number if known is None else int(known)
        classes = self.cat.sample(samples, seed=seed)
        is_known = classes.shape.is_fully_defined()
        shape: Any = classes.shape.as_list() if is_known else tf.shape(classes)
        size = classes.shape.num_elements() if is_known else tf.size(classes)
        if self.batch_shape.is_fully_defined():
            batch_size = self.batch_shape.num_elements()
        else:
            batch_size = tf.reduce_prod(self.batch_shape_tensor())
        known_event = self.event_shape.is_fully_defined()
        event = np.array(self.event_shape.as_list(), dtype=np.int32) if known_event else self.event_shape_tensor()
        places = self._parts(tf.reshape(tf.range(0, size), shape), classes)
        batches = self._parts(tf.reshape(tf.tile(tf.range(0, batch_size), [samples]), shape), classes)
        drawn = []
        for component, own_places, own_batches in zip(self.components, places, batches, strict=True):
            own_count = tf.size(own_places)
            seed = salted_seed(seed, "mixture")
            values = component.sample(own_count, seed=seed)
            rows = batch_size * tf.range(own_count) + own_batches
            values = tf.reshape(values, tf.concat([[own_count * batch_size], event], 0))
            drawn.append(tf.gather(values, rows, name="samples_class_c_gather"))
        found = tf.dynamic_stitch(indices=places, data=drawn)
        found = tf.reshape(found, tf.concat([shape, self.event_shape_tensor()], 0))
        found.set_shape(classes.shape.concatenate(self.event_shape))
        return found

    def _parts(self, values: Any, classes: Any) -> Any:
        return tf.dynamic_partition(data=values, partitions=classes, num_partitions=self.num_components)

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Any:
        """The mean of the components' entropies, a lower bound of the mixture's entropy."""
        with self._scope(name):
            entropies = [component.entropy() for component in self.components]
            return tf.add_n([share * one for share, one in zip(self._shares(tf.nn.softmax), entropies, strict=True)])


class MixtureSameFamily(Distribution):
    """Mixtures of the distributions along the last axis of the batch of `components_distribution`."""

    _is_reparameterized = False

    def __init__(
        self,
        mixture_distribution: Any,
        components_distribution: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MixtureSameFamily",
    ) -> None:
        """Raise ValueError for distributions that do not fit together."""
        parameters = dict(locals())
        if validate_args:
            raise refuse_checks("MixtureSameFamily")
        self.mixture_distribution, self.components_distribution = mixture_distribution, components_distribution
        with tf.name_scope(name) as scope:
            self._event_ndims = components_distribution.event_shape_tensor().shape.as_list()[0]
            if self._event_ndims is None:
                raise not_there("contrib.distributions.MixtureSameFamily of events of unknown rank", "set the shapes")
            if not mixture_distribution.dtype.is_integer:
                found = mixture_distribution.dtype.name
                raise ValueError(f"`mixture_distribution.dtype` ({found}) is not over integers")
            own, outer = mixture_distribution.batch_shape, components_distribution.batch_shape.with_rank_at_least(1)[:-1]
            if own.is_fully_defined() and outer.is_fully_defined() and own.ndims != 0 and own != outer:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` (`{own.as_list()}`) is not compatible with "
                    f"`components_distribution.batch_shape` (`{outer.as_list()}`)"
                )
            count = mixture_distribution.logits.shape.with_rank_at_least(1).as_list()[-1]
            other = components_distribution.batch_shape.with_rank_at_least(1).as_list()[-1]
            if None not in (count, other) and count != other:
                raise ValueError(
                    f"`mixture_distribution components` ({count}) does not equal "
                    f"`components_distribution.batch_shape[-1]` ({other})"
                )
            self._count = tf.shape(mixture_distribution.logits)[-1] if count is None else count
            super().__init__(components_distribution.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = self.components_distribution.batch_shape.with_rank_at_least(1)[:-1]
        return found

    @property
    def event_shape(self) -> TensorShape:
        found: TensorShape = self.components_distribution.event_shape
        return found

    def _batch_shape_tensor(self) -> Any:
        return self.components_distribution.batch_shape_tensor()[:-1]

    def _event_shape_tensor(self) -> Any:
        return self.components_distribution.event_shape_tensor()

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        # TensorFlow does not pass the seed on
        drawn = self.components_distribution.sample(count)
        kind = drawn.dtype.as_numpy_dtype
        chosen = self.mixture_distribution.sample(count)
        mask = tf.one_hot(indices=chosen, depth=self._count, on_value=np.ones([], kind), off_value=np.zeros([], kind))
        return self._sum(drawn * self._with_axes(mask))

    def _log_prob(self, value: Tensor) -> Any:
        return self._mixed("log_prob", value)

    def _log_cdf(self, value: Tensor) -> Any:
        return self._mixed("log_cdf", value)

    def _mixed(self, method: str, value: Tensor) -> Any:
        found = getattr(self.components_distribution, method)(self._with_components(value))
        share = tf.nn.log_softmax(self.mixture_distribution.logits, axis=-1)
        return tf.reduce_logsumexp(found + share, axis=-1)

    def _mean(self) -> Any:
        shares = self._with_axes(self.mixture_distribution.probs)
        return self._sum(shares * self.components_distribution.mean())

    def _variance(self) -> Any:
        shares = self._with_axes(self.mixture_distribution.probs)
        inside = self._sum(shares * self.components_distribution.variance())
        means = self.components_distribution.mean()
        between = tf.squared_difference(means, self._with_components(self._mean()))
        return inside + self._sum(shares * between)

    def _sum(self, values: Any) -> Any:
        """The sum over the components."""
        return tf.reduce_sum(values, axis=-1 - self._event_ndims)

    def _with_axes(self, shares: Any) -> Any:
        """Shares `[..., components]` with axes of the batch and of the event."""
        with tf.name_scope("pad_mix_dims", values=[shares]):
            own, outer = self.mixture_distribution.batch_shape.ndims, self.batch_shape.ndims
            missing = tf.where_v2(self.mixture_distribution.is_scalar_batch(), outer, outer - own)
            sizes = tf.shape(shares)
            front = [sizes[:-1], tf.ones([missing], dtype=tf.int32)]
            shape = tf.concat([*front, sizes[-1:], tf.ones([self._event_ndims], dtype=tf.int32)], axis=0)
            return tf.reshape(shares, shape=shape)

    def _with_components(self, value: Tensor) -> Any:
        """Values with an axis of components before those of the event."""
        with tf.name_scope("pad_sample_dims", values=[value]):
            rank = tf.rank(value) if value.shape.ndims is None else value.shape.ndims
            sizes = tf.shape(value)
            place = rank - self._event_ndims
            return tf.reshape(value, shape=tf.concat([sizes[:place], [1], sizes[place:]], axis=0))


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` axes of the batch belong to the event."""

    def __init__(
        self,
        distribution: Any,
        reinterpreted_batch_ndims: int | None = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        """Raise ValueError for more axes than the batch has."""
        parameters = dict(locals())
        rank = distribution.batch_shape.ndims
        if rank is None:
            raise not_there("contrib.distributions.Independent of batches of unknown rank", "set the shape of the parameters")
        self.distribution = distribution
        with tf.name_scope(name or f"Independent{distribution.name}") as scope:
            count = max(0, rank - 1) if reinterpreted_batch_ndims is None else reinterpreted_batch_ndims
            made = tf.convert_to_tensor(count, dtype=tf.int32, name="reinterpreted_batch_ndims")
            self.reinterpreted_batch_ndims = tf.get_static_value(made)
            if self.reinterpreted_batch_ndims > rank:
                given = f"reinterpreted_batch_ndims({self.reinterpreted_batch_ndims})"
                raise ValueError(f"{given} cannot exceed distribution.batch_ndims({rank})")
            super().__init__(
                distribution.dtype,
                distribution.reparameterization_type,
                validate_args,
                distribution.allow_nan_stats,
                parameters,
                name=scope,
            )

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = self._split(self.distribution.batch_shape)[0]
        return found

    @property
    def event_shape(self) -> TensorShape:
        found: TensorShape = self._split(self.distribution.batch_shape)[1].concatenate(self.distribution.event_shape)
        return found

    def _split(self, batch: Any) -> tuple[Any, Any]:
        place = self.distribution.batch_shape.ndims - int(self.reinterpreted_batch_ndims)
        return batch[:place], batch[place:]

    def _batch_shape_tensor(self) -> Any:
        batch = self.distribution.batch_shape_tensor()
        return batch[: self.distribution.batch_shape.ndims - self.reinterpreted_batch_ndims]

    def _event_shape_tensor(self) -> Any:
        batch = self.distribution.batch_shape_tensor()
        own = batch[self.distribution.batch_shape.ndims - self.reinterpreted_batch_ndims :]
        return tf.concat([own, self.distribution.event_shape_tensor()], axis=0)

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        return self.distribution.sample(sample_shape=count, seed=seed)

    def _log_prob(self, value: Tensor) -> Any:
        return self._total(self.distribution.log_prob(value))

    def _entropy(self) -> Any:
        return self._total(self.distribution.entropy())

    def _mean(self) -> Any:
        return self.distribution.mean()

    def _variance(self) -> Any:
        return self.distribution.variance()

    def _stddev(self) -> Any:
        return self.distribution.stddev()

    def _mode(self) -> Any:
        return self.distribution.mode()

    def _total(self, values: Any) -> Any:
        return tf.reduce_sum(values, axis=-1 - np.arange(self.reinterpreted_batch_ndims))


@RegisterKL(Independent, Independent)
def _divergence_of_batches(a: Independent, b: Independent, name: str = "kl_independent") -> Any:
    p, q = a.distribution, b.distribution
    if not (a.event_shape.is_fully_defined() and b.event_shape.is_fully_defined()):
        raise not_there("contrib.distributions.kl_divergence of events of unknown shape", "set the shape of the parameters")
    if a.event_shape != b.event_shape:
        raise ValueError("Event shapes do not match.")
    if p.event_shape != q.event_shape:
        raise NotImplementedError("KL between Independents with different event shapes not supported.")
    axes = [-axis - 1 for axis in range(a.event_shape.ndims - p.event_shape.ndims)]
    return tf.reduce_sum(kl_divergence(p, q, name=name), axis=axes)
