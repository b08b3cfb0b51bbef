"""Ops that call functions, and the resources that functions only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.ops.op_arguments import graph_of

READING_OPS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "_ReadVariablesOp"))
"""Ops that do not modify their resource inputs."""


def call(graph: Graph, op: str, inputs: Sequence[Tensor], attrs: dict[str, Any], scope: str | None) -> Operation:
    """Make an op that calls functions.  A `scope` with a final slash is its exact name."""
    graph_of(inputs)
    full = graph.claim_name(op, scope)
    return graph.make(op, full, inputs, attrs)


def resources_only_read(bodies: Sequence[FunctionGraph]) -> list[int]:
    """Indices of the resource arguments that no body modifies."""
    return [
        i
        for i, tensor in enumerate(bodies[0].inputs)
        if tensor.dtype.name == "resource"
        and all(reads_only(op, body.inputs[i]) for body in bodies for op in body.consumers(body.inputs[i]))
    ]


def reads_only(op: Operation, resource: Tensor) -> bool:
    """Whether an op does not modify a resource that it reads."""
    if op.type in READING_OPS:
        return True
    read = op.node.attrs.get("_read_only_resource_inputs")
    return read is not None and all(i in read for i, tensor in enumerate(op.inputs) if tensor is resource)
