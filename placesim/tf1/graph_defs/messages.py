"""The protocol buffer messages of a graph: GraphDef, NodeDef, OpDef."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.formats.tensorflow.attr_value import write_attr, write_shape
from placesim.formats.tensorflow.function_def import write_function
from placesim.formats.tensorflow.messages import message_class, parse
from placesim.formats.tensorflow.node_def import NodeWriter
from placesim.graph.graph import Graph, Node
from placesim.ops.attributes import Shape
from placesim.ops.definitions import ArgDef
from placesim.ops.kernels.shapes import Dims


def node_def(graph: Graph, node: Node, controls: Sequence[int] | None = None) -> Any:
    """A node's NodeDef, including attrs with default values; its control inputs are `controls`, or sorted by name."""
    attrs = graph.full_attrs(node)
    pieces = NodeWriter().write(node.name, node.op, graph.input_texts(node, controls), node.device, attrs)
    return parse("NodeDef", b"".join(pieces))


def graph_def(graph: Graph, from_version: int, shapes_of: Callable[[int], Sequence[Dims]] | None) -> Any:
    """GraphDef of a graph without nodes made before `from_version`, with shapes if given."""
    message = message_class("GraphDef")()
    for node in graph.nodes[from_version:]:
        added = message.node.add()
        added.CopyFrom(node_def(graph, node))
        if shapes_of is not None and node.signature.output_dtypes:
            shapes = added.attr["_output_shapes"].list
            for sizes in shapes_of(node.id):
                shapes.shape.append(write_shape(Shape(sizes)))
    writer = NodeWriter()
    for function in graph.functions.values():
        message.library.function.append(parse("FunctionDef", write_function(function, writer)))
    for name, version in graph.versions.items():
        setattr(message.versions, name, version)
    return message


def op_def(node: Node) -> Any:
    """The OpDef of a node's op."""
    definition = node.signature.definition
    message = message_class("OpDef")(name=node.op)
    if definition is None:
        return message
    for args, field in ((definition.inputs, message.input_arg), (definition.outputs, message.output_arg)):
        for arg in args:
            _write_arg(arg, field.add())
    for attr in definition.attrs.values():
        added = message.attr.add(name=attr.name, type=attr.type)
        if attr.has_default:
            added.default_value.CopyFrom(write_attr(attr.default))
    message.is_stateful = definition.is_stateful
    message.is_commutative = definition.is_commutative
    message.is_aggregate = definition.is_aggregate
    return message


def _write_arg(arg: ArgDef, message: Any) -> None:
    message.name = arg.name
    if arg.dtype is not None:
        message.type = arg.dtype.number
    message.type_attr = arg.type_attr or ""
    message.number_attr = arg.number_attr or ""
    message.type_list_attr = arg.type_list_attr or ""
    message.is_ref = arg.is_ref
