"""Towers of a graph, copies of a part in scopes side by side, and the graph in which they run one after another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from placesim.graph.graph import Graph, Node
from placesim.inspection.explaining.annotations import copy_node, replace_nodes

MIN_NODES = 3
"""A scope with fewer nodes is no tower."""
MAX_EDGES = 1 << 16
"""Maximum control edges added between two towers; if more are needed, none are tried."""
_COUNTER = re.compile(r"_?\d+$")


def find_towers(graph: Graph, devices: Mapping[str, str], device: str) -> tuple[str, ...]:
    """Scopes, in graph order, that are copies of each other in their part on this device.

    `devices` has the participating nodes by name.  Of several such series, the one with the most nodes is chosen, of nested
    ones the outermost; empty if there is none.
    """
    ops: dict[str, Counter[str]] = {}
    for node in graph.nodes:
        if devices.get(node.name) == device:
            for scope in _scopes(node.name):
                ops.setdefault(scope, Counter())[node.op] += 1
    series: dict[tuple[str, frozenset[tuple[str, int]]], list[str]] = {}
    for scope, counts in ops.items():
        if counts.total() >= MIN_NODES:
            series.setdefault((_COUNTER.sub("", scope), frozenset(counts.items())), []).append(scope)
    several = [scopes for scopes in series.values() if len(scopes) > 1]
    best = max(several, key=lambda scopes: sum(ops[scope].total() for scope in scopes), default=[])
    return tuple(best)


def one_after_another(graph: Graph, towers: Sequence[str], taking_part: Mapping[str, str]) -> Graph | None:
    """The graph with control edges from the ends of each tower to the starts of the next; only nodes that take part count.

    None if a tower needs something of a later one, or where it would take too many edges.
    """
    members = [
        {node.id for node in graph.nodes if node.name in taking_part and tower in _scopes(node.name)} for tower in towers
    ]
    changed: dict[int, Node] = {}
    for before, after in pairwise(members):
        read = {source for node_id in before for source in graph.nodes[node_id].input_nodes}
        ends = tuple(sorted(before - read))
        starts = [
            node
            for node in map(graph.nodes.__getitem__, sorted(after))
            if node.input_nodes and not any(source in after and graph.nodes[source].input_nodes for source in node.input_nodes)
        ]
        if len(ends) * len(starts) > MAX_EDGES or _needs(graph, ends, after):
            return None
        for start in starts:
            node = changed.setdefault(start.id, copy_node(start))
            node.control_inputs = (*node.control_inputs, *(end for end in ends if end not in node.control_inputs))
    return replace_nodes(graph, changed.values())


def _scopes(name: str) -> Iterator[str]:
    """All scopes of a node."""
    at = name.find("/")
    while at > 0:
        yield name[:at]
        at = name.find("/", at + 1)


def _needs(graph: Graph, nodes: Sequence[int], others: set[int]) -> bool:
    """Whether any of these nodes depends on one of the others."""
    seen, waiting = set(nodes), list(nodes)
    while waiting:
        node = graph.nodes[waiting.pop()]
        for source in (*node.input_nodes, *node.control_inputs):
            if source in others:
                return True
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return False
