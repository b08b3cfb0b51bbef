"""Changes to existing ops that call functions: gradients need more outputs of the functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.ops.attributes import FunctionName, Shape
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.tensor import Operation, SymbolicTensor, Tensor, uid


def gradient_name(body: FunctionGraph) -> str:
    """A new name for the gradient function of a function."""
    return f"{body.name}_grad_{uid()}"


def redefine(op: Operation, attrs: Sequence[str], bodies: Sequence[FunctionGraph]) -> dict[str, Any]:
    """Add changed bodies to the library under new names; return the op's attrs that refer to them."""
    for body in bodies:
        body.name += "_rewritten"
    names = [FunctionName(add_function(op.graph, body)) for body in bodies]
    return {attrs[0]: tuple(names)} if len(attrs) == 1 else dict(zip(attrs, names, strict=True))


def extend_op(op: Operation, attrs: dict[str, Any], outputs: Sequence[Tensor], inputs: Sequence[Tensor] = ()) -> None:
    """Replace an op's attrs, and append inputs and outputs; `outputs` are the added outputs of its functions."""
    node = op.node
    builder = op.graph.builder
    node.attrs = builder.intern(op.type, {**node.attrs, **attrs})
    node.signature = builder.graph.signatures.signature(op.type, node.attrs)
    node.input_nodes = (*node.input_nodes, *(tensor.op.node.id for tensor in inputs))
    node.input_slots = (*node.input_slots, *(tensor.value_index for tensor in inputs))
    if inputs:
        op.graph._forget_consumers()
    op.graph.shapes.forget(node.id)
    for tensor in outputs:
        added = SymbolicTensor(op, len(op.outputs))
        op.outputs.append(added)
        uid()
        op.graph.shapes.hold(added.node_ref, tensor.graph.shapes.handle(tensor.node_ref))


def output_types_and_shapes(body: FunctionGraph) -> tuple[tuple[Any, ...], tuple[Shape, ...]]:
    """Types and shapes of a body's outputs."""
    return tuple(tensor.element for tensor in body.outputs), tuple(Shape(tensor.sizes) for tensor in body.outputs)
