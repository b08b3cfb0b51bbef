"""Topological order of nodes; the file's own order if that is valid."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from placesim.core.grouped import grouped
from placesim.formats.onnx.onnx_node import UnsupportedNodeError
from placesim.formats.problems import spell


def read_names(proto: Any) -> Iterator[str]:
    """Yield the names that a node reads: its inputs, and outer names in the bodies of its attributes."""
    yield from (name for name in proto.input if name)
    for attr in proto.attribute:
        for graph in (*((attr.g,) if attr.HasField("g") else ()), *attr.graphs):
            yield from outer_names(graph)


def outer_names(graph: Any) -> dict[str, None]:
    """Return the names that a body reads from outside, in order of use."""
    own = {given.name for given in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    found = {name: None for node in graph.node for name in read_names(node) if name not in own}
    return found | {wanted.name: None for wanted in graph.output if wanted.name not in own}


def in_order(nodes: Sequence[Any]) -> list[tuple[int, Any]]:
    """Return the nodes in topological order, each with its index in the file. Raises UnsupportedNodeError for a cycle."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waits = [{makers[name] for name in read_names(node) if name in makers} for node in nodes]
    if all(maker < index for index, needed in enumerate(waits) for maker in needed):
        return list(enumerate(nodes))
    readers = grouped((maker, index) for index, needed in enumerate(waits) for maker in needed)
    left = [len(needed) for needed in waits]
    ready = [index for index, count in enumerate(left) if not count]
    found = []
    while ready:
        index = heapq.heappop(ready)
        found.append((index, nodes[index]))
        for reader in readers.get(index, ()):
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    if len(found) < len(nodes):
        raise UnsupportedNodeError(_cycle_message(nodes, waits, {index for index, count in enumerate(left) if count}))
    return found


def _cycle_message(nodes: Sequence[Any], waits: Sequence[set[int]], left: set[int]) -> str:
    """Return the message about a cycle among the nodes that are left, each of which waits for another one of them."""
    seen: dict[int, int] = {}
    index = min(left)
    while index not in seen:
        seen[index] = len(seen)
        index = min(waits[index] & left)
    cycle = [one for one, place in seen.items() if place >= seen[index]][::-1]
    named = [f"{spell(nodes[one].name or nodes[one].op_type)} (node {one})" for one in (*cycle, cycle[0])]
    listed = named if len(named) <= 6 else [*named[:3], "...", *named[-2:]]
    return f"cycle: got {' -> '.join(listed)}, expected an acyclic graph"
