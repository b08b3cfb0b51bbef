"""Matrices."""

ROWS = {
    "linear_algebra.products": "trace linalg.trace norm linalg.norm tensordot linalg.tensordot einsum linalg.einsum linspace "
    "lin_space=linspace math.polyval",
}
