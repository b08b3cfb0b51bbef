"""Tensor conversions for gradient functions: dense gradients, indices of one type, values known from constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


def dense(grad: Any) -> Any:
    """The gradient as a tensor: IndexedSlices are summed into a tensor of the table's shape."""
    return convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad


def with_one_type(indices: Sequence[Tensor]) -> Sequence[Tensor]:
    """The indices, all as int64 if some are int32 and others int64."""
    if not {"int32", "int64"} <= {index.dtype.name for index in indices}:
        return indices
    return [tf.cast(index, "int64") if index.dtype.name == "int32" else index for index in indices]


def evaluated(tensor: Any) -> Any:
    """Value of a tensor if shape inference knows it, else None.  It knows more values than `constant_value`."""
    found = constant_value(tensor)
    if found is not None:
        return found
    tensor.graph.shapes.outputs(tensor.op.node.id)
    value = tensor.graph.shapes.value(tensor.node_ref)
    return None if value is None or (value == -1).any() else value
