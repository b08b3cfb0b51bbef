"""`tf.contrib.distributions.bijectors.Affine`: vectors times a matrix, plus a vector."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distributions.bijectors import AffineLinearOperator, Bijector
from placesim.tf1.distributions.distribution import refuse_checks
from placesim.tf1.distributions.event_matrices import EventMatrices
from placesim.tf1.distributions.multivariate import diagonal_scale
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.linear_algebra.operator_kinds import LinearOperatorLowerTriangular


class Affine(AffineLinearOperator):
    """Vectors times the sum of a triangular matrix, a diagonal and a multiple of the identity, plus `shift`."""

    def __init__(
        self,
        shift: Any = None,
        scale_identity_multiplier: Any = None,
        scale_diag: Any = None,
        scale_tril: Any = None,
        scale_perturb_factor: Any = None,
        scale_perturb_diag: Any = None,
        validate_args: bool = False,
        name: str = "affine",
    ) -> None:
        """Raise TypeError for different types of shift and scale, NotImplementedError for perturbations and checks."""
        if validate_args:
            raise refuse_checks("bijectors.Affine")
        if scale_perturb_factor is not None or scale_perturb_diag is not None:
            raise not_there("contrib.distributions.bijectors.Affine with a perturbation", "without it, it is")
        self.name = name
        self._is_number = scale_diag is None and scale_tril is None
        with self._scope("init"):
            self.shift = None if shift is None else tf.convert_to_tensor(shift, name="shift")
            dtype = tf.float32 if self.shift is None else self.shift.dtype.base_dtype
            if self._is_number and scale_identity_multiplier is None:
                scale_identity_multiplier = tf.convert_to_tensor(1.0, dtype=dtype)
            named = (("identity_multiplier", scale_identity_multiplier), ("diag", scale_diag), ("tril", scale_tril))
            multiplier, diagonal, triangle = (
                None if value is None else tf.convert_to_tensor(value, name=part) for part, value in named
            )
            self.scale = multiplier if self._is_number else _scale(self.shift, triangle, diagonal, multiplier)
            if self.shift is not None and not self._is_number and dtype != self.scale.dtype.base_dtype:
                raise TypeError(f"shift.dtype({self.shift.dtype}) is incompatible with scale.dtype({self.scale.dtype}).")
            self._matrices = EventMatrices(0 if self._is_number else self.scale.tensor_rank - 2)
        Bijector.__init__(self, None, True, dtype=self.scale.dtype.base_dtype, name=name)

    def _forward(self, x: Tensor) -> Any:
        if not self._is_number:
            return super()._forward(x)
        y = x * self.scale
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Tensor) -> Any:
        return (y if self.shift is None else y - self.shift) / self.scale if self._is_number else super()._inverse(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        if not self._is_number:
            return super()._forward_log_det_jacobian(x)
        size = tf.cast(tf.shape(x)[-1], dtype=self.scale.dtype)
        return tf.log(tf.abs(self.scale)) * size


def _scale(shift: Any, triangle: Any, diagonal: Any, multiplier: Any) -> Any:
    """A diagonal or triangular `LinearOperator`."""
    with tf.name_scope(None, "make_tril_scale"):
        pass
    if triangle is None:
        return diagonal_scale(shift, diagonal, multiplier)
    matrix = tf.matrix_band_part(triangle, -1, 0)
    own = tf.matrix_diag_part(matrix)
    own = own if diagonal is None else own + diagonal
    own = own if multiplier is None else own + multiplier[..., tf.newaxis]
    matrix = tf.matrix_set_diag(matrix, own)
    return LinearOperatorLowerTriangular(matrix, is_non_singular=True, is_self_adjoint=False, is_positive_definite=False)
