"""Kinds of `LinearOperator`: dense, triangular and diagonal matrices, and the identity with a factor or without."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.linear_algebra.linear_operators import LinearOperator, as_member, as_sizes, assert_no_zeros, assert_real
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape

_DTYPES = ("float16", "float32", "float64", "complex64", "complex128")
_ZERO_DIAGONAL = "Singular operator:  Diagonal contained zero values."


class LinearOperatorFullMatrix(LinearOperator):
    """A dense matrix `[..., rows, columns]`."""

    def __init__(
        self,
        matrix: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        """Raise TypeError for integers, ValueError for less than two dimensions."""
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        with tf.name_scope(name, values=[matrix]):
            self._matrix = as_member(matrix, "matrix")
            checked = tf.convert_to_tensor(self._matrix, name="matrix")
            if checked.dtype.base_dtype.name not in _DTYPES:
                allowed = [tf.as_dtype(one) for one in _DTYPES]
                raise TypeError(f"Argument `matrix` must have dtype in {allowed}. Received: {checked.dtype}.")
            if checked.shape.ndims is not None and checked.shape.ndims < 2:
                raise ValueError(f"Argument `matrix` must have at least 2 dimensions. Received: {checked}.")
            super().__init__(self._matrix.dtype, None, *hints, name=name, parameters={"matrix": matrix})

    matrix = read_only("_matrix")

    def _shape(self) -> TensorShape:
        return TensorShape(self._matrix.shape)

    def _shape_tensor(self) -> Any:
        return tf.shape(self._matrix)

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return tf.matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Any:
        return self._matrix


class LinearOperatorLowerTriangular(LinearOperator):
    """A square matrix `[..., n, n]`, of which the part above the diagonal counts as zero."""

    def __init__(
        self,
        tril: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        """Raise ValueError for less than two dimensions."""
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        with tf.name_scope(name, values=[tril]):
            self._tril = as_member(tril, "tril")
            if self._tril.shape.ndims is not None and self._tril.shape.ndims < 2:
                raise ValueError(f"Argument tril must have at least 2 dimensions.  Found: {self._tril}")
            super().__init__(self._tril.dtype, None, *hints, name=name, parameters={"tril": tril})

    tril = read_only("_tril")

    def _shape(self) -> TensorShape:
        return TensorShape(self._tril.shape)

    def _shape_tensor(self) -> Any:
        return tf.shape(self._tril)

    def _lower(self) -> Any:
        return tf.matrix_band_part(self._tril, -1, 0)

    def _diagonal(self) -> Any:
        return tf.matrix_diag_part(self._tril)

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return tf.matmul(self._lower(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = tf.linalg.adjoint(rhs) if adjoint_arg else rhs
        return tf.linalg.triangular_solve(self._lower(), rhs, lower=True, adjoint=adjoint)

    def _determinant(self) -> Any:
        return tf.reduce_prod(self._diagonal(), axis=[-1])

    def _log_abs_determinant(self) -> Any:
        return tf.reduce_sum(tf.log(tf.abs(self._diagonal())), axis=[-1])

    def _to_dense(self) -> Any:
        return self._lower()

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._diagonal(), _ZERO_DIAGONAL)


class LinearOperatorDiag(LinearOperator):
    """A square matrix with the diagonal `[..., n]`."""

    def __init__(
        self,
        diag: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        """Raise ValueError for a scalar, and for hints that a diagonal contradicts."""
        with tf.name_scope(name, values=[diag]):
            self._diag = as_member(diag, "diag")
            if self._diag.shape.ndims is not None and self._diag.shape.ndims < 1:
                raise ValueError(f"Argument diag must have at least 1 dimension.  Found: {self._diag}")
            is_self_adjoint = _real_is_self_adjoint(self._diag, is_self_adjoint)
            if is_square is False:
                raise ValueError("Only square diagonal operators currently supported.")
            hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
            super().__init__(self._diag.dtype, None, *hints, name=name, parameters={"diag": diag})

    diag = read_only("_diag")

    def _shape(self) -> TensorShape:
        shape = TensorShape(self._diag.shape)
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Any:
        shape = tf.shape(self._diag)
        return tf.concat((shape, [shape[-1]]), 0)

    def _factor(self, adjoint: bool) -> Any:
        return tf.conj(self._diag) if adjoint else self._diag

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        factor = self._factor(adjoint)
        x = tf.linalg.adjoint(x) if adjoint_arg else x
        return tf.expand_dims(factor, -1) * x

    def _matvec(self, x: TensorLike, adjoint: bool = False) -> Any:
        return self._factor(adjoint) * x

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        factor = self._factor(adjoint)
        rhs = tf.linalg.adjoint(rhs) if adjoint_arg else rhs
        return rhs * tf.expand_dims(1.0 / factor, -1)

    def _determinant(self) -> Any:
        return tf.reduce_prod(self._diag, axis=[-1])

    def _log_abs_determinant(self) -> Any:
        found = tf.reduce_sum(tf.log(tf.abs(self._diag)), axis=[-1])
        return tf.cast(found, self.dtype) if self.dtype.is_complex else found

    def _to_dense(self) -> Any:
        return tf.matrix_diag(self._diag)

    def _diag_part(self) -> Any:
        return self._diag

    def _add_to_tensor(self, x: TensorLike) -> Any:
        own = tf.matrix_diag_part(x)
        return tf.matrix_set_diag(x, self._diag + own)

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._diag, _ZERO_DIAGONAL)

    def _assert_positive_definite(self) -> Any:
        found = (
            "Diagonal operator had diagonal entries with non-positive real part, "
            if self.dtype.is_complex
            else "Real diagonal operator had non-positive diagonal entries, "
        )
        return tf.assert_positive(tf.real(self._diag), message=found + "thus was not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        wrong = "This diagonal operator contained non-zero imaginary values.   Thus it was not self-adjoint."
        return assert_real(self._diag, wrong)

    def inverse(self, name: str = "inverse") -> LinearOperatorDiag:
        """The inverse matrix."""
        with self._scope(name):
            return LinearOperatorDiag(1.0 / self._diag, **self.hints)

    def adjoint(self, name: str = "adjoint") -> LinearOperatorDiag:
        """The conjugate transposed matrix."""
        with self._scope(name):
            return LinearOperatorDiag(tf.conj(self._diag) if self.dtype.is_complex else self._diag, **self.hints)


def _real_is_self_adjoint(values: Any, hint: bool | None) -> bool | None:
    if values.dtype.is_complex:
        return hint
    if hint is False:
        raise ValueError("A real diagonal operator is always self adjoint.")
    return True


def _checked_sizes(sizes: Any, argument: str, rank: int, found: str) -> Any:
    """The static value of sizes, None if unknown.

    Raises TypeError and ValueError; in the message, `found` precedes a negative value.
    """
    if not sizes.dtype.is_integer:
        raise TypeError(f"Argument {argument} must be integer type.  Found: {sizes}")
    known = constant_value(sizes)
    if known is None:
        return None
    if known.ndim != rank:
        raise ValueError(f"Argument {argument} must be a {rank}-D Tensor.  Found: {known}")
    if (known < 0).any():
        raise ValueError(f"Argument {argument} must be non-negative{found}{known}")
    return known


class _IdentityOperator(LinearOperator):
    """Base class of the two identities."""

    _num_rows: Any
    _num_rows_static: Any

    def _take_size(self, num_rows: Any, has_checks: bool) -> None:
        """Raise TypeError and ValueError for a wrong number of rows; `has_checks` adds ops that check shapes in steps."""
        self._has_checks = has_checks
        given = as_sizes(num_rows, name="num_rows")
        self._num_rows = self._with_checks(given, "num_rows", 0)
        self._num_rows_static = _checked_sizes(given, "num_rows", 0, ".  Found: ")

    def _with_checks(self, sizes: Any, name: str, rank: int) -> Any:
        if not self._has_checks:
            return sizes
        checks = [
            tf.assert_rank(sizes, rank, message=f"Argument {name} must be a {rank}-D Tensor."),
            tf.assert_non_negative(sizes, message=f"Argument {name} must be non-negative."),
        ]
        return with_dependencies(checks, sizes)

    def _checked_columns(self, x: Any) -> Any:
        """An argument of a product or a solution, which has the operator's size."""
        if not self._has_checks:
            return x
        message = "Dimensions are not compatible.  shape[-2] of argument to be the same as this operator"
        return with_dependencies([tf.assert_equal(tf.shape(x)[-2], self.domain_dimension_tensor(), message=message)], x)

    def _square(self) -> TensorShape:
        size = None if self._num_rows_static is None else int(self._num_rows_static)
        return TensorShape([size, size])

    def _ones(self) -> Any:
        """Diagonal of ones."""
        size = self.domain_dimension.value
        if self.shape.is_fully_defined():
            return tf.ones(self.batch_shape.concatenate([size]), dtype=self.dtype)
        return tf.ones(
            tf.concat([self.batch_shape_tensor(), [tf.reduce_min(self.shape_tensor()[-2:])]], axis=0), dtype=self.dtype
        )

    def _batch_of_ones(self) -> Any:
        is_known = self.batch_shape.is_fully_defined()
        return tf.ones(self.batch_shape if is_known else self.batch_shape_tensor(), dtype=self.dtype)

    def _size(self) -> Any:
        known = self.domain_dimension.value
        return tf.cast(tf.reduce_min(self.shape_tensor()[-2:]), self.dtype) if known is None else known


