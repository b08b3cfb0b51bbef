"""The graph of a graph file as `tf.Graph`, for the entries that expand to what calls of TensorFlow's Python make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placesim.core.errors import GraphBuildError, PlacesimError
from placesim.graph import argument_binding
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.runtime.shapes.graph_shapes import GraphShapes
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.variables.reference import RefVariable
from placesim.tf1.variables.resource import HandledVariable, ResourceVariable
from placesim.tf1.variables.variable import Variable, VariableDef

REFUSALS = (ValueError, TypeError, LookupError, RuntimeError)
"""Errors of TensorFlow's Python for a refused call; a NotImplementedError is a RuntimeError."""


class CallRefusal(GraphBuildError):
    """Error raised by a call of TensorFlow's Python, under its own name."""

    def __init__(self, error: Exception) -> None:
        message = error.message if isinstance(error, PlacesimError) else str(error.args[0] if error.args else error)
        super().__init__(message)
        self._type_name = error.type_name if isinstance(error, PlacesimError) else type(error).__name__

    @property
    def type_name(self) -> str:
        return self._type_name


class FileGraph(Graph):
    """A view of a builder that others add nodes to as well, between one `building` and the next."""

    def __init__(self, builder: ScopedGraphBuilder) -> None:
        self.building_function = builder.is_of_function
        super().__init__()
        self.builder = builder
        self.shapes = GraphShapes(builder.graph)
        self._position = 0
        self._variables: dict[int, Variable] = {}

    def location(self) -> int:
        """Packed position of the entry being built."""
        return self._position

    @contextmanager
    def building(self, position: int) -> Iterator[None]:
        """The default graph, whose new nodes stand at `position`.

        Raises CallRefusal for what TensorFlow's Python raises inside.
        """
        self._position = position
        saved = self.builder.on_node
        try:
            with self.as_default():
                self._catch_up()
                self.builder.on_node = self._take_up
                try:
                    yield
                except REFUSALS as error:
                    raise CallRefusal(error) from None
                self._tell_variables()
        finally:
            self.builder.on_node = saved

    def _catch_up(self) -> None:
        """See the nodes and variables as they are now: a step's own are taken off again once it has been read."""
        nodes, operations = self.builder.graph.nodes, self._operations
        while operations and (len(operations) > len(nodes) or nodes[len(operations) - 1] is not operations[-1].node):
            self.shapes.forget(operations.pop().node.id)
        operations += [Operation(self, node) for node in nodes[len(operations) :]]
        self._forget_consumers()
        known = self.builder.variables
        kept = {node: variable for node, variable in self._variables.items() if node in known}
        self._variables = {node: kept[node] if node in kept else self._found(known[node]) for node in known}
        for key, members in _collections(self._variables.values()).items():
            self.get_collection_ref(key)[:] = members

    def _found(self, variable: argument_binding.VariableNodes) -> Variable:
        """A variable that an entry of the file made."""
        nodes = self.builder.graph.nodes
        reader = nodes[variable.initializer]
        definition = VariableDef(
            f"{nodes[variable.node].name}:0",
            nodes[variable.initializer].name,
            f"{nodes[variable.value].name}:0",
            f"{nodes[reader.input_nodes[1]].name}:{reader.input_slots[1]}",
            variable.kind == "resource",
            variable.trainable,
        )
        return (ResourceVariable if variable.kind == "resource" else RefVariable)(variable_def=definition)

    def _tell_variables(self) -> None:
        """Have the file know the variables that were made inside: entries below may name and initialize them."""
        for variable in self.get_collection("variables"):
            node = variable.op.node
            if node.id not in self.builder.variables:
                kind = "resource" if isinstance(variable, HandledVariable) else "ref"
                read, start = variable._snapshot.op.node.id, variable.initializer.node.id
                made = argument_binding.VariableNodes(node.id, read, start, kind, node.attrs["dtype"], bool(variable.trainable))
                self.builder.variables[node.id] = made
                self._variables[node.id] = variable

    # --- what entries name ----------------------------------------------------------------------------------------------

    def tensor(self, ref: TensorRef) -> Tensor:
        """The view of a tensor of the file."""
        return self._operations[ref.node].outputs[ref.slot]

    def variable(self, node: int) -> Variable:
        """The view of a variable of the file, by its node."""
        return self._variables[node]


class BodyView:
    """A body of a conditional or loop of a file, for the same entries in it."""

    def __init__(self, body: FunctionGraph) -> None:
        self.body = body
        self.builder = body.builder

    @contextmanager
    def building(self, position: int) -> Iterator[None]:
        """New nodes stand at `position`; the body is the default graph already.

        Raises CallRefusal for what TensorFlow's Python raises inside.
        """
        self.body.location = lambda: position  # type: ignore[method-assign]
        try:
            yield
        except REFUSALS as error:
            if isinstance(error, GraphBuildError):
                raise
            raise CallRefusal(error) from None

    def tensor(self, ref: TensorRef) -> Tensor:
        """The view of a tensor of the body."""
        return self.body.operation(ref.node).outputs[ref.slot]


def file_graph(builder: ScopedGraphBuilder) -> FileGraph:
    """The view of a file's own builder, which keeps an op's functions for its gradient."""
    if builder.view is None:
        builder.view = FileGraph(builder)
    return builder.view  # type: ignore[no-any-return]


def _collections(variables: Any) -> dict[str, list[Variable]]:
    found = list(variables)
    return {"variables": found, "trainable_variables": [variable for variable in found if variable.trainable]}
