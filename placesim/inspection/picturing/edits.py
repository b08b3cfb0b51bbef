"""Edits for a picture's nodes that are not on their requested device.

Each edit is tried by placing the edited graph, as `explain` does. To keep the page fast, only nodes that are not on their
requested device are examined, and the number of trials is limited. For other nodes, the page shows the command that explains
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placesim.inspection.explaining.alternatives import Alternatives
from placesim.inspection.explaining.inquiry import Inquiry
from placesim.inspection.explaining.trials import LEAST_TRIALS
from placesim.inspection.picturing.picture import UNPLACED, Picture
from placesim.inspection.snapshot import SimulationState
from placesim.machine.device_names import ANY, parse_runtime_name
from placesim.placement.placer import Placement

NODE_BUDGET = 300_000
"""Maximum number of nodes that the trials for a page may place, which takes less than a second."""


class NodeEdits(NamedTuple):
    """Edits that would change a node's device, or if the node caused the placement error, edits that fix the error."""

    node: int
    device: str | None
    found: Alternatives


def node_edits(picture: Picture) -> Iterator[NodeEdits]:
    """Yield edits of nodes that are not on their requested device, or of the node that can't be placed, while trials remain."""
    live = picture.live
    placement = None if live is None else live.placement
    if live is None or placement is None or len(picture.nodes) * LEAST_TRIALS > NODE_BUDGET:
        return
    if placement.error is not None:
        yield from _remedies(picture, live, placement)
        return
    inquiry = None
    for node in _moved(picture):
        inquiry = inquiry or Inquiry(live, placement, budget=NODE_BUDGET)
        if inquiry.trials.remaining <= 0:
            return
        for explained in inquiry.explained([picture.nodes[node].name]):
            if explained.alternatives is not None:
                yield NodeEdits(node, explained.proof.device, explained.alternatives)


def _remedies(picture: Picture, live: SimulationState, placement: Placement) -> Iterator[NodeEdits]:
    error = Inquiry(live, placement, budget=NODE_BUDGET).placement_error()
    if error is None or error.remedies is None:
        return
    for number, node in enumerate(picture.nodes):
        if node.name == error.failure.node:
            yield NodeEdits(number, None, error.remedies)


def _moved(picture: Picture) -> Iterator[int]:
    """Yield the nodes on a device that their request does not allow."""
    devices = [parse_runtime_name(name) or ANY for name in picture.devices]
    for number, node in enumerate(picture.nodes):
        request = parse_runtime_name(node.requested) if node.requested else None
        if request is not None and node.device != UNPLACED and not request.matches(devices[node.device]):
            yield number
