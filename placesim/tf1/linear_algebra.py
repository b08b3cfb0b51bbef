"""Factorisations and solutions of matrices, as `tf.linalg` has them beside the ops' own functions."""

from __future__ import annotations

from typing import Any

from placesim.tf1.conversion import convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.namespaces import namespace
from placesim.tf1.scopes import name_scope

tf: Any = namespace("")


def adjoint(matrix: Any, name: str | None = None) -> Any:
    """The transposed conjugate of the last two dimensions."""
    with name_scope(name, "adjoint", [matrix]):
        return tf.matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)


def matrix_triangular_solve(matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None) -> Any:
    """x of matrix x = rhs for a triangular matrix."""
    with name_scope(name, "triangular_solve", [matrix, rhs]):
        return gen("MatrixTriangularSolve")(matrix, rhs, lower=lower, adjoint=adjoint)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Any:
    """x of A x = rhs, by A's Cholesky factor."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        y = gen("MatrixTriangularSolve")(chol, rhs, adjoint=False, lower=True)
        return gen("MatrixTriangularSolve")(chol, y, adjoint=True, lower=True)


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    values, vectors = gen("SelfAdjointEigV2")(tensor, compute_v=True, name=name)
    return values, vectors


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues of symmetric matrices."""
    return gen("SelfAdjointEigV2")(tensor, compute_v=False, name=name)[0]


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values, and with `compute_uv` the vectors."""
    values, left, right = gen("Svd")(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    return (values, left, right) if compute_uv else values


def logdet(matrix: Any, name: str | None = None) -> Any:
    """The logarithm of a positive definite matrix's determinant."""
    with name_scope(name, "logdet", [matrix]):
        factor = gen("Cholesky")(matrix)
        return 2.0 * tf.reduce_sum(tf.log(tf.real(tf.matrix_diag_part(factor))), axis=[-1])


def matrix_solve_ls(matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None) -> Any:
    """The x with the least `|matrix x - rhs|`; `fast`: by the normal equations' Cholesky factor."""
    if not fast:
        matrix = convert_to_tensor(matrix, name="matrix")
        return gen("MatrixSolveLs")(matrix, rhs, l2_regularizer, fast=fast, name=name)
    with name_scope(name, "matrix_solve_ls", [matrix, rhs, l2_regularizer]):
        sizes = matrix.shape[-2:]
        if sizes.is_fully_defined():
            return (_overdetermined if sizes[-2] >= sizes[-1] else _underdetermined)(matrix, rhs, l2_regularizer)
        sizes = tf.shape(matrix)[-2:]
        is_tall = sizes[-2] >= sizes[-1]
        return tf.cond(
            is_tall,
            lambda: _overdetermined(matrix, rhs, l2_regularizer),
            lambda: _underdetermined(matrix, rhs, l2_regularizer),
        )


def _factor(matrix: Any, l2_regularizer: Any, is_first: bool) -> Any:
    """The Cholesky factor of the matrix's product with itself, made regular."""
    product = tf.matmul(matrix, matrix, adjoint_a=is_first, adjoint_b=not is_first)
    if l2_regularizer != 0:
        sizes = tf.shape(matrix)
        batch = sizes[:-2]
        identity = tf.eye(sizes[-1 if is_first else -2], batch_shape=batch, dtype=matrix.dtype)
        product += l2_regularizer * identity
    return gen("Cholesky")(product)


def _overdetermined(matrix: Any, rhs: Any, l2_regularizer: Any) -> Any:
    factor = _factor(matrix, l2_regularizer, True)
    return cholesky_solve(factor, tf.matmul(matrix, rhs, adjoint_a=True))


def _underdetermined(matrix: Any, rhs: Any, l2_regularizer: Any) -> Any:
    factor = _factor(matrix, l2_regularizer, False)
    return tf.matmul(matrix, cholesky_solve(factor, rhs), adjoint_a=True)
