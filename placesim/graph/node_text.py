"""Text of nodes in TensorFlow's messages, and functions that write and find tags such as `{{node x}}` (5.9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from placesim.core.errors import InvalidArgumentError, OpError
from placesim.graph.graph import Graph, Node
from placesim.ops.attributes import Attrs, format_attr_value

_TAG = re.compile(r"\{\{((?:colocation_|function_)?node) ([^}]*)\}\}")


def node_tag(name: str) -> str:
    """Return the tag `{{node x}}` of the node that a message is about."""
    return f"{{{{node {name}}}}}"


def colocation_tag(name: str) -> str:
    """Return the tag `{{colocation_node x}}` of a node that conflicts with another in its group (5.4)."""
    return f"{{{{colocation_node {name}}}}}"


def function_tag(name: str) -> str:
    """Return the tag `{{function_node f}}` of a library function (5.8)."""
    return f"{{{{function_node {name}}}}}"


def replace_tags(message: str, spell: Callable[[str], str], kinds: Iterable[str] = ("node",)) -> str:
    """Replace each tag in a message by `spell(name)`; `kinds` are `node`, `colocation_node`, `function_node`."""
    return _TAG.sub(lambda found: spell(found[2]) if found[1] in kinds else found[0], message)


def find_tags(message: str) -> list[tuple[str, str]]:
    """Return the kind and the name of each tag, in order."""
    return _TAG.findall(message)


def format_attrs(attrs: Attrs) -> str:
    """Format attrs as `T=DT_FLOAT, N=2`, sorted by name."""
    return ", ".join(f"{name}={format_attr_value(attrs[name])}" for name in sorted(attrs))


def format_node(name: str, op: str, attrs: Attrs, inputs: Iterable[str], device: str = "") -> str:
    """Format a node as `{{node x}} = Op[attrs, _device="d"](inputs)`."""
    shown = format_attrs(attrs)
    if device:
        shown += f'{", " if shown else ""}_device="{device}"'
    return f"{node_tag(name)} = {op}[{shown}]({', '.join(inputs)})"


def format_debug_node(graph: Graph, node: Node, runtime_id: int) -> str:
    """Format a node like TensorFlow's debug string: runtime number, requested device, no assigned device, and definition."""
    summary = format_node(node.name, node.op, graph.full_attrs(node), graph.input_texts(node), node.device)
    devices = graph.registry.rules.devices_of_node.format(requested=node.device, assigned="")
    return f"{{name:'{node.name}' id:{runtime_id} op device:{{{devices}}} def:{{{summary}}}}}"


def node_tail(message: str, name: str) -> str:
    """Return the suffix that TensorFlow appends to the message of an error in a node.

    If the message already has a tag, the name in the suffix has no tag.
    """
    return f"\n\t [[{name}]]" if "{{node " in message else f"\n\t [[{node_tag(name)}]]"


def node_error(graph: Graph, node: Node, message: str, kind: type[OpError] = InvalidArgumentError) -> OpError:
    """Return an error caused by a node. Its message ends with TensorFlow's suffix, and it has the node's location."""
    return kind(message + node_tail(message, node.name), node=node.name, location=graph.location(node))
