"""`tf.linalg.LinearOperator`: matrices, or batches of them, whose products and solutions use their structure."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.types.dimensions import Dimension
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.modules import Module
from placesim.tf1.variables.variable import Variable


class LinearOperator(Module):
    """Base class of matrices `[..., rows, columns]`; subclasses define `_shape`, `_shape_tensor` and `_matmul`.

    Hints are True, False, or None for unknown properties.
    """

    def __init__(
        self,
        dtype: DTypeLike | None,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        """Raise ValueError for hints that contradict each other."""
        if is_positive_definite:
            if is_non_singular is False:
                raise ValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        for hint, word in ((is_non_singular, "non-singular"), (is_self_adjoint, "self-adjoint")):
            if hint:
                if is_square is False:
                    raise ValueError(f"A {word} matrix is always square.")
                is_square = True
        self.dtype: Any = tf.as_dtype(dtype).base_dtype if dtype else None
        self.graph_parents = list(graph_parents or ())
        self.is_non_singular, self.is_self_adjoint = is_non_singular, is_self_adjoint
        self.is_positive_definite = is_positive_definite
        self._square_hint = is_square
        self._parameters = dict(parameters or {})
        self._name = name or type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments from which the operator was made."""
        return dict(self._parameters)

    @property
    def hints(self) -> dict[str, Any]:
        """Arguments of an operator with the same properties."""
        return {
            "is_non_singular": self.is_non_singular,
            "is_self_adjoint": self.is_self_adjoint,
            "is_positive_definite": self.is_positive_definite,
            "is_square": True,
        }

    @property
    def is_square(self) -> bool | None:
        """Whether rows and columns have the same size.  Raises ValueError if the hint says otherwise."""
        found: bool | None = self.domain_dimension == self.range_dimension
        if self._square_hint is False and found:
            raise ValueError("User set is_square hint to False, but the operator was square.")
        return found if self._square_hint is None else self._square_hint

    def _scope(self, name: str) -> Any:
        """Name scope of a method, inside the operator's."""
        return tf.name_scope(f"{self.name}/{name}")

    # --- methods that operators override ---

    def _shape(self) -> TensorShape:
        raise NotImplementedError("_shape is not implemented.")

    def _shape_tensor(self) -> Any:
        raise NotImplementedError("_shape_tensor is not implemented.")

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        raise NotImplementedError("_matmul is not implemented.")

    def _matvec(self, x: TensorLike, adjoint: bool = False) -> Any:
        return tf.squeeze(self.matmul(tf.expand_dims(x, axis=-1), adjoint=adjoint), axis=-1)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = tf.linalg.adjoint(rhs) if adjoint_arg else rhs
        if self._uses_cholesky:
            return tf.cholesky_solve(tf.cholesky(self.to_dense()), rhs)
        matrix = self.to_dense()
        if matrix.shape[:-2].as_list() != rhs.shape[:-2].as_list() or matrix.shape.rank is None:
            raise not_there(f"linalg.{type(self).__name__}.solve of other batches", "for the same batches it is")
        with tf.name_scope(None, "MatrixSolveWithBroadcast", [matrix, rhs]):
            with tf.name_scope("broadcast_matrix_batch_dims"):
                pass  # TensorFlow opens the scope, which takes the name, and makes no node for equal batches
            return tf.matrix_solve(matrix, rhs, adjoint=adjoint)

    def _solvevec(self, rhs: TensorLike, adjoint: bool = False) -> Any:
        return tf.squeeze(self.solve(tf.expand_dims(rhs, axis=-1), adjoint=adjoint), axis=-1)

    def _determinant(self) -> Any:
        if self._uses_cholesky:
            return tf.exp(self.log_abs_determinant())
        return tf.matrix_determinant(self.to_dense())

    def _log_abs_determinant(self) -> Any:
        if self._uses_cholesky:
            return 2 * tf.reduce_sum(tf.log(tf.matrix_diag_part(tf.cholesky(self.to_dense()))), axis=[-1])
        return tf.linalg.slogdet(self.to_dense())[1]

    def _to_dense(self) -> Any:
        is_known = self.batch_shape.is_fully_defined()
        batch = self.batch_shape if is_known else self.batch_shape_tensor()
        size = self.domain_dimension.value
        if size is None:
            size = self.domain_dimension_tensor()
        return self.matmul(tf.eye(num_rows=size, batch_shape=batch, dtype=self.dtype))

    def _diag_part(self) -> Any:
        return tf.matrix_diag_part(self.to_dense())

    def _trace(self) -> Any:
        return tf.reduce_sum(self.diag_part(), axis=-1)

    def _add_to_tensor(self, x: TensorLike) -> Any:
        return self.to_dense() + x

    def _assert_non_singular(self) -> Any:
        raise NotImplementedError("assert_non_singular is not implemented.")

    def _assert_positive_definite(self) -> Any:
        if not self.is_self_adjoint:
            raise NotImplementedError("assert_positive_definite is not implemented.")
        diagonal = tf.matrix_diag_part(tf.cholesky(self.to_dense()))
        return tf.assert_positive(diagonal, message="Matrix was not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        dense = self.to_dense()
        return tf.assert_equal(dense, tf.linalg.adjoint(dense), message="Matrix was not equal to its adjoint.")

    @property
    def _uses_cholesky(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    # --- shapes ---

    @property
    def shape(self) -> TensorShape:
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        return TensorShape(self.shape[:-2])

    @property
    def tensor_rank(self) -> int | None:
        return self.shape.ndims

    @property
    def domain_dimension(self) -> Dimension:
        """Number of columns."""
        return self._dimension(-1)

    @property
    def range_dimension(self) -> Dimension:
        """Number of rows."""
        return self._dimension(-2)

    def _dimension(self, axis: int) -> Dimension:
        return self.shape.dims[axis] if self.shape.dims else Dimension(None)

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        with self._scope(name):
            return as_sizes(self.shape.as_list()) if self.shape.is_fully_defined() else self._shape_tensor()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        with self._scope(name):
            if self.batch_shape.is_fully_defined():
                return as_sizes(self.batch_shape.as_list(), name="batch_shape")
            return self.shape_tensor()[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        with self._scope(name):
            return tf.size(self.shape_tensor()) if self.tensor_rank is None else tf.convert_to_tensor(self.tensor_rank)

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        return self._size_tensor(name, self.domain_dimension, -1)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        return self._size_tensor(name, self.range_dimension, -2)

    def _size_tensor(self, name: str, dimension: Dimension, axis: int) -> Any:
        with self._scope(name):
            return self.shape_tensor()[axis] if dimension.value is None else tf.convert_to_tensor(dimension.value)

    # --- products and solutions ---

    def matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Product with a matrix `[..., columns, n]`.  Raises TypeError and ValueError."""
        self._refuse_operator(x)
        with self._scope(name):
            value = self._argument(x, "x", -2 if adjoint else -1, -1 if adjoint_arg else -2)
            return self._matmul(value, adjoint=adjoint, adjoint_arg=adjoint_arg)

    __matmul__ = matmul

    def matvec(self, x: TensorLike, adjoint: bool = False, name: str = "matvec") -> Any:
        """Product with a vector `[..., columns]`.  Raises TypeError and ValueError."""
        with self._scope(name):
            return self._matvec(self._argument(x, "x", -2 if adjoint else -1, -1), adjoint=adjoint)

    def solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Matrix whose product with this one is `rhs`.  Raises NotImplementedError, TypeError and ValueError."""
        for hint, kind in ((self.is_non_singular, "be singular"), (self.is_square, "not be square")):
            if hint is False:
                raise NotImplementedError(f"Exact solve not implemented for an operator that is expected to {kind}.")
        self._refuse_operator(rhs)
        with self._scope(name):
            value = self._argument(rhs, "rhs", -1 if adjoint else -2, -1 if adjoint_arg else -2)
            return self._solve(value, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def solvevec(self, rhs: TensorLike, adjoint: bool = False, name: str = "solve") -> Any:
        """Vector whose product with this matrix is `rhs`.  Raises TypeError and ValueError."""
        with self._scope(name):
            return self._solvevec(self._argument(rhs, "rhs", -1 if adjoint else -2, -1), adjoint=adjoint)

    def _argument(self, value: TensorLike, name: str, own_axis: int, axis: int) -> Any:
        """Tensor of an argument; its size along `axis` must equal the operator's size along `own_axis`."""
        found = tf.convert_to_tensor(value, name=name)
        if found.dtype.base_dtype != self.dtype:
            raise TypeError(f"Expected argument to have dtype {self.dtype}.  Found: {found.dtype} in tensor {found}")
        self._dimension(own_axis).assert_is_compatible_with(
            Dimension(None) if found.shape.ndims is None else found.shape.dims[axis]
        )
        return found

    def _refuse_operator(self, value: object) -> None:
        if isinstance(value, LinearOperator):
            raise not_there("linalg.LinearOperatorComposition", "products with tensors are, and `to_dense` of an operator")

    # --- properties ---

    def determinant(self, name: str = "det") -> Any:
        """Determinant `[...]`.  Raises NotImplementedError for a matrix that is not square."""
        return self._of_square(name, self._determinant)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """Logarithm of the determinant's absolute value.  Raises NotImplementedError for a matrix that is not square."""
        return self._of_square(name, self._log_abs_determinant)

    def _of_square(self, name: str, make: Any) -> Any:
        if self.is_square is False:
            raise NotImplementedError("Determinant not implemented for an operator that is expected to not be square.")
        with self._scope(name):
            return make()

    def to_dense(self, name: str = "to_dense") -> Any:
        """The matrix as a tensor."""
        with self._scope(name):
            return self._to_dense()

    def diag_part(self, name: str = "diag_part") -> Any:
        """The diagonal `[..., min(rows, columns)]`."""
        with self._scope(name):
            return self._diag_part()

    def trace(self, name: str = "trace") -> Any:
        """Sum of the diagonal."""
        with self._scope(name):
            return self._trace()

    def add_to_tensor(self, x: TensorLike, name: str = "add_to_tensor") -> Any:
        """Sum of the matrix and a tensor.  Raises TypeError."""
        with self._scope(name):
            return self._add_to_tensor(self._argument(x, "x", -1, -1))

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Op that fails for a singular matrix."""
        with self._scope(name):
            return self._assert_non_singular()

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Op that fails for a matrix that is not positive definite."""
        with self._scope(name):
            return self._assert_positive_definite()

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Op that fails for a matrix that is not self-adjoint."""
        with self._scope(name):
            return self._assert_self_adjoint()


def as_sizes(sizes: Any, name: str | None = None) -> Any:
    """Sizes as a tensor, of int32 if there are none."""
    return tf.convert_to_tensor(sizes, dtype=tf.int32 if isinstance(sizes, list | tuple) and not sizes else None, name=name)


def as_member(value: TensorLike, name: str) -> Any:
    """Tensor of an operator's argument. A variable stays a variable, so that it is read at each use."""
    return value if isinstance(value, Variable) else tf.convert_to_tensor(value, name=name)


def assert_no_zeros(x: Any, message: str) -> Any:
    """Op that fails if a value is zero."""
    with tf.name_scope("assert_no_entries_with_modulus_zero", values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        sizes = tf.abs(x)
        return tf.assert_less(tf.convert_to_tensor(0, dtype=x.dtype.base_dtype.real_dtype), sizes, message=message)


def assert_real(x: Any, message: str) -> Any:
    """Op that fails if a value has an imaginary part."""
    with tf.name_scope("assert_zero_imag_part", values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        if x.dtype.base_dtype.is_floating:
            return tf.no_op()
        return tf.assert_equal(tf.convert_to_tensor(0, dtype=x.dtype.base_dtype.real_dtype), tf.imag(x), message=message)
