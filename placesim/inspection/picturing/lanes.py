"""Lanes of a picture: one row for each device with its boxes in execution order, and the copies between rows.

The page uses the same rules (`assets/lane_places.js`, and `findPieces` in `assets/device_lanes.js`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from placesim.core.grouped import grouped
from placesim.inspection.byte_amounts import Amount, amounts_by
from placesim.inspection.picturing.drawing import tally_links
from placesim.inspection.picturing.order import box_places, node_depths
from placesim.inspection.picturing.picture import UNPLACED, Picture
from placesim.inspection.picturing.scopes import Scope, walk


class ScopePiece(NamedTuple):
    """The part of a closed scope, or of a node by its id, that is on one device. A scope on two devices has two pieces.

    `nodes` are the ids of the piece's nodes. `column` starts at 0, and `place` is the piece's place in the execution order.
    """

    item: Scope | int
    device: int
    nodes: tuple[int, ...]
    place: int
    column: int


class Wire(NamedTuple):
    """The copies for all edges from one piece to another. `target` is None if only the target's lane is known.

    `lane` is the device of the target. Within a lane, nothing is copied, so `copies` has the tensors of the edges.
    """

    source: int
    target: int | None
    lane: int
    copies: Amount
    is_data: bool = True


@dataclass(frozen=True, slots=True)
class PictureLanes:
    """The lanes from top to bottom by device index, with UNPLACED last if present. Wires refer to pieces by index."""

    devices: tuple[int, ...]
    pieces: tuple[ScopePiece, ...]
    wires: tuple[Wire, ...]
    columns: int

    def of_device(self, device: int) -> list[ScopePiece]:
        """Return the pieces in a lane, in execution order."""
        return sorted((piece for piece in self.pieces if piece.device == device), key=lambda piece: piece.place)


def arrange_lanes(picture: Picture, root: Scope, opened: Set[Scope], most_columns: int) -> PictureLanes:
    """Arrange a picture in lanes with the scopes in `opened` open, in at most `most_columns` columns.

    Wires are copies between lanes; if all nodes are on one device, wires are the links within its lane.
    """
    parts = list(_parts(picture, root, opened))
    depths = node_depths(picture.nodes)
    mean = [sum(depths[node] for node in nodes) / len(nodes) for _, _, nodes in parts]
    piece_of = {node: number for number, (_, _, nodes) in enumerate(parts) for node in nodes}
    links = tally_links(picture, piece_of)
    places = box_places(mean, links)
    devices = [device for _, device, _ in parts]
    columns = columns_of(list(zip(places, devices, strict=True)), most_columns)
    # the pieces in one column of a lane are sorted by place, and then by depth
    order = sorted(range(len(parts)), key=lambda number: (places[number], mean[number]))
    numbers = {number: place for place, number in enumerate(order)}
    pieces = [ScopePiece(*parts[number], places[number], columns[places[number]]) for number in order]
    lanes = (*range(len(picture.devices)), *((UNPLACED,) if UNPLACED in devices else ()))
    is_alone = len(set(devices)) == 1
    wires = [
        Wire(numbers[source], numbers[target], devices[target], link.copied(picture), link.is_data)
        for (source, target), link in links.items()
        if link.copies or is_alone
    ]
    passed = {copy for link in links.values() for copy in link.copies}
    if picture.live is None:
        wires += _written_wires(picture, {node: numbers[number] for node, number in piece_of.items()}, passed)
    return PictureLanes(lanes, tuple(pieces), tuple(wires), max(columns, default=0) + 1)


def _parts(picture: Picture, root: Scope, opened: Set[Scope]) -> Iterator[tuple[Scope | int, int, tuple[int, ...]]]:
    """Yield each closed item on each of its devices, with the ids of its nodes on that device."""
    for _, item in walk(root, opened):
        if item is None or item in opened:
            continue
        here = grouped((picture.nodes[node].device, node) for node in (item.node_ids() if isinstance(item, Scope) else (item,)))
        for device, nodes in sorted(here.items()):
            yield item, device, tuple(nodes)


def _written_wires(picture: Picture, piece_of: dict[int, int], passed: Set[int]) -> Iterator[Wire]:
    """Yield the wires of a written report, which has copies but no edges. Each copy leads to the lane of its target."""
    left = (copy for number, copy in enumerate(picture.copies) if number not in passed)
    shown = (copy for copy in left if copy.node >= 0 and copy.src != copy.dst)
    for (source, lane), amount in amounts_by(((piece_of[copy.node], copy.dst), copy.bytes) for copy in shown).items():
        yield Wire(source, None, lane, amount)


def columns_of(placed: Sequence[tuple[int, int]], most: int) -> list[int]:
    """Return the column of each place.

    Neighbouring places share a column, so that there are at most `most` columns and the highest stack of boxes in a lane is as
    low as possible. `placed` are the place and the device of each box.
    """
    counts: list[dict[int, int]] = [{} for _ in range(max((place for place, _ in placed), default=0) + 1)]
    for place, device in placed:
        counts[place][device] = counts[place].get(device, 0) + 1
    if len(counts) <= most:
        return list(range(len(counts)))
    # a higher limit per column never needs more columns
    limits = range(1, len(placed) + 1)
    return _packed(counts, limits[bisect_left(limits, True, key=lambda limit: _packed(counts, limit)[-1] < most)])


def _packed(counts: Sequence[dict[int, int]], limit: int) -> list[int]:
    """Return the columns of places if each lane has at most `limit` boxes in a column.

    Each column takes as many consecutive places as possible.
    """
    found, held = [0], dict(counts[0])
    for here in counts[1:]:
        both = {device: held.get(device, 0) + here.get(device, 0) for device in {**held, **here}}
        is_new = max(both.values()) > limit
        found.append(found[-1] + is_new)
        held = dict(here) if is_new else both
    return found
