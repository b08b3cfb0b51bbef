"""Normal distributions of vectors: `tf.contrib.distributions.MultivariateNormalDiag` and its relatives."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.array.shaping import broadcast_dynamic_shape, broadcast_static_shape
from placesim.tf1.distributions.bijectors import AffineLinearOperator
from placesim.tf1.distributions.divergences import RegisterKL
from placesim.tf1.distributions.location_scale import Normal
from placesim.tf1.distributions.transformed import TransformedDistribution
from placesim.tf1.linear_algebra.operator_kinds import (
    LinearOperatorDiag,
    LinearOperatorIdentity,
    LinearOperatorLowerTriangular,
    LinearOperatorScaledIdentity,
)
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape

_DIAGONAL = (LinearOperatorIdentity, LinearOperatorScaledIdentity, LinearOperatorDiag)


class MultivariateNormalLinearOperator(TransformedDistribution):
    """Vectors `loc + scale @ x`, where the components of `x` have standard normal distributions."""

    def __init__(
        self,
        loc: Any = None,
        scale: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalLinearOperator",
    ) -> None:
        """Raise ValueError without a scale, TypeError for integers."""
        if scale is None:
            raise ValueError("Missing required `scale` parameter.")
        if not scale.dtype.is_floating:
            raise TypeError("`scale` parameter must have floating-point dtype.")
        with tf.name_scope(name, values=[loc]) as scope:
            loc = None if loc is None else tf.convert_to_tensor(loc, name="loc")
            batch_shape, event_shape = _shapes(loc, scale)
        normal = Normal(loc=tf.zeros([], dtype=scale.dtype), scale=tf.ones([], dtype=scale.dtype))
        bijector = AffineLinearOperator(shift=loc, scale=scale, validate_args=validate_args)
        super().__init__(normal, bijector, batch_shape, event_shape, validate_args, scope)
        self.allow_nan_stats = allow_nan_stats

    loc = read_only("bijector.shift")
    scale = read_only("bijector.scale")

    def _mean(self) -> Any:
        shape: Any = self.batch_shape.concatenate(self.event_shape)
        is_known = shape.is_fully_defined()
        if not is_known:
            shape = tf.concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0)
        if self.loc is None:
            return tf.zeros(shape, self.dtype)
        if is_known and shape == self.loc.shape:
            return tf.identity(self.loc)
        return tf.identity(self.loc) + tf.zeros(shape, self.dtype)

    _mode = _mean

    def _covariance(self) -> Any:
        if isinstance(self.scale, _DIAGONAL):
            return tf.matrix_diag(tf.square(self.scale.diag_part()))
        return self.scale.matmul(self.scale.to_dense(), adjoint_arg=True)

    def _variance(self) -> Any:
        if isinstance(self.scale, _DIAGONAL):
            return tf.square(self.scale.diag_part())
        return tf.matrix_diag_part(self._covariance())

    def _stddev(self) -> Any:
        return tf.abs(self.scale.diag_part()) if isinstance(self.scale, _DIAGONAL) else tf.sqrt(self._variance())


class MultivariateNormalDiag(MultivariateNormalLinearOperator):
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
        with tf.name_scope(name) as scope, tf.name_scope("init", values=[loc, scale_diag, scale_identity_multiplier]):
            scale = diagonal_scale(loc, scale_diag, scale_identity_multiplier)
        super().__init__(loc, scale, validate_args, allow_nan_stats, scope)
        self._take_parameters(parameters)


class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """`MultivariateNormalDiag` with the standard deviations `softplus(scale_diag)`."""

    def __init__(
        self,
        loc: Any,
        scale_diag: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiagWithSoftplusScale",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[scale_diag]) as scope:
            scale_diag = tf.nn.softplus(scale_diag)
            super().__init__(loc, scale_diag, None, validate_args, allow_nan_stats, scope)
        self._take_parameters(parameters)


class MultivariateNormalTriL(MultivariateNormalLinearOperator):
    """Vectors `loc + scale_tril @ x`, with a lower triangular matrix."""

    def __init__(
        self,
        loc: Any = None,
        scale_tril: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalTriL",
    ) -> None:
        """Raise ValueError without `loc` and `scale_tril`."""
        parameters = dict(locals())
        if loc is None and scale_tril is None:
            raise ValueError("Must specify one or both of `loc`, `scale_tril`.")
        with tf.name_scope(name) as scope, tf.name_scope("init", values=[loc, scale_tril]):
            loc = None if loc is None else tf.convert_to_tensor(loc, name="loc")
            scale: Any
            if scale_tril is None:
                size = _last_size(loc)
                scale = LinearOperatorIdentity(size, dtype=loc.dtype, assert_proper_shapes=validate_args)
            else:
                scale_tril = tf.convert_to_tensor(scale_tril, name="scale_tril")
                scale = LinearOperatorLowerTriangular(scale_tril, True, False, False)
        super().__init__(loc, scale, validate_args, allow_nan_stats, scope)
        self._take_parameters(parameters)


class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """Vectors with a covariance matrix."""

    def __init__(
        self,
        loc: Any = None,
        covariance_matrix: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalFullCovariance",
    ) -> None:
        """Raise ValueError without `loc` and `covariance_matrix`."""
        parameters = dict(locals())
        with tf.name_scope(name) as scope, tf.name_scope("init", values=[loc, covariance_matrix]):
            scale_tril = None
            if covariance_matrix is not None:
                scale_tril = tf.cholesky(tf.convert_to_tensor(covariance_matrix, name="covariance_matrix"))
            super().__init__(loc, scale_tril, validate_args, allow_nan_stats, scope)
        self._take_parameters(parameters)


def _last_size(loc: Any) -> Any:
    size = loc.shape.with_rank_at_least(1).as_list()[-1]
    return tf.shape(loc)[-1] if size is None else size


def diagonal_scale(loc: Any, scale_diag: Any, multiplier: Any) -> Any:
    """A diagonal `LinearOperator`.  Raises ValueError if its size is unknown."""
    names = {"loc": loc, "scale_diag": scale_diag, "scale_identity_multiplier": multiplier}
    with tf.name_scope(None, "make_diag_scale", values=list(names.values())):
        loc, scale_diag, multiplier = (
            None if value is None else tf.convert_to_tensor(value, name=name) for name, value in names.items()
        )
        if scale_diag is not None:
            if multiplier is not None:
                scale_diag += multiplier[..., tf.newaxis]
            return LinearOperatorDiag(scale_diag, is_non_singular=True, is_self_adjoint=True, is_positive_definite=False)
        if loc is None:
            raise ValueError("Cannot infer `event_shape` unless `loc` or `shape_hint` is specified.")
        size = loc.shape.as_list()[-1]
        if multiplier is None:
            return LinearOperatorIdentity(size, dtype=loc.dtype.base_dtype, is_self_adjoint=True, is_positive_definite=True)
        return LinearOperatorScaledIdentity(
            size, multiplier, is_non_singular=True, is_self_adjoint=True, is_positive_definite=False
        )


def _shapes(loc: Any, scale: Any) -> tuple[Any, Any]:
    """The shapes of batch and event.  Raises ValueError for different sizes of `loc` and `scale`."""
    with tf.name_scope("shapes_from_loc_and_scale", values=[loc]):
        size_tensor = scale.range_dimension_tensor()
        size = tf.get_static_value(size_tensor)
        event = size_tensor[tf.newaxis] if size is None else size.reshape([1])
        own = None if loc is None else loc.shape.as_list()[-1]
        if size is not None and own not in (None, 1, size):
            # TensorFlow names the two the other way round
            raise ValueError(f"Event size of 'scale' ({own}) could not be broadcast up to that of 'loc' ({size}).")
        batch = scale.batch_shape_tensor()
        if loc is None:
            known = tf.get_static_value(batch)
            return batch if known is None else known, event
        outer = loc.shape.with_rank_at_least(1)[:-1]
        is_known = outer.is_fully_defined()
        outer_tensor = tf.convert_to_tensor(outer, name="loc_batch_shape") if is_known else tf.shape(loc)[:-1]
        with tf.name_scope("prefer_static_broadcast_shape"):
            sizes = [tf.get_static_value(shape) for shape in (batch, outer_tensor)]
            if any(one is None for one in sizes):
                return broadcast_dynamic_shape(batch, outer_tensor), event
            return broadcast_static_shape(*map(TensorShape, sizes)), event


@RegisterKL(MultivariateNormalLinearOperator, MultivariateNormalLinearOperator)
def _divergence_of_vectors(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_mvn", values=[a.loc, b.loc]):
        if isinstance(a.scale, _DIAGONAL) and isinstance(b.scale, _DIAGONAL):
            ratio = (a.stddev() / b.stddev())[..., tf.newaxis]
        else:
            ratio = b.scale.solve(a.scale.to_dense())
        total = b.scale.log_abs_determinant() - a.scale.log_abs_determinant()
        squares = -tf.cast(a.scale.domain_dimension_tensor(), a.dtype) + tf.reduce_sum(tf.square(ratio), axis=[-2, -1])
        distance = b.scale.solve((b.mean() - a.mean())[..., tf.newaxis])
        found = total + 0.5 * (squares + tf.reduce_sum(tf.square(distance), axis=[-2, -1]))
        found.set_shape(broadcast_static_shape(a.batch_shape, b.batch_shape))
        return found
