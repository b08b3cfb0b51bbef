"""A graph file -> the static shapes of its graph, or what TensorFlow's Python would have refused while it built it.

Only files that are written as Python builds a graph are checked.  The nodes of a raw graph or a GraphDef are taken as they
stand: TensorFlow's runtime runs no shape functions over a GraphDef, and placed thousands of the recorded graphs that Python
would have refused.
"""

from __future__ import annotations

from placesim.core.errors import GraphBuildError, GraphFileError, Location, Problem
from placesim.core.process.gc_pause import collector_paused
from placesim.graph.graph import Graph
from placesim.graph.session_steps import GraphFile
from placesim.runtime.shapes.graph_shapes import GraphShapes


def check_shapes(file: GraphFile) -> GraphShapes | None:
    """The static shapes of a file's graph, None of a raw one.

    Raises GraphFileError with every node whose shape function refuses its inputs, those that steps add among them; a function's
    body is a FunctionDef, which no shape function has seen.
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
    """The graph with all that the steps will add to it."""
    added = [node for step in file.steps or () for node in step.nodes]
    if not added:
        return file.graph
    whole = file.graph.emptied()
    whole.nodes, whole.ids = list(file.graph.nodes), dict(file.graph.ids)
    whole.extend(added)
    return whole


def _problem(error: GraphBuildError, file: str) -> Problem:
    return Problem(error.location or Location(file, 0, 0), error.message, error.type_name)
