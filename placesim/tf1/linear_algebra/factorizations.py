"""`tf.linalg`: factorizations of matrices, and solutions of linear equations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def adjoint(matrix: TensorLike, name: str | None = None) -> Any:
    """The conjugate transpose in the last two dimensions."""
    with name_scope(name, "adjoint", [matrix]):
        return tf.matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)


def matrix_triangular_solve(
    matrix: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """Solve `matrix x = rhs` for a triangular matrix."""
    with name_scope(name, "triangular_solve", [matrix, rhs]):
        return gen("MatrixTriangularSolve")(matrix, rhs, lower=lower, adjoint=adjoint)


def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Any:
    """Solve `A x = rhs` with the Cholesky factor of A."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        y = gen("MatrixTriangularSolve")(chol, rhs, adjoint=False, lower=True)
        return gen("MatrixTriangularSolve")(chol, y, adjoint=True, lower=True)


def self_adjoint_eig(tensor: TensorLike, name: str | None = None) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    values, vectors = gen("SelfAdjointEigV2")(tensor, compute_v=True, name=name)
    return values, vectors


def self_adjoint_eigvals(tensor: TensorLike, name: str | None = None) -> Any:
    """Eigenvalues of symmetric matrices."""
    return gen("SelfAdjointEigV2")(tensor, compute_v=False, name=name)[0]


