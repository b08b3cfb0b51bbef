"""Computation of ops while the graph is read, if all inputs are known: sizes, coordinates, sample weights.

Known values are numpy arrays; other values are tensors of the graph. `ConstantFolder` accepts both, and returns an array if
possible. Results have the operands' types, without promotion, as in TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, DataType
from placesim.formats.onnx.onnx_node import OnnxNode, Tensor, UnsupportedNodeError, check_range

Known = np.ndarray[Any, Any]
Value = Known | Tensor

_COMPUTED: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "AddV2": np.add,
    "Ceil": np.ceil,
    "Equal": np.equal,
    "Floor": np.floor,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "GatherV2": lambda values, indices, axis: np.take(values, indices, int(axis)),
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "Max": lambda values, axis: np.max(values, axis=int(axis)),
    "Maximum": np.maximum,
    "Min": lambda values, axis: np.min(values, axis=int(axis)),
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Prod": lambda values, axis: np.prod(values, axis=int(axis), dtype=values.dtype),
    "Range": lambda start, end, step: np.arange(start, end, step, dtype=start.dtype),
    "RealDiv": np.divide,
    "Reshape": np.reshape,
    "Rint": np.rint,
    "SelectV2": np.where,
    "Sub": np.subtract,
    "Sum": lambda values, axis: np.sum(values, axis=int(axis), dtype=values.dtype),
}


def int32(value: Any) -> Known:
    """Return known numbers as int32, the type of TensorFlow's sizes. Raises UnsupportedNodeError for a larger number."""
    try:
        return np.array(value, np.int32)
    except OverflowError:
        raise UnsupportedNodeError(f"number too large: got {value}, expected a 32-bit number") from None


def float32(value: Any) -> Known:
    """Return known numbers as float32, the type of coordinates."""
    return np.array(value, np.float32)


MOST_KNOWN = 1 << 20
"""Maximum number of elements of a folded constant, chosen for placesim; larger ones are computed at run time."""


def _size(op: str, inputs: Sequence[Any]) -> int:
    """Return the number of elements of an op's result, or of its largest input."""
    if op == "Range":
        start, end, step = (item.item() for item in inputs)
        return int(max((end - start) // step, 0)) if step else 0
    try:
        return math.prod(np.broadcast_shapes(*(item.shape for item in inputs)))
    except ValueError:
        return int(max(item.size for item in inputs))


class ConstantFolder:
    """A function that computes an op of the current node if all inputs are arrays, else adds it to the graph."""

    def __init__(self, node: OnnxNode) -> None:
        self.node = node

    def __call__(self, op: str, *inputs: Value) -> Value:
        """Return the output of an op with these inputs."""
        if all(isinstance(given, np.ndarray) for given in inputs):
            if _size(op, inputs) <= MOST_KNOWN:
                with np.errstate(all="ignore"):
                    return np.asarray(_COMPUTED[op](*inputs))
            # constants keep their types, which no other input determines
            inputs = tuple(self.node.constant(given) for given in inputs)
        return self.node.emit(op, *inputs)

    def value(self, tensor: Tensor) -> Value:
        """Return a tensor's elements if known, else the tensor."""
        content = self.node.content(tensor)
        return tensor if content is None else np.asarray(content)

    def shape(self, value: Value) -> Value:
        """Return a shape as an int32 vector."""
        return np.array(value.shape, np.int32) if isinstance(value, np.ndarray) else self.node.emit("Shape", value)

    def cast(self, value: Value, dtype: DataType) -> Value:
        """Return the value in another type. Raises UnsupportedNodeError for known integers that are too large for it."""
        if not isinstance(value, np.ndarray):
            return self.node.cast(value, dtype)
        check_range(value, dtype)
        return value.astype(dtype.numpy)

    def narrow(self, value: Value, what: str) -> Value:
        """Return an integer scalar or vector as `int32`. Numbers that are too large are an error; `what` names them."""
        return self.cast(value, INT32) if isinstance(value, np.ndarray) else self.node.narrow(value, what)

    def clamped(self, indices: Value, size: Value) -> Value:
        """Return int32 indices, limited to the range of valid indices of an axis of this size."""
        return self("Minimum", self("Maximum", indices, int32(0)), self("Sub", size, int32(1)))

    def inside(self, indices: Value, size: Value) -> Value:
        """Return whether each int32 index is valid for an axis of this size."""
        return self("LogicalAnd", self("GreaterEqual", indices, int32(0)), self("Less", indices, size))

    def pack(self, values: Sequence[Value], axis: int = 0) -> Value:
        """Return values of one shape and type, stacked along a new axis (`Pack`)."""
        if all(isinstance(value, np.ndarray) for value in values):
            return np.stack([np.asarray(value) for value in values], axis)
        return self.node.emit("Pack", list(values), axis=axis)

    def concat(self, values: Sequence[Value], axis: int = 0) -> Value:
        """Return values of one type, concatenated along an axis (`ConcatV2`)."""
        if all(isinstance(value, np.ndarray) for value in values):
            return np.concatenate([np.asarray(value) for value in values], axis)
        return self.node.emit("ConcatV2", list(values), np.int32(axis)) if len(values) > 1 else values[0]

    def sizes(self, tensor: Tensor) -> list[Value]:
        """Return the size of each axis as an int32 scalar. Raises UnsupportedNodeError for an unknown rank."""
        self.node.known_rank(tensor)
        shape: Tensor | None = None
        found: list[Value] = []
        for axis, dim in enumerate(self.node.shape(tensor) or ()):
            if dim is not None:
                found.append(np.array(dim, np.int32))
                continue
            shape = self.node.emit("Shape", tensor) if shape is None else shape
            found.append(self.node.emit("GatherV2", shape, np.int32(axis), np.int32(0)))
        return found
