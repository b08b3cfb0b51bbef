"""Gradients of variable reads, and static facts about resource handles."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen


def variable_shape(handle: Tensor, out_type: DTypeLike = "int32") -> Any:
    """Shape of a handle's variable, a Const if known."""
    known = handle.graph.shapes.handle(handle.node_ref)
    dims = None if known is None else known[1]
    if dims is not None and all(dim >= 0 for dim in dims):
        return constant(list(dims), dtype=out_type)
    return gen("VariableShape")(handle, out_type=out_type)


def held_type(handle: Any) -> str | None:
    """The name of the type of the variable behind a handle, if it is known."""
    known = handle.graph.shapes.handle(handle.node_ref)
    return None if known is None else known[0].name


GRADIENTS: dict[str, GradientFunction] = {
    "ReadVariableOp": lambda op, grad: grad,
}
