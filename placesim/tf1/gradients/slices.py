"""Tensor conversions for gradient functions: dense gradients, and values computed from constants."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.sparse.values import IndexedSlices


def dense(grad: Tensor) -> Any:
    """The gradient as one tensor: rows that were read are summed into the table that they were read from."""
    return convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad


def evaluated(tensor: Any) -> Any:
    """Value of a tensor known to shape inference, else None; more tensors than `constant_value` knows."""
    found = constant_value(tensor)
    if found is not None:
        return found
    tensor.graph.shapes.outputs(tensor.op.node.id)
    value = tensor.graph.shapes.value(tensor.node_ref)
    return None if value is None or (value == -1).any() else value
