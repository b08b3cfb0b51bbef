"""Bodies of library functions, as graphs with `_Arg` and `_Retval` nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from placesim.core.dtypes import DataType, OpenType
from placesim.core.errors import InvalidArgumentError
from placesim.graph.graph import (
    MAX_SLOT_DIGITS,
    FunctionArg,
    Graph,
    LibraryFunction,
    NodeDef,
    Signature,
    SignatureTable,
    TensorRef,
    split_tensor_name,
)
from placesim.graph.node_text import node_tag
from placesim.ops.attributes import Attrs, AttrValue, FunctionName, Placeholder
from placesim.ops.categories import RUN_ATTRS
from placesim.ops.definitions import ArgDef, AttrDef, OpDef


class FunctionBody(NamedTuple):
    """The graph of an instantiated function, and the ids of the nodes for its arguments, results and control results."""

    graph: Graph
    args: tuple[int, ...]
    results: tuple[int, ...]
    control_results: tuple[int, ...]


def path_of_body(call: str, function: str) -> str:
    """Return the path of a function's body: the displayed names of the calling node and the function."""
    return f"{call}/{function if function.isprintable() else function.encode('unicode_escape').decode('ascii')}"


def find_function(graph: Graph, name: str, caller: str | None = None) -> LibraryFunction:
    """Return a function of the library. If there is none, raises InvalidArgumentError, which names the calling node."""
    found = graph.functions.get(name)
    if found is None:
        known = ", ".join(graph.functions)
        raise InvalidArgumentError(f'Failed to find function "{name}" in function library: {known}', node=caller)
    return found


def instantiate(graph: Graph, function: LibraryFunction, attrs: Attrs) -> FunctionBody:
    """Return the body of a library function, with the attrs of the call in place of `$T`.

    Nodes are in the runtime's order: arguments first, then the body in the order of TensorFlow's importer, results last. Raises
    InvalidArgumentError if an input does not exist, if a node has the wrong inputs for its op, if nodes are in a cycle, or if
    two nodes (or two results) have the same name.
    """
    args = tuple(NodeDef(a.name, "_Arg", (), "", {"T": _dtype(a, attrs), "index": i}) for i, a in enumerate(function.inputs))
    names = _TensorNames(graph, function, attrs)
    body = tuple(
        NodeDef(n.name, n.op, names.inputs(n), n.device, _substitute(n.attrs, attrs), n.location) for n in function.nodes
    )
    results = tuple(
        NodeDef(f"{r.name}_RetVal", "_Retval", (names.resolve(r.value),), "", {"T": _dtype(r, attrs), "index": i})
        for i, r in enumerate(function.outputs)
    )
    seen: set[str] = set()
    for node in (*args, *body, *results):
        if node.name in seen:
            raise InvalidArgumentError(f"Node '{node.name}' is not unique")
        seen.add(node.name)
    # nodes that run in every call, although no result needs them
    controls = [names.resolve(f"^{name}")[1:] for name in function.control_outputs.values()]
    made = Graph(graph.registry, graph.functions, graph.file)
    made.functions = graph.functions
    made.files = graph.files
    made.extend((*args, *body, *results))
    ordered = made.in_runtime_order()
    return FunctionBody(
        ordered,
        tuple(ordered.ids[a.name] for a in args),
        tuple(ordered.ids[r.name] for r in results),
        tuple(dict.fromkeys(ordered.ids[name] for name in controls)),
    )


class OpenBody(NamedTuple):
    """A function's body with types that depend on the call.

    `graph` has a Placeholder for each argument, then the nodes in order.
    """

    graph: Graph
    results: tuple[TensorRef, ...]
    controls: tuple[int, ...]


