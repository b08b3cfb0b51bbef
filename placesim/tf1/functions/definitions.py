"""A function's body -> the entry of the library: arguments, results and nodes, with the names that a FunctionDef gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from placesim.formats.tensorflow.attr_value import read_string
from placesim.formats.tensorflow.function_def import REST
from placesim.formats.tensorflow.messages import message_class, serialise
from placesim.graph.graph import Function, FunctionArg, NodeDef
from placesim.ops.attributes import AttrValue
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graph import Graph
from placesim.tf1.tensor import Operation, Tensor

_NOT_IN_ARGUMENTS = re.compile("[^a-z0-9]")
_BEFORE_LETTERS = re.compile("^[^a-z]*")


class _Names:
    """The names of one FunctionDef: results first, then arguments, then nodes; who comes later gives way."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def unique(self, name: str) -> str:
        if name in self._taken:
            number = self._numbers.get(name, 0)
            while f"{name}_{number}" in self._taken:
                number += 1
            self._numbers[name] = number + 1
            name = f"{name}_{number}"
        self._taken.add(name)
        return name

    def argument(self, node_name: str) -> str:
        """An argument's or a result's name: lower case, letters, digits and underscores, from the first letter on."""
        return self.unique(_BEFORE_LETTERS.sub("", _NOT_IN_ARGUMENTS.sub("_", node_name.lower())) or "unknown")


def define(graph: FunctionGraph, attrs: Mapping[str, AttrValue] | None = None, output_names: Sequence[str] = ()) -> Function:
    """The FunctionDef of a body under the name of its graph."""
    names = _Names()
    results = [names.unique(name) for name in output_names] or [names.argument(tensor.op.name) for tensor in graph.outputs]
    arguments = {tensor.op.node.id: names.argument(tensor.op.name) for tensor in graph.inputs}
    body = [op for op in graph._operations if op.node.id not in arguments]
    nodes = {op.node.id: names.unique(op.name) for op in body}
    controls = {names.unique(op.name) if op.node.id in arguments else op.name: op for op in graph.control_outputs}
    writer = _Writer(graph, arguments, nodes)
    held: dict[str, AttrValue] = {"_construction_context": "kEagerRuntime", **(attrs or {})}
    rest = message_class("FunctionDef")()
    rest.signature.is_stateful = any(op._is_stateful for op in body)
    held[REST] = read_string(serialise(rest))
    return Function(
        graph.name,
        tuple(FunctionArg(arguments[tensor.op.node.id], tensor.element) for tensor in graph.inputs),
        tuple(
            FunctionArg(name, tensor.element, None, writer.text(tensor))
            for name, tensor in zip(results, graph.outputs, strict=True)
        ),
        tuple(writer.node(op) for op in body),
        {name: nodes[op.node.id] for name, op in controls.items() if op.node.id in nodes},
        held,
    )


class _Writer:
    """Nodes of a body as a FunctionDef has them: inputs by argument, or by node, output and index."""

    def __init__(self, graph: FunctionGraph, arguments: Mapping[int, str], nodes: Mapping[int, str]) -> None:
        self._graph = graph
        self._arguments = arguments
        self._nodes = nodes
        self._places: dict[int, list[str]] = {}

    def text(self, tensor: Tensor) -> str:
        node_id = tensor.op.node.id
        found = self._arguments.get(node_id)
        if found is not None:
            return found
        places = self._places.get(node_id)
        if places is None:
            places = self._places[node_id] = _output_places(tensor.op)
        return f"{self._nodes[node_id]}:{places[tensor.value_index]}"

    def node(self, op: Operation) -> NodeDef:
        given = op.node
        controls = sorted(f"^{self._arguments.get(i) or self._nodes[i]}" for i in given.control_inputs)
        inputs = (*(self.text(tensor) for tensor in op.inputs), *controls)
        full = self._graph.builder.graph.full_attrs(given)
        return NodeDef(self._nodes[given.id], given.op, inputs, given.device, full, given.location)


def _output_places(op: Operation) -> list[str]:
    """`output:index` of each of an op's outputs."""
    definition = op.node.signature.definition
    if definition is None:
        callee = op.graph.functions[op.type]
        return [f"{output.name}:0" for output in callee.outputs]
    attrs = op.graph.builder.graph.full_attrs(op.node)
    return [f"{arg.name}:{i}" for arg in definition.outputs for i in range(len(arg.dtypes(attrs)))]


def add_function(graph: Graph, body: FunctionGraph, attrs: Any = None, output_names: Sequence[str] = ()) -> str:
    """Puts a body, and the functions that it calls, in a graph's library; gives its name."""
    defined = define(body, attrs, output_names)
    for name, function in (*body.functions.items(), (defined.name, defined)):
        graph.functions.setdefault(name, function)
    return defined.name
