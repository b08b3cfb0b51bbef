"""Error messages of steps as TensorFlow's Python shows them, with the locations of nodes (0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placesim.core.errors import Location
from placesim.core.escaping import escape_line
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import find_tags, replace_tags

_ORIGINS = "\n\nErrors may have originated from an input operation."


def expand_node_tags(message: str, graph: Graph, locate: Callable[[str], Location | None]) -> str:
    """Replace the node tags in a message as release 1.15 does; `locate` returns a node's location, or None if unknown.

    A tag of a node that is not in the graph stays, and a tag of a function is removed.
    """

    def place(name: str) -> str:
        location = locate(name)
        return "" if location is None else f" (defined at {escape_line(location.file)}:{location.line})"

    def spell(name: str) -> str:
        return f"node {name}{place(name)} " if name in graph.ids else f"{{{{node {name}}}}}"

    def spell_colocated(name: str) -> str:
        if name not in graph.ids:
            return f"{{{{colocation_node {name}}}}}"
        return f"node {name}{place(name)} placed on device {_device_summary(graph, graph.node(name))} "

    said = replace_tags(message, spell)
    said = replace_tags(said, spell_colocated, ("colocation_node",))
    said = replace_tags(said, lambda name: "", ("function_node",))
    tagged = [graph.node(name) for kind, name in find_tags(message) if kind == "node" and name in graph.ids]
    origins = [text for node in tagged if (text := _origins(graph, node, place))]
    return said + "".join((_ORIGINS, "\n".join(origins))) if origins else said


def head_of_error(message: str, graph: Graph, locate: Callable[[str], Location | None]) -> str:
    """Text that release 2.21 puts before an error message: the locations of the nodes that the message names."""
    lines = ["Graph execution error:", ""]
    for kind, name in find_tags(message):
        if kind != "function_node" and name in graph.ids:
            lines.append(f"Detected at node {name!r} defined at (most recent call last):")
            location = locate(name)
            if location is not None:
                lines.append(f'    File "{escape_line(location.file)}", line {location.line}, in <module>')
            lines.append(f"Node: {name!r}")
    return "".join(f"{line}\n" for line in lines)


def _origins(graph: Graph, node: Node, place: Callable[[str], str]) -> str:
    """Return the inputs of a node, each location once, in the order of the inputs. (Python's order varies: it uses a set.)"""
    done, found = {place(node.name)}, []
    for node_id in dict.fromkeys((*node.input_nodes, *node.control_inputs)):
        name = graph.nodes[node_id].name
        if place(name) not in done:
            done.add(place(name))
            found.append(f" {name}{place(name)}")
    return f"\nInput Source operations connected to node {node.name}:\n" + "\t\n".join(found) if found else ""


def _device_summary(graph: Graph, node: Node) -> str:
    """Return the device scopes around a node's creation, the inner ones first (2.1.7)."""
    lines = list(_scope_lines(graph, node))
    if not lines:
        return f"No device assignments were active during op '{node.name}' creation."
    return "\n".join((f"Device assignments active during op '{node.name}' creation:", *lines))


def _scope_lines(graph: Graph, node: Node) -> Iterator[str]:
    around = [scope for scope in graph.device_scopes if scope.first <= node.id < scope.end]
    places = [(scope.device, graph.located(scope.location)) for scope in around]
    if not places and node.device:
        places = [(node.device, graph.location(node))]
    for device, location in places:
        if location is not None:
            yield f"  with tf.device({device}): <{escape_line(location.file)}:{location.line}>"
