"""Towers (scopes that are copies of each other), and a graph in which they run one after another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from placesim.graph.graph import Graph, Node
from placesim.graph.node_patterns import enclosing_scopes
from placesim.inspection.explaining.annotations import copy_node, replace_nodes

MIN_NODES = 3
"""Minimum number of nodes of a tower."""
MAX_EDGES = 1 << 16
"""Maximum number of control edges added between two towers. If more are needed, none are added."""
_COUNTER = re.compile(r"_?\d+$")


def find_towers(graph: Graph, devices: Mapping[str, str], device: str) -> tuple[str, ...]:
    """Return scopes, in graph order, whose parts on this device are copies of each other.

    `devices` has the device of each executed node by name. If there are several such sets, the set with the most nodes is
    returned; of nested sets, the outermost. The result is empty if there is none.
    """
    ops: dict[str, Counter[str]] = {}
    for node in graph.nodes:
        if devices.get(node.name) == device:
            for scope in enclosing_scopes(node.name):
                ops.setdefault(scope[:-1], Counter())[node.op] += 1
    series: dict[tuple[str, frozenset[tuple[str, int]]], list[str]] = {}
    for scope, counts in ops.items():
        if counts.total() >= MIN_NODES:
            series.setdefault((_COUNTER.sub("", scope), frozenset(counts.items())), []).append(scope)
    several = [scopes for scopes in series.values() if len(scopes) > 1]
    best = max(several, key=lambda scopes: sum(ops[scope].total() for scope in scopes), default=[])
    return tuple(best)


def one_after_another(graph: Graph, towers: Sequence[str], taking_part: Mapping[str, str]) -> Graph | None:
    """Return the graph with control edges from the last nodes of each tower to the first nodes of the next.

    Only nodes in `taking_part` count. Returns None if a tower depends on a later one, or if too many edges are needed.
    """
    nodes = [node for node in graph.nodes if node.name in taking_part]
    members = [{node.id for node in nodes if node.name.startswith(f"{tower}/")} for tower in towers]
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


def _needs(graph: Graph, nodes: Sequence[int], others: set[int]) -> bool:
    """Whether any of `nodes` depends on a node in `others`."""
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
