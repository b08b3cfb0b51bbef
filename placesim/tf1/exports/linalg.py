"""Matrices."""

from __future__ import annotations

ROWS = {
    "linear_algebra.products": "trace linalg.trace norm linalg.norm tensordot linalg.tensordot einsum linalg.einsum linspace "
    "lin_space=linspace math.polyval",
}
