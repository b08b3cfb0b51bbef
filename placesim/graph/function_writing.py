"""Conversion of a graph with arguments to a library function, with the names and inputs of a FunctionDef."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placesim.core.dtypes import DataType, OpenType
from placesim.core.errors import GraphBuildError
from placesim.graph.graph import FunctionArg, Graph, LibraryFunction, Node, NodeDef, TensorRef
from placesim.ops.attributes import Attrs, AttrValue, Placeholder


class AttrListError(GraphBuildError):
    """A list of types that contains an attr of the function. `position` is the node's position in the file."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def write_function(
    graph: Graph,
    name: str,
    arguments: Mapping[int, str],
    results: Sequence[tuple[str, TensorRef]],
    controls: Mapping[str, int],
    attrs: Attrs,
    names: Mapping[int, str] | None = None,
) -> LibraryFunction:
    """Return a library function made from a body's graph.

    `arguments` maps argument nodes to names, in order. `results` are the outputs, and `controls` are nodes that run in every
    call. `names` are the nodes' names in the function if they differ from the graph's. Attrs equal to their defaults are
    written too, as TensorFlow does.

    Raises AttrListError for a list of types that contains an attr of the function, which a FunctionDef can't express.
    """
    known = names or {node.id: node.name for node in graph.nodes}
    writer = _Writer(graph, arguments, known)
    return LibraryFunction(
        name,
        tuple(_argument(text, graph.nodes[node].signature.output_dtypes[0]) for node, text in arguments.items()),
        tuple(
            _argument(text, graph.nodes[ref.node].signature.output_dtypes[ref.slot], writer.text(ref)) for text, ref in results
        ),
        tuple(writer.node(node) for node in graph.nodes if node.id not in arguments),
        {text: known[node] for text, node in controls.items()},
        attrs,
    )


def _argument(name: str, dtype: DataType, value: str = "") -> FunctionArg:
    return FunctionArg(name, None, dtype.attr, value) if isinstance(dtype, OpenType) else FunctionArg(name, dtype, None, value)


class _Writer:
    """Writer of a body's nodes in the form of a FunctionDef: inputs are arguments, or `node:output:index`."""

    def __init__(self, graph: Graph, arguments: Mapping[int, str], names: Mapping[int, str]) -> None:
        self._graph = graph
        self._arguments = arguments
        self._names = names
        self._places: dict[int, list[str]] = {}

    def text(self, ref: TensorRef) -> str:
        found = self._arguments.get(ref.node)
        if found is not None:
            return found
        places = self._places.get(ref.node)
        if places is None:
            places = self._places[ref.node] = _output_places(self._graph, self._graph.nodes[ref.node])
        return f"{self._names[ref.node]}:{places[ref.slot]}"

    def node(self, node: Node) -> NodeDef:
        # TensorFlow sorts control inputs by name
        controls = sorted(f"^{self._arguments.get(i) or self._names[i]}" for i in node.control_inputs)
        inputs = (*map(self.text, node.inputs), *controls)
        full = {name: _closed(node, name, value) for name, value in self._graph.full_attrs(node).items()}
        return NodeDef(self._names[node.id], node.op, inputs, node.device, full, node.location)


def _closed(node: Node, name: str, value: AttrValue) -> AttrValue:
    """Return an attr's value; if it is a type given by an attr of the function, return the placeholder of this attr."""
    if isinstance(value, OpenType):
        return Placeholder(value.attr)
    if value.__class__ is tuple:
        open_type = next((item for item in value if isinstance(item, OpenType)), None)
        if open_type is not None:
            message = (
                f"open type in a list: got '{open_type.attr}' in attr '{name}' of '{node.name}' ({node.op}), "
                "expected fixed types"
            )
            raise AttrListError(message, node.location)
    return value


def _output_places(graph: Graph, node: Node) -> list[str]:
    """Return `output:index` for each of a node's outputs."""
    starts = output_starts(graph, node)
    ends = [*list(starts.values())[1:], len(node.signature.output_dtypes)]
    return [f"{name}:{i}" for (name, start), end in zip(starts.items(), ends, strict=True) for i in range(end - start)]


def output_starts(graph: Graph, node: Node) -> dict[str, int]:
    """Map the name of each output of a node to the output's first slot. Names are those of the op or of the called function."""
    definition = node.signature.definition
    if definition is None:
        return {output.name: slot for slot, output in enumerate(graph.functions[node.op].outputs)}
    attrs, starts, start = graph.full_attrs(node), {}, 0
    for arg in definition.outputs:
        starts[arg.name] = start
        start += len(arg.dtypes(attrs))
    return starts
