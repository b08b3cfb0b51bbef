"""Parallel copies among sibling scopes: siblings of equal shape at the same place in the order, drawn as one box.

Copies are scopes with the same ops on the same devices, or nodes of one op on one device whose names differ only in numbers.
They have the same place in the execution order, and equal inputs and readers. No edge leads from one copy to another, so one
box for all copies keeps the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from placesim.core.grouped import grouped
from placesim.inspection.picturing.order import box_places, node_depths
from placesim.inspection.picturing.picture import PictureNode

LIKE_FROM = 3
"""Minimum number of copies that are combined."""
CROWDED_FROM = 13
"""Minimum number of siblings for combining copies; fewer siblings are readable individually."""
Child = TypeVar("Child", bound=Hashable)


class Likeness:
    """A search for equal siblings. `stem` returns a node's name without numbers."""

    def __init__(self, nodes: Sequence[PictureNode], stem: Callable[[int], str]) -> None:
        self._nodes = nodes
        self._stem = stem
        self._depths = node_depths(nodes)

    def groups(self, children: Sequence[Child], nodes_of: Callable[[Child], Iterable[int]]) -> list[list[Child]]:
        """Return the children in groups of equal children, ordered by the first child. Most groups have one child."""
        if len(children) < CROWDED_FROM:
            return [[child] for child in children]
        inside = [list(nodes_of(child)) for child in children]
        links = self._links(inside)
        places = box_places([sum(self._depths[i] for i in node_ids) / len(node_ids) for node_ids in inside], links)
        kinds = _numbered([(places[number], self._shape(child, inside[number])) for number, child in enumerate(children)])
        found = grouped((kind, child) for kind, child in zip(_refined(kinds, links), children, strict=True))
        return [part for group in found.values() for part in ([group] if len(group) >= LIKE_FROM else [[one] for one in group])]

    def _links(self, inside: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
        """Return the pairs of siblings that an edge connects, by index."""
        box_of = {node_id: box for box, node_ids in enumerate(inside) for node_id in node_ids}
        return {
            (box_of[source.node], box)
            for node_id, box in box_of.items()
            for source in self._nodes[node_id].inputs
            if box_of.get(source.node, box) != box
        }

    def _shape(self, child: Hashable, node_ids: Sequence[int]) -> Hashable:
        if isinstance(child, int):
            return self._nodes[child].op, self._nodes[child].device, self._stem(child)
        return frozenset(Counter((self._nodes[i].op, self._nodes[i].device) for i in node_ids).items())


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """Return for each key the index of the first equal key."""
    first: dict[Hashable, int] = {}
    return [first.setdefault(key, number) for number, key in enumerate(keys)]


def _refined(kinds: list[int], links: Iterable[tuple[int, int]]) -> list[int]:
    """Split the classes of siblings until in each class, all siblings have sources and readers of the same classes."""
    sources: list[set[int]] = [set() for _ in kinds]
    readers: list[set[int]] = [set() for _ in kinds]
    for source, reader in links:
        sources[reader].add(source)
        readers[source].add(reader)
    while True:
        seen = [
            (kind, *(frozenset(kinds[other] for other in others[number]) for others in (sources, readers)))
            for number, kind in enumerate(kinds)
        ]
        finer = _numbered(seen)
        if finer == kinds:
            return kinds
        kinds = finer
