"""Arithmetic, reductions, arrays and random numbers."""

from __future__ import annotations

ROWS = {
    "math": "add math.add cast dtypes.cast",
}
