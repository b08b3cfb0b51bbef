"""Normal distributions of vectors: `tf.contrib.distributions.MultivariateNormalDiag`."""

from __future__ import annotations

import math
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.array.shaping import broadcast_static_shape
from placesim.tf1.distributions.distribution import Distribution
from placesim.tf1.distributions.divergences import RegisterKL
from placesim.tf1.types.shapes import TensorShape


class MultivariateNormalDiag(Distribution):
    """Vectors of independent normal components.

    `scale_diag` has their standard deviations, by default ones, and `scale_identity_multiplier` is added to them.
    """

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiag",
    ) -> None:
        """Raise ValueError if neither `loc` nor `scale_diag` tells the size of the vectors."""
        parameters = dict(locals())
        if loc is None and scale_diag is None:
            raise ValueError("Cannot infer `event_shape` unless `loc` or `shape_hint` is specified.")
        with tf.name_scope(name, values=[loc, scale_diag, scale_identity_multiplier]) as scope:
            if loc is not None:
                loc = tf.convert_to_tensor(loc, name="loc")
            if scale_diag is not None:
                scale_diag = tf.convert_to_tensor(scale_diag, name="scale_diag")
            known = loc if loc is not None else scale_diag
            scale = scale_diag
            if scale_identity_multiplier is not None:
                extra = tf.convert_to_tensor(scale_identity_multiplier, dtype=known.dtype, name="scale_identity_multiplier")
                extra = extra[..., tf.newaxis]
                scale = extra * tf.ones_like(known) if scale_diag is None else scale_diag + extra
            self._scale_diag = tf.ones_like(known) if scale is None else scale
            self.loc = loc
            self._loc = tf.zeros_like(self._scale_diag) if loc is None else loc
        super().__init__(self._scale_diag.dtype, None, validate_args, allow_nan_stats, parameters, name=scope)

    @property
    def _shape(self) -> TensorShape:
        return broadcast_static_shape(self._loc.shape, self._scale_diag.shape)

    @property
    def batch_shape(self) -> TensorShape:
        found: TensorShape = self._shape[:-1]
        return found

    @property
    def event_shape(self) -> TensorShape:
        found: TensorShape = self._shape[-1:]
        return found

    def _shape_tensor(self) -> Any:
        return tf.broadcast_dynamic_shape(tf.shape(self._loc), tf.shape(self._scale_diag))

    def _batch_shape_tensor(self) -> Any:
        return self._shape_tensor()[:-1]

    def _event_shape_tensor(self) -> Any:
        return self._shape_tensor()[-1:]

    def _sample_n(self, count: Any, seed: int | None) -> Any:
        shape = tf.concat([[count], self.batch_shape_tensor(), self.event_shape_tensor()], 0)
        return tf.random_normal(shape, dtype=self.dtype, seed=seed) * self._scale_diag + self._loc

    def _log_prob(self, value: Any) -> Any:
        standard = (value - self._loc) / self._scale_diag
        density = -0.5 * tf.square(standard) - 0.5 * math.log(2.0 * math.pi)
        return tf.reduce_sum(density, axis=-1) - self._log_determinant()

    def _log_determinant(self) -> Any:
        return tf.reduce_sum(tf.log(tf.abs(self._scale_diag)), axis=-1)

    def _entropy(self) -> Any:
        size = tf.cast(self.event_shape_tensor()[0], self.dtype)
        found = 0.5 * math.log(2.0 * math.pi * math.e) * size + self._log_determinant()
        return found + tf.zeros(self.batch_shape_tensor(), self.dtype)

    def _mean(self) -> Any:
        return tf.identity(self._loc) + tf.zeros_like(self._scale_diag)

    _mode = _mean

    def _stddev(self) -> Any:
        return tf.abs(self._scale_diag) + tf.zeros_like(self._loc)

    def _variance(self) -> Any:
        return tf.square(self._scale_diag) + tf.zeros_like(self._loc)

    def _covariance(self) -> Any:
        return tf.matrix_diag(self._variance())


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _divergence_of_vectors(a: MultivariateNormalDiag, b: MultivariateNormalDiag, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_mvn"):
        ratio = a.stddev() / b.stddev()
        distance = (b.mean() - a.mean()) / b._scale_diag
        total = tf.reduce_sum(tf.square(ratio) + tf.square(distance) - 1.0, axis=-1)
        return b._log_determinant() - a._log_determinant() + 0.5 * total
