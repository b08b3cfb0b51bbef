"""Reader of `placement`: devices of nodes by name, which override the requests in entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.core.errors import GraphBuildError
from placesim.formats.problems import FileProblems, key_position, spell, value_position
from placesim.graph.copied_devices import colocated_copies
from placesim.graph.graph import DeviceScope, Graph
from placesim.graph.node_patterns import find_matching_names
from placesim.machine.device_names import format_spec, parse_python_spec


def read_placement(tree: Any, position: int, graph: Graph, problems: FileProblems) -> None:
    """Set the devices of `{PATTERN: DEVICE}` for the nodes of a complete graph; the last match counts.

    As with `--device`, such a device is not merged with the devices of scopes, and nodes colocated with the node get it too.
    Problems are reported.
    """
    rows = problems.mapping(tree, position, "'placement'")
    found = {}
    for pattern in rows:
        device = _device(rows, pattern, problems)
        names = _names(rows, pattern, graph, problems)
        if device is not None:
            found.update(dict.fromkeys(names, (device, value_position(rows, pattern))))
    copies = colocated_copies(graph, {name: device for name, (device, _) in found.items() if device})
    found |= {name: found[holder] for name, holder in copies.items() if name not in found}
    for name, (device, at) in found.items():
        node = graph.node(name)
        node.device = device
        # explanations find the place of the request in a scope with only this node
        graph.device_scopes += (DeviceScope(node.id, node.id + 1, device, at), DeviceScope(node.id, node.id + 1, None, at))


def _device(rows: dict[Any, Any], pattern: Any, problems: FileProblems) -> str | None:
    device = rows[pattern]
    if device is not None and not isinstance(device, str):
        message = f"wrong type in 'placement': got {spell(device)}, expected a device specification"
        problems.add(value_position(rows, pattern), message)
        return None
    try:
        return format_spec(parse_python_spec(device or ""))
    except GraphBuildError as error:
        problems.add_error(value_position(rows, pattern), error)
        return None


def _names(rows: dict[Any, Any], pattern: Any, graph: Graph, problems: FileProblems) -> Sequence[str]:
    if not isinstance(pattern, str):
        message = f"wrong type in 'placement': got {spell(pattern)}, expected a node's name, an id or a pattern"
        problems.add(key_position(rows, pattern), message)
        return ()
    names = find_matching_names(pattern, graph)
    if not names and not problems:  # an invalid entry may have the name
        message = f"no node matches 'placement': got '{pattern}', expected a node's name or id, or a pattern that matches one"
        near = problems.did_you_mean(pattern, (*graph.handles, *graph.ids))
        problems.add(key_position(rows, pattern), message + near)
    return names
