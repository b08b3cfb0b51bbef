"""Boxes and links of a picture with a set of open scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from placesim.inspection.byte_amounts import Amount
from placesim.inspection.picturing.picture import CONTROL_SLOT, Picture
from placesim.inspection.picturing.scopes import Scope


class BoxLink(NamedTuple):
    """All edges between two boxes: their number, whether they carry tensors, and the distinct copies that they need."""

    source: int
    target: int
    edges: int
    is_data: bool
    copies: Amount


@dataclass(frozen=True, slots=True)
class Drawing:
    """The boxes of a picture, and the links between them.

    `boxes` are closed scopes and nodes (by id) in the tree's order; links refer to them by index.
    """

    boxes: tuple[Scope | int, ...]
    links: tuple[BoxLink, ...]


def draw(picture: Picture, root: Scope, opened: Set[Scope]) -> Drawing:
    """Return the drawing of a picture with the scopes in `opened` open."""
    boxes: list[Scope | int] = []
    box_of = [0] * len(picture.nodes)
    waiting: list[Scope | int] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Scope) and item in opened:
            waiting += reversed(item.children)
            continue
        for node_id in item.node_ids() if isinstance(item, Scope) else (item,):
            box_of[node_id] = len(boxes)
        boxes.append(item)
    return Drawing(tuple(boxes), tuple(_links(picture, box_of)))


def _links(picture: Picture, box_of: Sequence[int]) -> Iterator[BoxLink]:
    for ends, tally in tally_links(picture, box_of).items():
        yield BoxLink(*ends, tally.edges, tally.is_data, tally.copied(picture))


class LinkTally:
    """The number of edges between two boxes, whether they carry tensors, and the indices of the copies that they need."""

    __slots__ = ("copies", "edges", "is_data")

    def __init__(self) -> None:
        self.edges = 0
        self.is_data = False
        self.copies: dict[int, None] = {}

    def copied(self, picture: Picture) -> Amount:
        """Return the total of the copies."""
        total = Amount()
        for index in self.copies:
            total = total.plus(picture.copies[index].bytes)
        return total


def tally_links(picture: Picture, box_of: Sequence[int] | Mapping[int, int]) -> dict[tuple[int, int], LinkTally]:
    """Return the tally of each pair of boxes that edges connect; `box_of` has the box of each node."""
    known = copies_by_edge(picture)
    tallies: dict[tuple[int, int], LinkTally] = {}
    for node_id, node in enumerate(picture.nodes):
        target = box_of[node_id]
        for source in node.inputs:
            ends = box_of[source.node], target
            if ends[0] != target:
                tally = tallies.setdefault(ends, LinkTally())
                tally.edges += 1
                tally.is_data |= source.slot != CONTROL_SLOT
                copied = known.get((source.node, source.slot, node.device))
                if copied is not None:
                    tally.copies[copied] = None
    return tallies


def copies_by_edge(picture: Picture) -> dict[tuple[int, int, int], int]:
    """Map (producer, output slot, device of the reader) of an edge to the index of the edge's copy in `picture.copies`.

    All readers on a device share a copy. If several steps make the same copy, the copy of the first step is used.
    """
    found: dict[tuple[int, int, int], int] = {}
    for index, copy in enumerate(picture.copies):
        found.setdefault((copy.node, copy.slot, copy.dst), index)
    return found
