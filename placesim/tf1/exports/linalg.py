"""Matrices."""

from __future__ import annotations

ROWS = {
    "linalg": "trace linalg.trace norm linalg.norm tensordot linalg.tensordot einsum linalg.einsum linspace "
    "lin_space=linspace math.polyval linalg.adjoint linalg.triangular_solve=matrix_triangular_solve "
    "matrix_triangular_solve cholesky_solve linalg.cholesky_solve self_adjoint_eig linalg.eigh=self_adjoint_eig "
    "self_adjoint_eigvals linalg.eigvalsh=self_adjoint_eigvals svd linalg.svd",
}
