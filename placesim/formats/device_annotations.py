"""Requested devices of a graph's nodes: counts, removal, and replacement by node names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from placesim.graph.copied_devices import colocated_copies
from placesim.graph.graph import Graph, LibraryFunction, Node, NodeDef
from placesim.graph.node_patterns import find_matching_names
from placesim.graph.session_steps import GraphFile


def device_annotations(file: GraphFile) -> dict[str, int]:
    """Return the number of nodes that request each device, in the order in which the devices first appear."""
    classes, numbers = file.graph.classes()
    devices = [device for _, device, _ in classes]
    found = Counter(map(devices.__getitem__, numbers.tolist()))
    del found[""]
    return dict(found)


def clear_devices(file: GraphFile) -> GraphFile:
    """Return a copy without device requests, in the graph and in functions."""
    functions = {name: _changed_function(function, lambda node: "") for name, function in file.graph.functions.items()}
    return replace(file, graph=_changed(file.graph, lambda node: "", functions))


def set_devices(file: GraphFile, devices: Sequence[tuple[str, str]]) -> GraphFile:
    """Return a copy with devices for nodes whose names match a pattern; the last match counts.

    Nodes that copied their device from a colocated node get that node's new device, as in a script.
    """
    asked = {name: device for pattern, device in devices for name in find_matching_names(pattern, file.graph)}
    copies = colocated_copies(file.graph, {name: device for name, device in asked.items() if device})
    return assign_devices(file, asked | {name: asked[holder] for name, holder in copies.items() if name not in asked})


def assign_devices(file: GraphFile, devices: Mapping[str, str]) -> GraphFile:
    """Return a copy with requested devices by node name; other nodes keep their requests."""
    return replace(file, graph=_changed(file.graph, lambda node: devices.get(node.name, node.device), file.graph.functions))


def assign_functions(file: GraphFile, devices: Mapping[str, Mapping[str, str]]) -> GraphFile:
    """Return a copy with requested devices in functions, by function and node name; other nodes keep their requests."""

    def device_in(name: str) -> Callable[[NodeDef], str]:
        given = devices.get(name, {})
        return lambda node: given.get(node.name, node.device)

    functions = {name: _changed_function(function, device_in(name)) for name, function in file.graph.functions.items()}
    return replace(file, graph=_changed(file.graph, lambda node: node.device, functions))


def _changed_function(function: LibraryFunction, device_of: Callable[[NodeDef], str]) -> LibraryFunction:
    return replace(function, nodes=tuple(node._replace(device=device_of(node)) for node in function.nodes))


def _changed(graph: Graph, device_of: Callable[[Node], str], functions: dict[str, LibraryFunction]) -> Graph:
    changed = graph.emptied()
    changed.functions = functions
    for node in graph.nodes:
        inputs = (node.input_nodes, node.input_slots, node.control_inputs)
        copy = Node(node.id, node.name, node.signature, node.attrs, *inputs, device_of(node), node.location)
        changed.nodes.append(copy)
        changed.ids[node.name] = node.id
    return changed
