"""What is known of a tensor's value while the graph is built: `tf.get_static_value` (`constant_value`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.shapes import TensorShape
from placesim.tf1.tensor import Tensor

_FOLDED = frozenset(
    {
        *("Shape", "Size", "Rank", "Range", "Fill", "Const", "Cast", "Equal", "NotEqual", "BroadcastTo", "CheckNumerics"),
        *("Concat", "ConcatV2", "ConcatOffset", "Pack", "Unpack", "Split", "StopGradient"),
    }
)
"""Ops that `constant_value` sees through."""


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor where it follows from constants and static shapes, None where not.

    With `partial` a packed vector some of whose elements are unknown has None for them.
    """
    if not isinstance(tensor, Tensor):
        return tensor if isinstance(tensor, np.ndarray | np.generic) else None
    found = _folded(tensor, partial)
    if found is not None:
        tensor.graph.prevent_feeding(tensor)
    return found


def _folded(tensor: Tensor, partial: bool = False) -> Any:
    node = tensor.op.node
    op = node.op
    if op == "Const":
        return node.attrs["value"].array
    if op not in _FOLDED:
        return None
    inputs = tensor.op.inputs
    if op in ("Shape", "Size", "Rank"):
        return _measured(op, inputs[0].shape, tensor.dtype.as_numpy_dtype)
    if op == "StopGradient":
        return _folded(inputs[0])
    if op == "Pack" and partial:
        return _stacked([_folded(item, partial) for item in inputs])
    if op == "Fill":
        return _filled(tensor)
    values = [_folded(item) for item in inputs]
    if any(value is None for value in values):
        return None
    if op in ("CheckNumerics",):
        return values[0]
    return _computed(tensor, values)


def _stacked(parts: list[Any]) -> Any:
    if any(part is None or part.dtype == object for part in parts):
        rows: list[Any] = [None if part is None else part.tolist() for part in parts]
        return np.array(rows, dtype=object) if len({np.shape(row) for row in rows}) == 1 else _list_of(rows)
    return np.array(parts)


def _list_of(rows: list[Any]) -> Any:
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found


def _filled(tensor: Tensor) -> Any:
    value = tensor.op.inputs[1]
    shape, found = tensor.shape, _folded(value)
    return np.full(shape.as_list(), found, dtype=found.dtype) if shape.is_fully_defined() and found is not None else None


def _measured(op: str, shape: TensorShape, dtype: Any) -> Any:
    if op == "Rank":
        return None if shape.rank is None else np.array(shape.rank, dtype=np.int32)
    if not shape.is_fully_defined():
        return None
    return (
        np.array(shape.as_list(), dtype=dtype)
        if op == "Shape"
        else np.prod(np.array(shape.as_list(), np.int32), dtype=np.int32)
    )


def _computed(tensor: Tensor, values: list[Any]) -> Any:
    from placesim.errors import PlacesimError
    from placesim.runtime.kernels import load_kernels

    attrs = tensor.graph.builder.graph.full_attrs(tensor.op.node)
    try:
        outputs = load_kernels()[tensor.op.type].compute(tuple(map(np.asarray, values)), attrs)
    except (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return np.asarray(outputs[tensor.value_index])


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """The shape that a vector spells, as far as it is known."""
    graph_shapes = tensor.graph.shapes
    value = constant_value(tensor)
    if value is not None:
        return TensorShape([None if dim == -1 else int(dim) for dim in value])
    graph_shapes.outputs(tensor.op.node.id)
    found = graph_shapes.value(tensor.node_ref)
    if found is None:
        sizes = tensor.sizes
        return TensorShape(None if sizes is None or not sizes or sizes[0] < 0 else [None] * sizes[0])
    return TensorShape([None if dim < 0 else int(dim) for dim in found])
