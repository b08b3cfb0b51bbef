"""The fewest device requests with which TensorFlow places every node as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placesim.core.errors import InternalError
from placesim.formats.device_annotations import assign_devices
from placesim.graph.node_patterns import matcher
from placesim.graph.session_steps import GraphFile
from placesim.machine.inventory import DeviceSet
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer

MAX_ROUNDS = 20


def clear_requests(file: GraphFile, patterns: Sequence[str]) -> GraphFile:
    """Return the graph without the device requests of nodes that match a pattern; `*` matches all."""
    fits = matcher(patterns, file.graph.handles)
    return assign_devices(file, {node.name: "" for node in file.graph.nodes if node.device and fits(node.name)})


def annotate(file: GraphFile, planned: Mapping[str, str], device_set: DeviceSet, *, soft: bool) -> dict[str, str]:
    """Return the fewest device requests, by node, that make the placer follow the plan.

    `planned` has full device names by node. Each round places the graph and requests the device of one node of each misplaced
    group, until all nodes are as planned.

    Raises InternalError if the placer never follows the plan, and TensorFlow's error if it rejects the graph.
    """
    asked: dict[str, str] = {}
    for number in range(MAX_ROUNDS):
        placement = SessionPlacer(device_set, soft).place(assign_devices(file, asked).graph)
        if placement.error is not None:
            raise placement.error
        wrong = [name for name in find_misplaced_nodes(placement, planned) if name in file.graph.ids]
        if not wrong:
            return asked
        # a node with its own request gets that device, whatever the placer prefers
        leaders = _leaders(placement, wrong) if number < MAX_ROUNDS // 2 else wrong
        asked.update((name, planned[name]) for name in leaders)
    raise InternalError(f"{wrong[0]} cannot be placed on {planned[wrong[0]]}, its planned device")


def find_misplaced_nodes(placement: Placement, planned: Mapping[str, str]) -> list[str]:
    """Return the planned nodes that are on another device, in the graph's order."""
    where = devices_by_name(placement)
    names = (node.name for node in placement.graph.nodes)
    return [name for name in names if name in planned and where.get(name) != planned[name]]


def devices_by_name(placement: Placement) -> dict[str, str]:
    """Return the device of each placed node, by name."""
    places = zip(placement.graph.nodes, placement.devices, strict=True)
    return {node.name: device.name for node, device in places if device is not None}


def _leaders(placement: Placement, wrong: Sequence[str]) -> list[str]:
    """Return the first misplaced node of each group; the other nodes of the group follow its request."""
    graph, groups = placement.graph, placement.groups
    found: dict[int, str] = {}
    for name in wrong:
        found.setdefault(groups.root(graph.ids[name]), name)
    return list(found.values())
