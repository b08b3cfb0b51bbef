"""The value of an ONNX name while a graph is read: a tensor of the built graph, with known facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placesim.graph.graph import TensorRef

Dims = tuple[int | None, ...]
"""Sizes of dimensions; None for an unknown one."""


@dataclass(slots=True)
class Value:
    """A value of an ONNX graph.

    `ref` is its tensor; None for a sequence or optional that only has `items`. `type` is ONNX's TypeProto, as far as it could
    be inferred. `known` has the elements that are known before execution; if only some are known, it is an array of objects,
    with None for the others. `items` are the members of a sequence of known length, or the content of an optional.
    """

    ref: TensorRef | None
    type: Any = None
    known: np.ndarray[Any, Any] | None = None
    items: tuple[Value, ...] | None = None

    @property
    def shape(self) -> Dims | None:
        """Return the known shape; None for an unknown rank."""
        if self.known is not None:
            return tuple(self.known.shape)
        return dims_of(self.type)

    @property
    def content(self) -> np.ndarray[Any, Any] | None:
        """Return the elements if all are known, else None."""
        known = self.known
        return None if known is None or (known.dtype == object and any(item is None for item in known.flat)) else known


def tensor_type(number: int, dims: Sequence[int | None] | None) -> Any:
    """Return the TypeProto of a tensor with this ONNX element type and shape."""
    from onnx import helper

    return helper.make_tensor_type_proto(number, dims)


def dims_of(type_proto: Any) -> Dims | None:
    """Return the shape in a tensor's TypeProto; None if it has none."""
    if type_proto is None or not type_proto.HasField("tensor_type") or not type_proto.tensor_type.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in type_proto.tensor_type.shape.dim)
