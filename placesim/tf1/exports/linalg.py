"""Matrices."""

from __future__ import annotations

ROWS = {
    "linalg": "trace linalg.trace norm linalg.norm tensordot linalg.tensordot einsum linalg.einsum linspace "
    "lin_space=linspace math.polyval",
}