class LinearOperatorIdentity(_IdentityOperator):
    """The identity matrix, for each element of a batch."""

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool = True,
        is_self_adjoint: bool = True,
        is_positive_definite: bool = True,
        is_square: bool = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        """Raise ValueError for hints that the identity contradicts."""
        with tf.name_scope(name):
            for hint, word in (
                (is_self_adjoint, "self adjoint"),
                (is_non_singular, "non-singular"),
                (is_positive_definite, "positive-definite"),
                (is_square, "square"),
            ):
                if not hint:
                    raise ValueError(f"An identity operator is always {word}.")
            given = {"num_rows": num_rows, "batch_shape": batch_shape, "dtype": dtype}
            super().__init__(dtype or tf.float32, None, True, True, True, True, name=name, parameters=given)
            self._take_size(num_rows, assert_proper_shapes)
            self._batch = None
            if batch_shape is not None:
                sizes = as_sizes(batch_shape, name="batch_shape_arg")
                self._batch = self._with_checks(sizes, "batch_shape", 1)
                _checked_sizes(sizes, "batch_shape", 1, ".  Found:")

    def _shape(self) -> TensorShape:
        if self._batch is None:
            return self._square()
        known = constant_value(self._batch)
        return TensorShape(None if known is None else known.tolist()).concatenate(self._square())

    def _shape_tensor(self) -> Any:
        matrix = tf.stack((self._num_rows, self._num_rows), axis=0)
        return matrix if self._batch is None else tf.concat((self._batch, matrix), 0)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = self._checked_columns(tf.linalg.adjoint(x) if adjoint_arg else x)
        if self._batch is None:
            return x
        wanted = self.batch_shape.concatenate([1, 1])
        if wanted.is_fully_defined():
            same = tf.broadcast_static_shape(x.shape, wanted).as_list() == x.shape.as_list()
            return x if same else x + tf.zeros(wanted, dtype=self.dtype)
        return x + tf.zeros(tf.concat((self.batch_shape_tensor(), [1, 1]), 0), dtype=self.dtype)

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Any:
        return tf.ones(self.batch_shape_tensor(), dtype=self.dtype)

    def _log_abs_determinant(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), dtype=self.dtype)

    def _trace(self) -> Any:
        ones = self._batch_of_ones()
        return self._size() * ones

    def _diag_part(self) -> Any:
        return self._ones()

    def _add_to_tensor(self, x: TensorLike) -> Any:
        own = tf.matrix_diag_part(x)
        return tf.matrix_set_diag(x, 1 + own)

    def _assert_non_singular(self) -> Any:
        return tf.no_op("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        return tf.no_op("assert_positive_definite")

    def _assert_self_adjoint(self) -> Any:
        return tf.no_op("assert_self_adjoint")

    def inverse(self, name: str = "inverse") -> LinearOperatorIdentity:
        """The operator itself."""
        return self

    adjoint = cholesky = inverse


class LinearOperatorScaledIdentity(_IdentityOperator):
    """The identity matrix times a factor, for each element of a batch `multiplier`."""

    def __init__(
        self,
        num_rows: Any,
        multiplier: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        """Raise ValueError for hints that a diagonal contradicts."""
        with tf.name_scope(name, values=[multiplier, num_rows]):
            self.multiplier = as_member(multiplier, "multiplier")
            is_self_adjoint = _real_is_self_adjoint(self.multiplier, is_self_adjoint)
            if not is_square:
                raise ValueError("A ScaledIdentity operator is always square.")
            hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
            given = {"num_rows": num_rows, "multiplier": multiplier}
            super().__init__(self.multiplier.dtype.base_dtype, None, *hints, name=name, parameters=given)
            self._take_size(num_rows, assert_proper_shapes)
            self._exponent = tf.cast(self._num_rows, self.dtype)
            self._real_exponent = tf.cast(self._num_rows, self.dtype.real_dtype)

    def _shape(self) -> TensorShape:
        return TensorShape(self.multiplier.shape).concatenate(self._square())

    def _shape_tensor(self) -> Any:
        matrix = tf.stack((self._num_rows, self._num_rows), axis=0)
        return tf.concat((tf.shape(self.multiplier), matrix), 0)

    def _factor(self, adjoint: bool) -> Any:
        factor = tf.expand_dims(tf.expand_dims(self.multiplier, -1), -1)
        return tf.conj(factor) if adjoint else factor

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = tf.linalg.adjoint(x) if adjoint_arg else x
        return self._checked_columns(x) * self._factor(adjoint)

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = tf.linalg.adjoint(rhs) if adjoint_arg else rhs
        return self._checked_columns(rhs) / self._factor(adjoint)

    def _determinant(self) -> Any:
        return self.multiplier**self._exponent

    def _log_abs_determinant(self) -> Any:
        return self._real_exponent * tf.log(tf.abs(self.multiplier))

    def _trace(self) -> Any:
        ones = self._batch_of_ones()
        return self.multiplier * self._size() * ones

    def _diag_part(self) -> Any:
        return self._ones() * self.multiplier[..., None]

    def _add_to_tensor(self, x: TensorLike) -> Any:
        added = tf.expand_dims(self.multiplier, -1)
        own = tf.matrix_diag_part(x)
        return tf.matrix_set_diag(x, added + own)

    def _assert_non_singular(self) -> Any:
        return tf.assert_positive(tf.abs(self.multiplier), message="LinearOperator was singular")

    def _assert_positive_definite(self) -> Any:
        return tf.assert_positive(tf.real(self.multiplier), message="LinearOperator was not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        imaginary = tf.imag(self.multiplier)
        return tf.assert_equal(tf.zeros_like(imaginary), imaginary, message="LinearOperator was not self-adjoint")
