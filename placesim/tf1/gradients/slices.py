"""Gradients that are IndexedSlices, made dense where an op's gradient needs all of the elements."""

from __future__ import annotations

from typing import Any

from placesim.tf1.conversion import convert_to_tensor
from placesim.tf1.sparse_values import IndexedSlices


def dense(grad: Any) -> Any:
    """The gradient as one tensor: rows that were read are summed into the table that they were read from."""
    return convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad
