"""`tf.contrib.distributions.TransformedDistribution`: invertible functions of random variables."""

from __future__ import annotations

from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.array.shaping import broadcast_static_shape
from placesim.tf1.distributions import bijectors
from placesim.tf1.distributions.distribution import Distribution
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.ops.constant_values import constant_value_as_shape
from placesim.tf1.types.shapes import TensorShape


class TransformedDistribution(Distribution):
    """Distributions of `bijector.forward(x)` for random variables `x` of another distribution.

    `batch_shape` and `event_shape` replace those of a distribution of scalars: samples become a batch or an event.
    """

    def __init__(
        self,
        distribution: Any,
        bijector: Any = None,
        batch_shape: Any = None,
        event_shape: Any = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        """Raise ValueError for a shape that the distribution has already."""
        parameters = dict(locals())
        name = name or ("" if bijector is None else bijector.name) + distribution.name
        with tf.name_scope(name, values=[event_shape, batch_shape]) as scope:
            self._zero = tf.constant(0, dtype=tf.int32, name="zero")
            self._empty = tf.constant([], dtype=tf.int32, name="empty")
            bijector = bijectors.Identity(validate_args=validate_args) if bijector is None else bijector
            self._own_batch = self._own_shape(batch_shape, distribution.is_scalar_batch(), validate_args, "batch_shape")
            has_batch = _negation(_are_equal(_rank_of_shape(self._own_batch), self._zero))
            self._own_event = self._own_shape(event_shape, distribution.is_scalar_event(), validate_args, "event_shape")
            has_event = _negation(_are_equal(_rank_of_shape(self._own_event), self._zero))
            self._has_own_batch, self._has_own_event = map(_has_sizes, (self._own_batch, self._own_event))
            rotates = _conjunction(has_event, _negation(has_batch), _negation(distribution.is_scalar_batch()))
            self._rotates = bool(tf.get_static_value(rotates))
            event_rank = _rank_of_shape(self._own_event)
            self._rotated = event_rank if self._rotates else 0
            self._event_axes = tf.range(self._rotated - event_rank, self._rotated)
        self.distribution, self.bijector = distribution, bijector
        super().__init__(
            distribution.dtype,
            distribution.reparameterization_type,
            validate_args,
            distribution.allow_nan_stats,
            parameters,
            name=scope,
        )

    def _own_shape(self, shape: Any, is_scalar: Any, validate_args: bool, name: str) -> Any:
        """The shape that replaces the distribution's, empty for None."""
        found = tf.convert_to_tensor([] if shape is None else shape, dtype=tf.int32, name=name)
        has_none = _are_equal(_rank_of_shape(found), 0)
        if tf.get_static_value(has_none):
            return self._empty
        if found.shape.ndims != 1:
            raise ValueError("shape override must be a vector")
        sizes, message, checks = tf.get_static_value(found), "shape override must have positive elements", []
        if sizes is not None and (sizes <= 0).any():
            raise ValueError(message)
        if sizes is None and validate_args:
            checks.append(tf.assert_positive(found, message=message))
        is_wrong = tf.get_static_value(_conjunction(_negation(is_scalar), _negation(has_none)))
        if is_wrong:
            raise ValueError("base distribution not scalar")
        return with_dependencies(checks, found) if checks else found

    # --- shapes ---

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = constant_value_as_shape(self._own_batch) if self._has_own_batch else self.distribution.batch_shape
        return found

    @property
    def event_shape(self) -> TensorShape:
        own = constant_value_as_shape(self._own_event) if self._has_own_event else self.distribution.event_shape
        found: TensorShape = self.bijector.forward_event_shape(own)
        return found

    def _batch_shape_tensor(self) -> Any:
        inner = self.distribution.batch_shape_tensor()
        return self._own_batch if self._has_own_batch else inner

    def _event_shape_tensor(self) -> Any:
        inner = self.distribution.event_shape_tensor()
        return self.bijector.forward_event_shape_tensor(self._own_event if self._has_own_event else inner)

    # --- methods ---

    def _sample_n(self, count: Tensor, seed: int | None) -> Any:
        first, last = (self._empty, [count]) if self._rotates else ([count], self._empty)
        shape = _joined(first, self._own_batch, self._own_event, last)
        return self._rotate(self.distribution.sample(sample_shape=shape, seed=seed))

    def _finish_sample(self, drawn: Any) -> Any:
        return self.bijector.forward(drawn)

    def _rotate(self, x: Any, to_right: bool = False) -> Any:
        if not self._rotates:
            return x
        rank = tf.rank(x)
        start = rank - self._rotated if to_right else self._rotated
        return tf.transpose(x, _joined(tf.range(start, rank), tf.range(0, start)))

    def _log_prob(self, value: Tensor) -> Any:
        return self._density(value, "log_prob", tf.reduce_sum, lambda found, change: found + change)

    def _prob(self, value: Tensor) -> Any:
        return self._density(value, "prob", tf.reduce_prod, lambda found, change: found * tf.exp(change))

    def _density(self, value: Tensor, method: str, reduce: Any, change: Any) -> Any:
        x = self.bijector.inverse(value)
        rank = self._event_rank()
        determinant = self.bijector.inverse_log_det_jacobian(value, event_ndims=rank)
        found = getattr(self.distribution, method)(self._rotate(x, to_right=True))
        if self._has_own_event:
            found = reduce(found, self._event_axes)
        found = change(found, tf.cast(determinant, found.dtype))
        if self._has_own_event:
            outer = value.shape.with_rank_at_least(1)[:-rank]
            found.set_shape(broadcast_static_shape(outer, self.batch_shape))
        return found

    def _event_rank(self) -> int:
        rank = self.event_shape.ndims
        if rank is None:
            raise not_there("contrib.distributions of events of unknown rank", "set the shape of the parameters")
        return int(rank)

    def _scalar(self, value: Tensor, method: str) -> Any:
        """The distribution's method applied to the inverse of a value.

        Raises NotImplementedError for events with a replaced shape.
        """
        if self._has_own_event:
            raise NotImplementedError(f"{method} is not implemented when overriding event_shape")
        return getattr(self.distribution, method)(self.bijector.inverse(value))

    def _cdf(self, value: Tensor) -> Any:
        return self._scalar(value, "cdf")

    def _log_cdf(self, value: Tensor) -> Any:
        return self._scalar(value, "log_cdf")

    def _survival_function(self, value: Tensor) -> Any:
        return self._scalar(value, "survival_function")

    def _log_survival_function(self, value: Tensor) -> Any:
        return self._scalar(value, "log_survival_function")

    def _quantile(self, value: Tensor) -> Any:
        if self._has_own_event:
            raise NotImplementedError("quantile is not implemented when overriding event_shape")
        return self.bijector.forward(self.distribution.quantile(value))

    def _entropy(self) -> Any:
        if not self.bijector.is_constant_jacobian:
            raise NotImplementedError("entropy is not implemented")
        entropy = self.distribution.entropy()
        if self._has_own_event:
            entropy *= tf.cast(tf.reduce_prod(self._own_event), dtype=entropy.dtype.base_dtype)
        if self._has_own_batch:
            inner = self.distribution.batch_shape_tensor
            entropy = tf.reshape(entropy, tf.concat([_ones_of(self._own_batch), inner()], 0))
            entropy = tf.tile(entropy, tf.concat([self._own_batch, _ones_of(inner())], 0))
        shape = tf.concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0)
        change = self.bijector.inverse_log_det_jacobian(tf.zeros(shape=shape, dtype=self.dtype), event_ndims=self._event_rank())
        entropy -= tf.cast(change, entropy.dtype)
        entropy.set_shape(self.batch_shape)
        return entropy


