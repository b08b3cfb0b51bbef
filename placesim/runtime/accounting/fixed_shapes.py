"""Check whether all runs of a step need the same memory."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.ops.attributes import names_functions
from placesim.ops.kernels.shapes import Dims, is_fully_defined
from placesim.runtime.executors.program import Program, needs_dataflow
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.shapes.graph_shapes import GraphShapes


def has_fixed_shapes(step: PreparedStep, programs: Sequence[Program], arguments: Sequence[Dims]) -> bool:
    """Whether the argument shapes determine all shapes of a step, and each node runs once and calls no function."""
    calls = any(names_functions(instruction.attrs) for program in programs for instruction in program.instructions)
    if calls or needs_dataflow(programs):
        return False
    shapes = GraphShapes(step.client.graph, arguments)
    return all(is_fully_defined(dims) for node in shapes.graph.nodes for dims in shapes.outputs(node.id))
