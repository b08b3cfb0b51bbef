"""Ops that call functions, and static facts about the functions."""

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
    """An op that calls functions, named exactly as `scope` where that ends in a slash."""
    graph_of(inputs)
    full = graph.claim_name(op, scope)
    return graph.make(op, full, inputs, attrs)


def resources_only_read(bodies: Sequence[FunctionGraph]) -> list[int]:
    """Numbers of the resource arguments that none of the bodies modifies."""
    return [
        i
        for i, tensor in enumerate(bodies[0].inputs)
        if tensor.dtype.name == "resource" and all(_is_only_read(body, body.inputs[i]) for body in bodies)
    ]


def _is_only_read(body: FunctionGraph, resource: Tensor) -> bool:
    return all(reads_only(op, resource) for op in body.consumers(resource))


def reads_only(op: Operation, resource: Tensor) -> bool:
    """Whether an op changes nothing of a resource among its inputs."""
    if op.type in READING_OPS:
        return True
    read = op.node.attrs.get("_read_only_resource_inputs")
    return read is not None and all(i in read for i, tensor in enumerate(op.inputs) if tensor is resource)
