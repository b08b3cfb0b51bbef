"""The graph of a graph file as `tf.Graph`, for entries that expand to the nodes of calls of TensorFlow's Python."""

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
    """An error of TensorFlow's Python, with its message and the name of its type."""

    def __init__(self, error: Exception) -> None:
        message = error.message if isinstance(error, PlacesimError) else str(error.args[0] if error.args else error)
        super().__init__(message)
        self._type_name = error.type_name if isinstance(error, PlacesimError) else type(error).__name__

    @property
    def type_name(self) -> str:
        return self._type_name


class FileGraph(Graph):
    """`tf.Graph` of a file's builder.  Outside of `building`, other code adds nodes to the builder too."""

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
        """Make this the default graph, and `position` the place of new nodes.

        Raises GraphBuildError, with its location, for an earlier node whose shapes are wrong, and CallRefusal for
        TensorFlow's errors.
        """
        self._position = position
        saved = self.builder.on_node
        try:
            with self.as_default():
                self._catch_up()
                if refused := self.shapes.refusals():
                    raise refused[0]
                self.builder.on_node = self._take_up
                try:
                    yield
                except REFUSALS as error:
                    raise CallRefusal(error) from None
                self._register_variables()
        finally:
            self.builder.on_node = saved

    def _catch_up(self) -> None:
        """Take over the builder's nodes and variables, without removed ones (a step's nodes are removed after it is read)."""
        nodes, operations = self.builder.graph.nodes, self._operations
        while operations and (len(operations) > len(nodes) or nodes[len(operations) - 1] is not operations[-1].node):
            self.shapes.forget(operations.pop().node.id)
        operations += [Operation(self, node) for node in nodes[len(operations) :]]
        self._forget_consumers()
        known = self.builder.variables
        kept = {node: variable for node, variable in self._variables.items() if node in known}
        self._variables = {node: kept[node] if node in kept else self._made(known[node]) for node in known}
        for key, members in _collections(self._variables.values()).items():
            self.get_collection_ref(key)[:] = members

    def _made(self, variable: argument_binding.VariableNodes) -> Variable:
        """The `tf.Variable` of a variable that an entry of the file made."""
        nodes = self.builder.graph.nodes
        reader = nodes[variable.initializer]
        definition = VariableDef(
            f"{nodes[variable.node].name}:0",
            reader.name,
            f"{nodes[variable.value].name}:0",
            f"{nodes[reader.input_nodes[1]].name}:{reader.input_slots[1]}",
            variable.kind == "resource",
            variable.trainable,
        )
        return (ResourceVariable if variable.kind == "resource" else RefVariable)(variable_def=definition)

    def _register_variables(self) -> None:
        """Add new variables to the builder's variables, so that later entries of the file can use and initialize them."""
        for variable in self.get_collection("variables"):
            node = variable.op.node
            if node.id not in self.builder.variables:
                kind = "resource" if isinstance(variable, HandledVariable) else "ref"
                read, start = variable._snapshot.op.node.id, variable.initializer.node.id
                made = argument_binding.VariableNodes(node.id, read, start, kind, node.attrs["dtype"], bool(variable.trainable))
                self.builder.variables[node.id] = made
                self._variables[node.id] = variable

    # --- tensors and variables of entries -------------------------------------------------------------------------------

    def tensor(self, ref: TensorRef) -> Tensor:
        """The `tf.Tensor` of a tensor of the file."""
        return self._operations[ref.node].outputs[ref.slot]

    def variable(self, node: int) -> Variable:
        """The `tf.Variable` of a variable of the file, by its node."""
        return self._variables[node]


class BodyView:
    """The body of a file's conditional or loop, with the methods of a FileGraph."""

    def __init__(self, body: FunctionGraph) -> None:
        self.body = body
        self.builder = body.builder

    @contextmanager
    def building(self, position: int) -> Iterator[None]:
        """Make `position` the place of new nodes.  Raises CallRefusal for TensorFlow's errors."""
        self.body.location = lambda: position  # type: ignore[method-assign]
        try:
            yield
        except REFUSALS as error:
            if isinstance(error, GraphBuildError):
                raise
            raise CallRefusal(error) from None

    def tensor(self, ref: TensorRef) -> Tensor:
        """The `tf.Tensor` of a tensor of the body."""
        return self.body.operation(ref.node).outputs[ref.slot]


def file_graph(builder: ScopedGraphBuilder) -> FileGraph:
    """The one FileGraph of a file's builder.  It keeps the functions of ops, for their gradients."""
    if builder.view is None:
        builder.view = FileGraph(builder)
    return builder.view  # type: ignore[no-any-return]


def _collections(variables: Any) -> dict[str, list[Variable]]:
    found = list(variables)
    return {"variables": found, "trainable_variables": [variable for variable in found if variable.trainable]}
