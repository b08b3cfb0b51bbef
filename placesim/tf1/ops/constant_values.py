"""Values of tensors that are known while the graph is built: `tf.get_static_value`, once `constant_value`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import ShapeLike
from placesim.tf1.types.shapes import TensorShape

_FOLDED = frozenset(
    {
        *("Shape", "Size", "Rank", "Range", "Fill", "Const", "Cast", "Equal", "NotEqual", "BroadcastTo"),
        *("Concat", "ConcatV2", "ConcatOffset", "Pack", "Unpack", "Split", "StopGradient", "Identity"),
    }
)
"""Ops whose outputs `constant_value` computes."""


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """Value of a tensor if constants and static shapes determine it, else None.  A number or array is returned as it is.

    With `partial`, a Pack with unknown elements gives an array that contains None for them.
    """
    if not isinstance(tensor, Tensor):
        is_computed = hasattr(tensor, "_as_graph_element") or hasattr(tensor, "dense_shape")
        return None if is_computed else tensor
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
    if op in ("StopGradient", "Identity"):
        return _folded(inputs[0])
    if op == "Pack" and partial:
        return _stacked([_folded(item, partial) for item in inputs])
    if op == "Fill":
        return _filled(tensor)
    values = [_folded(item) for item in inputs]
    if any(value is None for value in values):
        return None
    return _computed(tensor, values)


def _stacked(parts: list[Any]) -> Any:
    if all(part is not None for part in parts):
        return np.array(parts)
    found = np.empty(len(parts), dtype=object)
    found[:] = parts
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
    sizes = shape.as_list()
    return np.array(sizes, dtype=dtype) if op == "Shape" else np.prod(np.array(sizes, np.int32), dtype=np.int32)


def _computed(tensor: Tensor, values: list[Any]) -> Any:
    from placesim.core.errors import PlacesimError
    from placesim.ops.kernels import load_kernels

    attrs = tensor.graph.builder.graph.kernel_attrs(tensor.op.node)
    try:
        outputs = load_kernels()[tensor.op.type].compute(tuple(map(np.asarray, values)), attrs)
    except (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return np.asarray(outputs[tensor.value_index])


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """The shape whose sizes are a vector's elements, as far as known.  Raises ValueError for a scalar other than -1."""
    value = constant_value(tensor)
    if tensor.shape.rank == 0:
        if value != -1:
            received = "with unknown value" if value is None else f"value '{value}'"
            wanted = "require a statically known scalar with value '-1' to describe an unknown shape"
            raise ValueError(f"Received a scalar {received} as shape; {wanted}.")
        return TensorShape(None)
    if value is not None:
        return TensorShape([None if dim == -1 else int(dim) for dim in value])
    find = _SHAPE_OF.get(tensor.op.type)
    return (None if find is None else find(tensor)) or _unknown(tensor)


def _unknown(tensor: Tensor) -> TensorShape:
    sizes = tensor.sizes
    return TensorShape(None if sizes is None or not sizes or sizes[0] < 0 else [None] * sizes[0])


def _shape_of_cast(tensor: Tensor) -> TensorShape | None:
    return constant_value_as_shape(tensor.op.inputs[0]) if tensor.dtype.name in ("int32", "int64") else None


def _shape_of_pack(tensor: Tensor) -> TensorShape | None:
    values = [constant_value(item) for item in tensor.op.inputs]
    return TensorShape([None if value is None or value < 0 else int(value) for value in values])


def _shape_of_concat(tensor: Tensor) -> TensorShape | None:
    found = TensorShape([])
    for part in tensor.op.inputs[:-1]:
        found = found.concatenate(constant_value_as_shape(part))
    return found


def _shape_of_slice(tensor: Tensor) -> TensorShape | None:
    """Shape that is a strided slice of another; None for masks other than `begin_mask` and `end_mask`, or if unknown."""
    of, *bounds = tensor.op.inputs
    begin, end, step = (constant_value(bound) for bound in bounds)
    attrs = tensor.graph.builder.graph.full_attrs(tensor.op.node)
    if begin is None or end is None or step is None:
        return None
    if attrs["ellipsis_mask"] or attrs["new_axis_mask"] or attrs["shrink_axis_mask"]:
        return None
    whole = constant_value_as_shape(of)
    if whole.rank is None:
        return None
    start = None if attrs["begin_mask"] == 1 else int(begin[0])
    stop = None if attrs["end_mask"] == 1 else int(end[0])
    return TensorShape(whole.as_list()[start : stop : int(step[0])])


_SHAPE_OF: dict[str, Callable[[Tensor], TensorShape | None]] = {
    "Cast": _shape_of_cast,
    "Shape": lambda tensor: tensor.op.inputs[0].shape,
    "Pack": _shape_of_pack,
    "ConcatV2": _shape_of_concat,
    "StridedSlice": _shape_of_slice,
}
"""Ops whose output may be a partly known shape."""


def set_static_shape(tensor: Tensor, shape: Any) -> None:
    """Set a tensor's static shape to the argument `shape` with which it was made."""
    if tensor.shape.is_fully_defined():
        return
    shape = shape if isinstance(shape, Tensor) else convert_shape(shape)
    if shape is not None:
        tensor.set_shape(shape if isinstance(shape, TensorShape) else constant_value_as_shape(shape))


def convert_shape(shape: ShapeLike) -> TensorShape | None:
    """Static shape of a list of sizes, in which tensors are unknown sizes; None for other values."""
    if isinstance(shape, TensorShape):
        return shape
    if not isinstance(shape, list | tuple):
        return None
    return TensorShape([None if isinstance(dim, Tensor) or dim == -1 else dim for dim in shape])