def open_body(graph: Graph, function: LibraryFunction) -> OpenBody:
    """Return the body of a library function; types that depend on the call are OpenTypes.

    Raises InvalidArgumentError like `instantiate`.
    """
    attrs = {arg.type_attr: OpenType(arg.type_attr) for arg in (*function.inputs, *function.outputs) if arg.type_attr}
    args = tuple(NodeDef(a.name, "Placeholder", (), "", {"dtype": _dtype(a, attrs)}) for a in function.inputs)
    names = _TensorNames(graph, function, attrs)
    body = tuple(n._replace(inputs=names.inputs(n), attrs=_substitute(n.attrs, attrs)) for n in function.nodes)
    if len({node.name for node in (*args, *body)}) < len(args) + len(body):
        raise InvalidArgumentError(f"nodes of function '{function.name}' are not unique")
    called = {node.op: graph.functions[node.op] for node in body if node.op in graph.functions}
    made = Graph(graph.registry, called, graph.file)
    made.files = graph.files
    made.extend((*args, *body))
    results = [split_tensor_name(names.resolve(result.value)) for result in function.outputs]
    return OpenBody(
        made,
        tuple(TensorRef(made.ids[name], slot) for name, slot in results),
        tuple(made.ids[names.resolve(f"^{name}")[1:]] for name in function.control_outputs.values()),
    )


def function_definition(function: LibraryFunction) -> OpDef:
    """Return the op definition of a function: its arguments, results, and the attrs for their types."""
    inputs, outputs = (
        tuple(ArgDef(arg.name, arg.dtype, arg.type_attr) for arg in args) for args in (function.inputs, function.outputs)
    )
    types = dict.fromkeys(arg.type_attr for arg in (*inputs, *outputs) if arg.type_attr)
    return OpDef(function.name, inputs, outputs, {name: AttrDef(name, "type") for name in types})


def result_types(op: str, attrs: Attrs, functions: Mapping[str, LibraryFunction]) -> tuple[DataType, ...] | None:
    """Return the value that the called function requires for a call's `Tout`; None if it requires none."""
    called = attrs.get(RUN_ATTRS.get(op, ""))
    if isinstance(called, tuple) and not isinstance(called, FunctionName):
        called = called[0] if called else None
    function = functions.get(called.name) if isinstance(called, FunctionName) else None
    if function is None or not isinstance(called, FunctionName):
        return None
    given = dict(called.attrs)
    types = [result.dtype if result.type_attr is None else given.get(result.type_attr) for result in function.outputs]
    known = tuple(dtype for dtype in types if isinstance(dtype, DataType))
    return known if len(known) == len(types) else None


def argument_types(function: LibraryFunction, attrs: Attrs) -> tuple[DataType, ...]:
    """Return the types of a function's arguments for a call with these attrs."""
    return tuple(_dtype(arg, attrs) for arg in function.inputs)


def _dtype(arg: FunctionArg, attrs: Attrs) -> DataType:
    if arg.dtype is not None:
        return arg.dtype
    found = attrs.get(arg.type_attr or "")
    if not isinstance(found, DataType):
        raise InvalidArgumentError(f"type attr not found: {arg.type_attr}")
    return found


def _substitute(node_attrs: Attrs, attrs: Attrs) -> Mapping[str, AttrValue]:
    if not any(isinstance(value, Placeholder) for value in node_attrs.values()):
        return node_attrs
    open_ones = {v.name for v in node_attrs.values() if isinstance(v, Placeholder)}
    if not open_ones <= attrs.keys():
        raise InvalidArgumentError(f"Failed to bind all placeholders in ${min(open_ones - attrs.keys())}")
    return {k: attrs[v.name] if isinstance(v, Placeholder) else v for k, v in node_attrs.items()}