def svd(tensor: TensorLike, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values, and with `compute_uv` also the singular vectors."""
    values, left, right = gen("Svd")(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    return (values, left, right) if compute_uv else values


def logdet(matrix: TensorLike, name: str | None = None) -> Any:
    """The logarithm of a positive definite matrix's determinant."""
    with name_scope(name, "logdet", [matrix]):
        factor = gen("Cholesky")(matrix)
        return 2.0 * tf.reduce_sum(tf.log(tf.real(tf.matrix_diag_part(factor))), axis=[-1])


def matrix_solve_ls(matrix: Any, rhs: TensorLike, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None) -> Any:
    """The x that minimizes `|matrix x - rhs|`; `fast` solves the normal equations by Cholesky factorization."""
    if not fast:
        matrix = convert_to_tensor(matrix, name="matrix")
        return gen("MatrixSolveLs")(matrix, rhs, l2_regularizer, fast=fast, name=name)
    with name_scope(name, "matrix_solve_ls", [matrix, rhs, l2_regularizer]):
        sizes = matrix.shape[-2:]
        if sizes.is_fully_defined():
            return (_overdetermined if sizes[-2] >= sizes[-1] else _underdetermined)(matrix, rhs, l2_regularizer)
        sizes = tf.shape(matrix)[-2:]
        solvers = [partial(solve, matrix, rhs, l2_regularizer) for solve in (_overdetermined, _underdetermined)]
        return tf.cond(sizes[-2] >= sizes[-1], *solvers)


def _factor(matrix: Any, l2_regularizer: object, is_first: bool) -> Any:
    """Cholesky factor of a matrix's product with its adjoint, plus `l2_regularizer` on the diagonal."""
    product = tf.matmul(matrix, matrix, adjoint_a=is_first, adjoint_b=not is_first)
    if l2_regularizer != 0:
        sizes = tf.shape(matrix)
        batch = sizes[:-2]
        identity = tf.eye(sizes[-1 if is_first else -2], batch_shape=batch, dtype=matrix.dtype)
        product += l2_regularizer * identity
    return gen("Cholesky")(product)


def _overdetermined(matrix: TensorLike, rhs: TensorLike, l2_regularizer: object) -> Any:
    factor = _factor(matrix, l2_regularizer, True)
    return cholesky_solve(factor, tf.matmul(matrix, rhs, adjoint_a=True))


def _underdetermined(matrix: TensorLike, rhs: TensorLike, l2_regularizer: object) -> Any:
    factor = _factor(matrix, l2_regularizer, False)
    return tf.matmul(matrix, cholesky_solve(factor, rhs), adjoint_a=True)


# --- norms, ranks and factors ---------------------------------------------------------------------------------------


def normalize(
    tensor: TensorLike, ord: object = "euclidean", axis: TensorLike | None = None, name: str | None = None
) -> tuple[Any, Any]:
    """A tensor divided by its norm, and the norm."""
    with name_scope(name, "normalize", [tensor]):
        tensor = convert_to_tensor(tensor)
        length = tf.norm(tensor, ord, axis, keepdims=True)
        length = tf.cast(length, tensor.dtype)
        return tensor / length, length


def matrix_rank(a: TensorLike, tol: object = None, validate_args: bool = False, name: str | None = None) -> Any:
    """Number of singular values above the tolerance."""
    with name_scope(name or "matrix_rank"):
        a = convert_to_tensor(a, dtype_hint=tf.float32, name="a")
        values = svd(a, compute_uv=False)
        if tol is None:
            if not a.shape[-2:].is_fully_defined():
                raise NotImplementedError("tf.linalg.matrix_rank of matrices whose sizes are not known needs tol")
            most = max(a.shape[-2:].as_list())
            tol = _eps(a) * tf.cast(np.int64(most), a.dtype) * tf.reduce_max(values, axis=-1, keepdims=True)
        return tf.reduce_sum(tf.cast(values > tol, tf.int32), axis=-1)


def _eps(a: Tensor) -> Any:
    return np.finfo(a.dtype.as_numpy_dtype).eps


def lu_reconstruct(lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False, name: str | None = None) -> Any:
    """The matrix of an LU factorization."""
    with name_scope(name or "lu_reconstruct"):
        lower_upper = convert_to_tensor(lower_upper, dtype_hint=tf.float32, name="lower_upper")
        perm = convert_to_tensor(perm, dtype_hint=tf.int32, name="perm")
        if lower_upper.shape.rank != 2:
            raise NotImplementedError("tf.linalg.lu_reconstruct of batches is not there; take one matrix at a time")
        return _reconstructed(lower_upper, perm)


def _reconstructed(lower_upper: Tensor, perm: TensorLike) -> Any:
    shape = tf.shape(lower_upper)
    lower = tf.linalg.set_diag(
        tf.linalg.band_part(lower_upper, num_lower=-1, num_upper=0), tf.ones(shape[:-1], dtype=lower_upper.dtype)
    )
    upper = tf.linalg.band_part(lower_upper, num_lower=0, num_upper=-1)
    return tf.gather(tf.matmul(lower, upper), tf.invert_permutation(perm))


def lu_solve(
    lower_upper: TensorLike, perm: TensorLike, rhs: TensorLike, validate_args: bool = False, name: str | None = None
) -> Any:
    """Solve `A x = rhs` with the LU factorization of A."""
    with name_scope(name or "lu_solve"):
        lower_upper = convert_to_tensor(lower_upper, dtype_hint=tf.float32, name="lower_upper")
        perm = convert_to_tensor(perm, dtype_hint=tf.int32, name="perm")
        rhs = convert_to_tensor(rhs, dtype_hint=lower_upper.dtype, name="rhs")
        if rhs.shape.rank != 2 or perm.shape.rank != 1:
            raise NotImplementedError("tf.linalg.lu_solve of batches is not there; solve one matrix at a time")
        rows = tf.gather(rhs, perm, axis=-2)
        lower = tf.linalg.set_diag(
            gen("MatrixBandPart")(lower_upper, num_lower=-1, num_upper=0),
            tf.ones(tf.shape(lower_upper)[:-1], dtype=lower_upper.dtype),
        )
        return matrix_triangular_solve(lower_upper, matrix_triangular_solve(lower, rows), lower=False)


def pinv(a: TensorLike, rcond: TensorLike | None = None, validate_args: bool = False, name: str | None = None) -> Any:
    """The pseudo-inverse; singular values that are at most `rcond` times the largest count as 0."""
    with name_scope(name or "pinv"):
        a = convert_to_tensor(a, name="a")
        if not a.dtype.is_floating:
            raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {a.dtype.name}).")
        if rcond is None:
            rows, columns = a.shape.as_list()[-2:]
            if rows is None or columns is None:
                raise NotImplementedError("tf.linalg.pinv of matrices whose sizes are not known needs rcond")
            rcond = 10.0 * max(rows, columns) * _eps(a)
        limit = convert_to_tensor(rcond, dtype=a.dtype, name="rcond")
        values, left, right = svd(a, full_matrices=False, compute_uv=True)
        cutoff = limit * tf.reduce_max(values, axis=-1)
        kept = tf.where_v2(values > tf.expand_dims(cutoff, -1), values, np.array(np.inf, a.dtype.as_numpy_dtype))
        found = tf.matmul(right / tf.expand_dims(kept, -2), left, adjoint_b=True)
        if a.shape.rank is not None:
            found.set_shape(a.shape[:-2].concatenate([a.shape[-1], a.shape[-2]]))
        return found
