"""Gradients of variable reads, and static facts about resource handles."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def static_variable_shape(handle: Tensor) -> list[int] | None:
    """Shape of a handle's variable, None if it is not fully known."""
    known = handle.graph.shapes.handle(handle.node_ref)
    return None if known is None or known[1] is None or -1 in known[1] else list(known[1])


def variable_shape(handle: Tensor, out_type: DTypeLike = "int32") -> Any:
    """Shape tensor of a handle's variable, a constant if the shape is known."""
    known = static_variable_shape(handle)
    return gen("VariableShape")(handle, out_type=out_type) if known is None else constant(known, dtype=out_type)


def held_type(handle: Any) -> str | None:
    """Name of the type of a handle's variable, None if it is unknown."""
    known = handle.graph.shapes.handle(handle.node_ref)
    return None if known is None else known[0].name


def zeros_of(tensor: Tensor) -> Any:
    """Zeros with a tensor's shape and type; for a resource handle, with its variable's shape and type."""
    if tensor.dtype.base_dtype.name == "resource":
        return tf.zeros(variable_shape(tensor), held_type(tensor))
    return tf.zeros_like(tensor)


GRADIENTS: dict[str, GradientFunction] = {"ReadVariableOp": lambda op, grad: grad}
