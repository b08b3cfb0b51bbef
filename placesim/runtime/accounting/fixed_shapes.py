"""Whether every run of a step asks for the same memory."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.runtime.executor import Executor
from placesim.runtime.graph_shapes import GraphShapes
from placesim.runtime.prepared import Prepared
from placesim.runtime.shapes import Dims, is_fully_defined


def has_fixed_shapes(prepared: Prepared, arguments: Sequence[Dims]) -> bool:
    """Whether all shapes of a step follow from those of its arguments, and each of its nodes runs once and calls nothing."""
    if not isinstance(prepared.executor, Executor) or prepared.executor.calls_functions:
        return False
    shapes = GraphShapes(prepared.step.client.graph, arguments)
    return all(is_fully_defined(dims) for node in shapes.graph.nodes for dims in shapes.outputs(node.id))