# --- TensorFlow makes constants of values that it knows ---


def _known(value: Any) -> Any:
    return tf.get_static_value(tf.convert_to_tensor(value))


def _negation(value: Any) -> Any:
    known = _known(value)
    return tf.logical_not(value) if known is None else tf.constant(np.logical_not(known))


def _are_equal(x: Any, y: Any) -> Any:
    known = _known(x), _known(y)
    return tf.equal(x, y) if any(one is None for one in known) else tf.constant(np.array_equal(*known))


def _conjunction(*values: Any) -> Any:
    known = [_known(value) for value in values]
    if any(one is not None and not one for one in known):
        return tf.constant(False)
    return tf.reduce_all(values) if any(one is None for one in known) else tf.constant(True)


def _joined(*vectors: Any) -> Any:
    known = [_known(vector) for vector in vectors]
    return tf.concat(vectors, 0) if any(one is None for one in known) else tf.constant(np.concatenate(known).tolist())


def _rank_of_shape(shape: Any) -> Any:
    return tf.constant(shape.shape.as_list()[0]) if shape.shape.is_fully_defined() else tf.shape(shape)[0]


def _has_sizes(shape: Any) -> bool:
    known = tf.get_static_value(shape)
    return known is None or known.size != 0


def _ones_of(shape: Any) -> Any:
    return tf.ones(shape.shape.as_list(), dtype=shape.dtype) if shape.shape.is_fully_defined() else tf.ones_like(shape)
