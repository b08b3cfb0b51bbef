"""Linear algebra."""

ROWS = {
    "linear_algebra.products": "trace linalg.trace norm linalg.norm tensordot linalg.tensordot einsum linalg.einsum linspace "
    "lin_space=linspace math.polyval",
    "linear_algebra.factorizations": (
        "linalg.adjoint linalg.triangular_solve=matrix_triangular_solve matrix_triangular_solve "
        "linalg.cholesky_solve cholesky_solve linalg.eigh=self_adjoint_eig self_adjoint_eig "
        "linalg.eigvalsh=self_adjoint_eigvals self_adjoint_eigvals linalg.svd svd linalg.logdet "
        "matrix_solve_ls linalg.lstsq=matrix_solve_ls linalg.normalize linalg.matrix_rank "
        "linalg.lu_reconstruct linalg.lu_solve linalg.pinv"
    ),
    "linear_algebra.linear_operators": "linalg.LinearOperator",
    "linear_algebra.operator_kinds": (
        "linalg.LinearOperatorFullMatrix linalg.LinearOperatorLowerTriangular linalg.LinearOperatorDiag "
        "linalg.LinearOperatorIdentity linalg.LinearOperatorScaledIdentity"
    ),
    "linear_algebra.exponentials": "linalg.expm",
    "linear_algebra.tridiagonal": "linalg.tridiagonal_solve linalg.tridiagonal_matmul",
}
