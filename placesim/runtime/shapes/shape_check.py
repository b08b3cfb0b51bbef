"""Check of the static shapes of a graph file, as TensorFlow's Python does it when it builds the graph.

Raw graphs and GraphDefs are not checked, because TensorFlow's runtime runs no shape functions over a GraphDef. It placed
thousands of recorded graphs that Python would have refused.
"""

from __future__ import annotations

from placesim.core.errors import GraphBuildError, GraphFileError, Location, Problem
from placesim.core.process.gc_pause import collector_paused
from placesim.graph.graph import Graph
from placesim.graph.session_steps import GraphFile
from placesim.runtime.shapes.graph_shapes import GraphShapes


def check_shapes(file: GraphFile) -> GraphShapes | None:
    """Return the static shapes of a file's graph, or None for a raw graph.

    Raises GraphFileError with all nodes whose shape functions refuse their inputs, including nodes that steps add. Bodies of
    functions are not checked, because TensorFlow runs no shape functions on a FunctionDef.
    """
    if file.is_raw:
        return None
    shapes = GraphShapes(_whole_graph(file))
    with collector_paused():
        refusals = shapes.refusals()
    if refusals:
        raise GraphFileError(tuple(_problem(error, file.graph.file) for error in refusals))
    return shapes


def _whole_graph(file: GraphFile) -> Graph:
    """Return the graph with all nodes that the steps will add."""
    added = [node for step in file.steps or () for node in step.nodes]
    if not added:
        return file.graph
    whole = file.graph.emptied()
    whole.nodes, whole.ids = list(file.graph.nodes), dict(file.graph.ids)
    whole.extend(added)
    return whole


def _problem(error: GraphBuildError, file: str) -> Problem:
    return Problem(error.location or Location(file, 0, 0), error.message, error.type_name)
