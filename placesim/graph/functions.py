"""Function bodies: an entry of the library -> a graph of its own, with `_Arg` and `_Retval` nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placesim.dtypes import DType
from placesim.errors import InvalidArgumentError
from placesim.graph.graph import MAX_SLOT_DIGITS, Function, FunctionArg, Graph, NodeDef, SignatureTable
from placesim.ops.attributes import Attrs, AttrValue, Placeholder
from placesim.ops.definitions import ArgDef, AttrDef, OpDef


class FunctionBody(NamedTuple):
    """An instantiated function: node ids of its arguments, results and control results."""

    graph: Graph
    args: tuple[int, ...]
    results: tuple[int, ...]
    control_results: tuple[int, ...]


def find_function(graph: Graph, name: str) -> Function:
    """The library's function of that name; InvalidArgumentError where there is none."""
    found = graph.functions.get(name)
    if found is None:
        raise InvalidArgumentError(f'Failed to find function "{name}" in function library: {", ".join(graph.functions)}')
    return found


def instantiate(graph: Graph, function: Function, attrs: Attrs) -> FunctionBody:
    """The body of a function of the graph's library, with the caller's attrs put in for `$T`.

    Nodes are in the runtime's order: arguments first, then the body as TensorFlow's importer numbers it, results last.
    Raises InvalidArgumentError where an input names nothing.
    """
    args = tuple(NodeDef(a.name, "_Arg", (), "", {"T": _dtype(a, attrs), "index": i}) for i, a in enumerate(function.inputs))
    names = _TensorNames(graph, function, attrs)
    body = tuple(
        NodeDef(n.name, n.op, tuple(map(names.resolve, n.inputs)), n.device, _substitute(n.attrs, attrs), n.location)
        for n in function.nodes
    )
    results = tuple(
        NodeDef(f"{r.name}_RetVal", "_Retval", (names.resolve(r.value),), "", {"T": _dtype(r, attrs), "index": i})
        for i, r in enumerate(function.outputs)
    )
    controls = [names.resolve(f"^{name}")[1:] for name in function.control_outputs.values()]
    made = Graph(graph.registry, graph.functions, graph.file)
    made.functions = graph.functions
    made.extend((*args, *body, *results))
    ordered = made.in_order(made.runtime_order())
    return FunctionBody(
        ordered,
        tuple(ordered.ids[a.name] for a in args),
        tuple(ordered.ids[r.name] for r in results),
        tuple(dict.fromkeys(ordered.ids[name] for name in controls)),
    )


def function_definition(function: Function) -> OpDef:
    """A function as the definition of an op of its name: its arguments and results, and the attrs that give their types."""
    inputs, outputs = (
        tuple(ArgDef(arg.name, arg.dtype, arg.type_attr) for arg in args) for args in (function.inputs, function.outputs)
    )
    types = dict.fromkeys(arg.type_attr for arg in (*inputs, *outputs) if arg.type_attr)
    return OpDef(function.name, inputs, outputs, {name: AttrDef(name, "type") for name in types})


def argument_types(function: Function, attrs: Attrs) -> tuple[DType, ...]:
    """The types of a function's arguments, where it is called with these attrs."""
    return tuple(_dtype(arg, attrs) for arg in function.inputs)


def _dtype(arg: FunctionArg, attrs: Attrs) -> DType:
    return arg.dtype or attrs[arg.type_attr or ""]


def _substitute(node_attrs: Attrs, attrs: Attrs) -> Mapping[str, AttrValue]:
    if not any(isinstance(value, Placeholder) for value in node_attrs.values()):
        return node_attrs
    return {k: attrs[v.name] if isinstance(v, Placeholder) else v for k, v in node_attrs.items()}


class _TensorNames:
    """Turns a body's `node:output_arg:index` into `node:slot`."""

    def __init__(self, graph: Graph, function: Function, attrs: Attrs) -> None:
        self._function = function
        self._args = {arg.name for arg in function.inputs}
        self._starts: dict[str, dict[str, int]] = {}
        signatures = SignatureTable(graph.registry, graph.functions)
        for node in function.nodes:
            substituted = _substitute(node.attrs, attrs)
            signature = signatures.signature(node.op, substituted)
            starts, start = {}, 0
            if signature.definition is None:
                callee = graph.functions.get(node.op)
                starts = {output.name: i for i, output in enumerate(callee.outputs if callee else ())}
            else:
                for output in signature.definition.outputs:
                    starts[output.name] = start
                    start += len(output.dtypes(signature.attrs))
            self._starts[node.name] = starts

    def __contains__(self, name: str) -> bool:
        """Whether the body has a node, or an argument, of that name."""
        return name in self._starts or name in self._args

    def resolve(self, text: str) -> str:
        if text.startswith("^") and text[1:] in self:
            return text
        name, _, rest = text.partition(":")
        if not rest and name in self:
            return name
        output, _, index = rest.partition(":")
        if name in self and (name in self._args or output.isdigit()):
            return text
        is_index = not index or (index.isascii() and index.isdigit() and len(index) < MAX_SLOT_DIGITS)
        if name not in self._starts or output not in self._starts[name] or not is_index:
            raise InvalidArgumentError(f"Input '{text}' of function '{self._function.name}' does not exist in its body")
        slot = self._starts[name][output] + int(index or 0)
        return f"{name}:{slot}" if slot else name
