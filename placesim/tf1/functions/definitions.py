"""Convert a function's body to an entry of the function library, with the names of a FunctionDef."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from placesim.formats.tensorflow.function_def import stateful_attrs
from placesim.graph.function_writing import write_function
from placesim.graph.graph import LibraryFunction
from placesim.ops.attributes import AttrValue
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.tensor import OwningGraph

_NOT_IN_ARGUMENTS = re.compile("[^a-z0-9]")
_BEFORE_LETTERS = re.compile("^[^a-z]*")


class _Names:
    """Unique names of one FunctionDef; a name that is already in use gets a number."""

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
        """Name of an argument or result: `node_name` in lower case, from its first letter on, with `_` for other characters."""
        return self.unique(_BEFORE_LETTERS.sub("", _NOT_IN_ARGUMENTS.sub("_", node_name.lower())) or "unknown")


def define(
    graph: FunctionGraph, attrs: Mapping[str, AttrValue] | None = None, output_names: Sequence[str] = ()
) -> LibraryFunction:
    """The FunctionDef of a body under the name of its graph."""
    names = _Names()
    results = [names.unique(name) for name in output_names] or [names.argument(tensor.op.name) for tensor in graph.outputs]
    arguments = {tensor.op.node.id: names.argument(tensor.op.name) for tensor in graph.inputs}
    body = [op for op in graph._operations if op.node.id not in arguments]
    nodes = {op.node.id: names.unique(op.name) for op in body}
    controls = {names.unique(op.name) if op.node.id in arguments else op.name: op for op in graph.control_outputs}
    all_attrs: dict[str, AttrValue] = {"_construction_context": "kEagerRuntime", **(attrs or {})}
    all_attrs |= stateful_attrs(any(op._is_stateful for op in body))
    return write_function(
        graph.builder.graph,
        graph.name,
        arguments,
        [(name, tensor.node_ref) for name, tensor in zip(results, graph.outputs, strict=True)],
        {name: op.node.id for name, op in controls.items() if op.node.id in nodes},
        all_attrs,
        nodes,
    )


def add_function(graph: OwningGraph, body: FunctionGraph, attrs: Any = None, output_names: Sequence[str] = ()) -> str:
    """Add a body and the functions that it calls to a graph's library; return the body's name."""
    defined = define(body, attrs, output_names)
    for name, function in (*body.functions.items(), (defined.name, defined)):
        graph.functions.setdefault(name, function)
    return defined.name
