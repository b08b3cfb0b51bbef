"""Conversion between devices of a placement's nodes and devices of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placesim.placement.session_placer import SessionPlacer

if TYPE_CHECKING:
    from placesim.graph.session_steps import GraphFile
    from placesim.planning.graphs.problem_building import GraphProblem


def planned_devices(drawn: GraphProblem, devices: Sequence[int]) -> dict[str, str]:
    """Return the device of each movable node, by name."""
    found: dict[str, str] = {}
    for tasks, group in zip(drawn.problem.groups, drawn.groups, strict=True):
        found.update((name, drawn.devices[devices[tasks[0]]].name) for name in group.nodes)
    return found


def assignment_of(drawn: GraphProblem, file: GraphFile) -> tuple[int, ...] | None:
    """Return TensorFlow's placement of a graph as an assignment.

    Return None if TensorFlow rejects the graph, or places a group on a device that is not among the group's choices.
    """
    placement = SessionPlacer(drawn.device_set, drawn.is_soft).place(file.graph)
    if placement.error is not None:
        return None
    numbers = {device.name: number for number, device in enumerate(drawn.devices)}
    graph, devices = placement.graph, list(drawn.start)
    for tasks, group in zip(drawn.problem.groups, drawn.groups, strict=True):
        placed = (placement.devices[graph.ids[name]] for name in group.nodes if name in graph.ids)
        found = {numbers[device.name] for device in placed if device is not None}
        if not found:
            continue
        if len(found) > 1 or not found <= set(group.choices):
            return None
        (device,) = found
        for task in tasks:
            devices[task] = device
    return tuple(devices)