class _TensorNames:
    """Names of a body's tensors: converts `node:output_arg:index` to `node:slot`."""

    def __init__(self, graph: Graph, function: LibraryFunction, attrs: Attrs) -> None:
        self._function = function
        self._functions = graph.functions
        self._attrs = attrs
        self._args = {arg.name: _dtype(arg, attrs) for arg in function.inputs}
        self._starts: dict[str, dict[str, int]] = {}
        self._lengths: dict[str, dict[str, int]] = {}
        self._signatures: dict[str, Signature] = {}
        signatures = SignatureTable(graph.registry, graph.functions)
        for node in function.nodes:
            substituted = _substitute(node.attrs, attrs)
            signature = self._signatures[node.name] = signatures.signature(node.op, substituted)
            starts, lengths, start = {}, {}, 0
            if signature.definition is None:
                callee = graph.functions.get(node.op)
                starts = {output.name: i for i, output in enumerate(callee.outputs if callee else ())}
            else:
                for output in signature.definition.outputs:
                    starts[output.name] = start
                    lengths[output.name] = len(output.dtypes(signature.attrs))
                    start += lengths[output.name]
            self._lengths[node.name] = lengths
            self._starts[node.name] = starts

    def __contains__(self, name: str) -> bool:
        """Whether the body has a node or argument of that name."""
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

    def inputs(self, node: NodeDef) -> tuple[str, ...]:
        """Return a node's inputs; a list of tensors is expanded to one input for each tensor.

        Raises InvalidArgumentError if an input does not exist or has the wrong type, or if the number of inputs is wrong.
        """
        wanted = self._signatures[node.name].input_dtypes
        data: list[str] = []
        for at, text in enumerate(node.inputs):
            if len(data) >= len(wanted):
                return (*data, *self._controls(node, at))
            tensors = self._tensors(node, text)
            arg, position, count = self._argument(node, len(data))
            if position + len(tensors) > count:
                raise _body_error(f"Input {text} too long for {arg}", node)
            for index, tensor in enumerate(tensors):
                given, expected = self._type(tensor), wanted[len(data)]
                if given is not None and given is not expected:
                    types = f"expected type {expected.name} != {given.name}, the type of {text}[{index}]"
                    raise _body_error(f"input {arg}[{position + index}] {types}", node)
                data.append(tensor)
        if len(data) < len(wanted):
            raise _body_error(f"Attempt to access beyond input size: {len(node.inputs)} >= {len(node.inputs)}", node)
        return tuple(data)

    def _controls(self, node: NodeDef, start: int) -> Iterator[str]:
        for index, text in enumerate(node.inputs[start:], start):
            if not text.startswith("^"):
                raise _body_error(f"Expected input[{index}] == '{text}' to be a control input.", node)
            yield self.resolve(text)

    def _tensors(self, node: NodeDef, text: str) -> Sequence[str]:
        """Return the tensors that a data input refers to."""
        name, _, output = text.partition(":")
        count = self._lengths.get(name, {}).get(output)
        if count is not None:
            start = self._starts[name][output]
            return [f"{name}:{slot}" if slot else name for slot in range(start, start + count)]
        found = "" if text.startswith("^") else self.resolve(text)
        if not found or self._type(found) is None:
            raise _body_error(f"input {text} is not found: {node_tag(node.name)}", node)
        return (found,)

    def _type(self, tensor: str) -> DataType | None:
        """Return the type of a tensor of the body; None if there is no such output."""
        name, _, slot = tensor.partition(":")
        outputs = (self._args[name],) if name in self._args else self._signatures[name].output_dtypes
        index = int(slot or 0) if not slot or slot.isdecimal() else len(outputs)
        return outputs[index] if index < len(outputs) else None

    def _argument(self, node: NodeDef, index: int) -> tuple[str, int, int]:
        """Find the argument of the op that takes the data input of that index.

        Returns the argument's name, the position of the input in it, and its length.
        """
        signature = self._signatures[node.name]
        definition = signature.definition or function_definition(self._functions[node.op])
        attrs = signature.attrs if signature.definition is not None else _substitute(node.attrs, self._attrs)
        for arg in definition.inputs:
            count = len(arg.dtypes(attrs))
            if index < count:
                return arg.name, index, count
            index -= count
        raise AssertionError("an op has as many inputs as its arguments have")


def _body_error(problem: str, node: NodeDef) -> InvalidArgumentError:
    """Return the error about a node in a body, with TensorFlow's message."""
    return InvalidArgumentError(f"{problem}\n\tIn {node_tag(node.name)}")
