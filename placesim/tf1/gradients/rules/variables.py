"""Gradients of reads of variables; what is known of the tensor behind a resource handle."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen


def variable_shape(handle: Any, out_type: DTypeLike = "int32") -> Any:
    """The shape of the variable behind a handle: a Const where it is known."""
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
