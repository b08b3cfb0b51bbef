"""`tf.distributions`: the normal distribution.

Its density is `exp(-((x - loc) / scale)² / 2) / (scale sqrt(2π))` and its entropy `log(scale) + (1 + log 2π) / 2`.  The ops
and their order are TensorFlow's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.array.shaping import broadcast_static_shape
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types.shapes import TensorShape

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Normal:
    """Normal distributions of mean `loc` and standard deviation `scale`, tensors that broadcast to the batch's shape."""

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        """Raise NotImplementedError for `validate_args`, which needs checks in the graph."""
        if validate_args:
            raise NotImplementedError(
                "tf.distributions.Normal with validate_args is not there in placesim.tf1; without it, it is"
            )
        self.validate_args, self.allow_nan_stats = validate_args, allow_nan_stats
        with tf.name_scope(name, values=[loc, scale]) as scope:
            self.loc = tf.identity(loc, name="loc")
            self.scale = tf.identity(scale, name="scale")
        self.name = scope
        self.dtype = self.loc.dtype.base_dtype
        self.batch_shape = broadcast_static_shape(self.loc.shape, self.scale.shape)
        self.event_shape = TensorShape([])

    def __str__(self) -> str:
        shape = f"batch_shape={self.batch_shape}, event_shape={self.event_shape}"
        return f'tfp.distributions.Normal("{self.name}", {shape}, dtype={self.dtype.name})'

    @contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        """Name scope of a method, inside the distribution's."""
        with tf.name_scope(self.name), tf.name_scope(name):
            yield

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The batch's shape as a tensor."""
        with self._scope(name):
            if self.batch_shape.is_fully_defined():
                return tf.convert_to_tensor(self.batch_shape.as_list(), dtype=tf.int32, name="batch_shape")
            return gen("BroadcastArgs")(tf.shape(self.loc), tf.shape(self.scale))

    def sample(self, sample_shape: object = (), seed: int | None = None, name: str = "sample") -> Any:
        """Random numbers of the shape `[*sample_shape, *batch_shape]`."""
        with self._scope(name):
            wanted = tf.convert_to_tensor(sample_shape, dtype=tf.int32, name="sample_shape")
            sizes = tf.get_static_value(wanted)
            if sizes is None:
                raise NotImplementedError(
                    "tf.distributions.Normal.sample of a shape that is a tensor is not there in placesim.tf1"
                )
            count = int(sizes.prod())
            if wanted.shape.ndims == 0:
                wanted = tf.convert_to_tensor([count], dtype=tf.int32, name="sample_shape")
            shape = tf.concat([[count], self.batch_shape_tensor()], 0)
            drawn = tf.random_normal(shape, mean=0.0, stddev=1.0, dtype=self.dtype, seed=seed)
            found = drawn * self.scale + self.loc
            found = tf.reshape(found, tf.concat([wanted, tf.shape(found)[1:]], 0))
            found.set_shape(TensorShape(sizes.reshape(-1).tolist()).concatenate(self.batch_shape))
            return found

    def log_prob(self, value: TensorLike, name: str = "log_prob") -> Any:
        """The logarithm of the density."""
        with self._scope(name):
            return self._log_prob(tf.convert_to_tensor(value, name="value"))

    def prob(self, value: TensorLike, name: str = "prob") -> Any:
        """The density."""
        with self._scope(name):
            return tf.exp(self._log_prob(tf.convert_to_tensor(value, name="value")))

    def _log_prob(self, value: TensorLike) -> Any:
        with tf.name_scope("standardize"):
            standard = (value - self.loc) / self.scale
        return -0.5 * tf.square(standard) - (_HALF_LOG_2PI + tf.log(self.scale))

    def entropy(self, name: str = "entropy") -> Any:
        """The differential entropy."""
        with self._scope(name):
            return 0.5 + _HALF_LOG_2PI + tf.log(self.scale * tf.ones_like(self.loc))

    def mean(self, name: str = "mean") -> Any:
        """The means, of the batch's shape."""
        with self._scope(name):
            return self.loc * tf.ones_like(self.scale)

    def mode(self, name: str = "mode") -> Any:
        """Modes, which equal the means."""
        return self.mean(name)

    def stddev(self, name: str = "stddev") -> Any:
        """The standard deviations, of the batch's shape."""
        with self._scope(name):
            return self.scale * tf.ones_like(self.loc)

    def variance(self, name: str = "variance") -> Any:
        """The variances, of the batch's shape."""
        with self._scope(name):
            return tf.square(self.scale * tf.ones_like(self.loc))

    def kl_divergence(self, other: object, name: str = "kl_divergence") -> Any:
        """As `kl_divergence`, in the distribution's scope."""
        with self._scope(name):
            return kl_divergence(self, other)


def kl_divergence(distribution_a: object, distribution_b: object, allow_nan_stats: bool = True, name: str | None = None) -> Any:
    """`KL(a || b)` of two normal distributions.  Raises NotImplementedError for others."""
    if not (isinstance(distribution_a, Normal) and isinstance(distribution_b, Normal)):
        kinds = f"distribution_a type {type(distribution_a).__name__} and distribution_b type {type(distribution_b).__name__}"
        raise NotImplementedError(f"No KL(distribution_a || distribution_b) registered for {kinds}")
    a, b = distribution_a, distribution_b
    with tf.name_scope("KullbackLeibler"), tf.name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        one, two, half = (tf.constant(value, dtype=a.dtype) for value in (1.0, 2.0, 0.5))
        squared_a, squared_b = tf.square(a.scale), tf.square(b.scale)
        ratio = squared_a / squared_b
        return tf.squared_difference(a.loc, b.loc) / (two * squared_b) + half * (ratio - one - tf.log(ratio))


__all__ = ["Normal", "kl_divergence"]
