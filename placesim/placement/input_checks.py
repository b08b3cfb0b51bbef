"""Checks of the inputs of nodes made by rewrites, with the messages of TensorFlow's node builder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError, OutOfRangeError
from placesim.graph.functions import find_function, function_definition
from placesim.graph.graph import Graph, Signature
from placesim.graph.node_text import node_tag
from placesim.ops.definitions import format_op_def
from placesim.placement.editable_node import EditableNode


def output_dtype(source: EditableNode, slot: int, reader_op: str) -> DataType:
    """Return the type of a node's output.  Raises InvalidArgumentError if a new `reader_op` would read an output that is
    missing.
    """
    problem = _slot_problem(source, slot, reader_op)
    if problem is not None:
        raise InvalidArgumentError(problem)
    return source.signature.output_dtypes[slot]


def missing_output(name: str, op: str, count: int, slot: int) -> OutOfRangeError:
    """Return TensorFlow's error for an output that a node lacks after the rewrites."""
    return OutOfRangeError(f"Node '{name}' (type: '{op}', num of outputs: {count}) does not have output {slot}", node=name)


def check_new_inputs(graph: Graph, name: str, signature: Signature, data: Sequence[tuple[EditableNode, int]]) -> None:
    """Raise InvalidArgumentError if a new node cannot read these outputs, because of their slots, number or types."""
    missing = [p for source, slot in data if (p := _slot_problem(source, slot, signature.op)) is not None]
    if missing:
        raise InvalidArgumentError("\n".join(missing))
    given = tuple(source.signature.output_dtypes[slot] for source, slot in data)
    if given != signature.input_dtypes:
        raise InvalidArgumentError(_build_problem(graph, name, signature, given))


def check_edges(nodes: Sequence[EditableNode]) -> None:
    """Raise InvalidArgumentError for the first node that reads a tensor of a wrong type."""
    for node in nodes:
        for i, (source, slot) in enumerate(node.data):
            given, wanted = source.signature.output_dtypes[slot], node.signature.input_dtypes[i]
            if given is not wanted:
                what = f"was passed {given.name} from {source.name}:{slot} incompatible with expected {wanted.name}."
                raise InvalidArgumentError(f"Input {i} of node {node.name} {what}", node=node.name)


def _slot_problem(source: EditableNode, slot: int, reader_op: str) -> str | None:
    count = len(source.signature.output_dtypes)
    if slot < count:
        return None
    where = f"not in range [0, {count}) to node with type {reader_op}. Node: {node_tag(source.name)}"
    return f"Attempt to add output {slot} of {source.name} {where}"


def _build_problem(graph: Graph, name: str, signature: Signature, given: Sequence[DataType]) -> str:
    definition = signature.definition or function_definition(find_function(graph, signature.op))
    wanted = signature.input_dtypes
    problems = [
        f"Input '{arg}' passed {got.name} expected {dtype.name}"
        for arg, got, dtype in zip(_argument_names(signature, graph), given, wanted, strict=False)
        if got is not dtype
    ]
    # TensorFlow's NodeDefBuilder collects one line for each surplus input
    problems += [f"More Input() calls than the {len(definition.inputs)} input_args"] * (len(given) - len(wanted))
    if len(given) < len(wanted):
        problems.append(f"{len(given)} inputs specified of {len(definition.inputs)} inputs in Op")
    built = f"while building NodeDef '{name}' using {format_op_def(definition)}"
    return f"{problems[0]} {built}" if len(problems) == 1 else f"{len(problems)} errors {built}:\n" + "\n".join(problems)


def _argument_names(signature: Signature, graph: Graph) -> Iterator[str]:
    """Yield for each input the name of the op's argument to which it belongs."""
    if signature.definition is None:
        yield from (arg.name for arg in find_function(graph, signature.op).inputs)
        return
    for arg in signature.definition.inputs:
        yield from (arg.name for _ in arg.dtypes(signature.attrs))
