"""Trial of an edit: the edited graph is placed completely, and compared with the previous placement.

A placement of 100,000 nodes takes about a tenth of a second. So each trial places the whole graph, and nothing is assumed about
the effect of an edit. The total number of placed nodes limits the trials (`Trials.budget`).
"""

from __future__ import annotations

from dataclasses import dataclass

from placesim.core.errors import OpError
from placesim.graph.graph import Graph
from placesim.inspection.explaining.edits import Edit, Reach, Setting
from placesim.machine.inventory import Device
from placesim.placement.function_bodies import bodies_of, device_at, logged_nodes
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer

NODE_BUDGET = 2_500_000
"""Maximum number of nodes that all trials of an explanation may place, which takes some seconds."""
LEAST_TRIALS = 12
"""Minimum number of trials, for graphs of any size."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An edit and its effect: the new device of the node, and the number of other nodes that moved; or an error."""

    edit: Edit
    device: str | None
    moved: int
    error: OpError | None = None


class Trials:
    """Trials that place edited settings, and compare them with the original `placement`."""

    def __init__(self, setting: Setting, placement: Placement, budget: int = NODE_BUDGET) -> None:
        self.setting = setting
        self.placement = placement
        bodies = (body.placement for body in bodies_of(placement).bodies)
        size = max(1, sum(setting.sizes) + sum(len(found.graph) for found in bodies if found is not None))
        self.remaining = max(LEAST_TRIALS, budget // size)
        self._before = _by_name(placement)
        self._general: dict[Edit, Placement] = {}

    def attempt(self, edit: Edit, node: str) -> Trial:
        """Return the effect of an edit on a node, and the number of other nodes that move."""
        placement = self._general.get(edit) or self.place(edit.apply(self.setting))
        if edit.reach in (Reach.SESSION, Reach.MACHINE):
            self._general[edit] = placement  # cached, since the explanation of every node tries this edit
        device = device_at(placement, node)
        return Trial(edit, None if device is None else device.name, self._moved(placement), placement.error)

    def place(self, setting: Setting) -> Placement:
        """Place a setting, which uses up one trial."""
        self.remaining -= 1
        return place_setting(setting)

    def _moved(self, placement: Placement) -> int:
        if placement.error is not None or self.placement.error is not None:
            return 0
        is_alone = not placement.graph.functions
        if is_alone and placement.graph.nodes and len(placement.devices) == len(self.placement.devices):
            pairs = zip(placement.devices, self.placement.devices, strict=True)
            return sum(one is not other and one != other for one, other in pairs)
        return sum(self._before.get(name) != device for name, device in _by_name(placement).items())


def place_setting(setting: Setting) -> Placement:
    """Place a setting as its session would: the graph is placed again each time that nodes have been added."""
    placer = SessionPlacer(setting.devices, setting.soft)
    for size in setting.sizes or (len(setting.graph),):
        placement = placer.place(_first_nodes(setting.graph, size))
        if placement.error is not None:
            break
    return placement


def _first_nodes(graph: Graph, size: int) -> Graph:
    if size == len(graph):
        return graph
    part = graph.emptied()
    part.nodes = graph.nodes[:size]
    part.ids = {node.name: node.id for node in part.nodes}
    return part


def _by_name(placement: Placement) -> dict[str, Device | None]:
    """Return the devices of the graph's nodes and of nodes in bodies, by name or path."""
    found = {node.name: device for node, device in zip(placement.graph.nodes, placement.devices, strict=True)}
    if bodies_of(placement).bodies:
        found |= {node.path: node.device for node in logged_nodes(placement) if node.body}
    return found
