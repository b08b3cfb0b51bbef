"""Execution order of nodes and boxes: the depth of each node, and a place for each box of a picture."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from placesim.inspection.picturing.picture import PictureNode
from placesim.ops.categories import NEXT_ITERATIONS


def node_depths(nodes: Sequence[PictureNode]) -> list[int]:
    """Return for each node the number of edges on the longest path that ends at the node.

    A node without inputs is placed just before the first node that reads it. Edges that close a loop are ignored.
    """
    order = _in_order(nodes)
    placed = [-1] * len(nodes)
    for place, node_id in enumerate(order):
        placed[node_id] = place
    depths, readers_least = [0] * len(nodes), [-1] * len(nodes)
    for node_id in order:
        before = [source.node for source in nodes[node_id].inputs if placed[source.node] < placed[node_id]]
        depths[node_id] = max((depths[source] + 1 for source in before), default=0)
        for source in before:
            if readers_least[source] < 0 or depths[node_id] < readers_least[source]:
                readers_least[source] = depths[node_id]
    return [
        depth if node.inputs or least < 0 else least - 1
        for node, depth, least in zip(nodes, depths, readers_least, strict=True)
    ]


def _in_order(nodes: Sequence[PictureNode]) -> list[int]:
    """Return the ids of the nodes, each after its inputs.

    Nodes on a cycle that no NextIteration closes come last, in the graph's order.
    """
    readers: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for node_id, node in enumerate(nodes):
        for source in node.inputs:
            if nodes[source.node].op not in NEXT_ITERATIONS:
                readers[source.node].append(node_id)
                missing[node_id] += 1
    ready = deque(node_id for node_id, count in enumerate(missing) if not count)
    order: list[int] = []
    while ready:
        node_id = ready.popleft()
        order.append(node_id)
        for reader in readers[node_id]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return order + [node_id for node_id, count in enumerate(missing) if count]


def box_places(depths: Sequence[float], links: Iterable[tuple[int, int]]) -> list[int]:
    """Return the place of each box, from 0 on, after all its predecessors; `depths` has the mean depth of each box's nodes.

    Boxes on a cycle are ordered by depth, and links against this order are ignored. The page uses the same rule (`placesOf` in
    `assets/lane_places.js`).
    """
    order = sorted(range(len(depths)), key=lambda box: (depths[box], box))
    rank = [0] * len(order)
    for number, box in enumerate(order):
        rank[box] = number
    readers: list[set[int]] = [set() for _ in order]
    for source, target in links:
        if rank[source] < rank[target]:
            readers[source].add(target)
    places = [0] * len(order)
    for box in order:
        for reader in readers[box]:
            places[reader] = max(places[reader], places[box] + 1)
    return places
