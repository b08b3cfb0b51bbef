"""Devices that must share a worker, because a function, with all its state, runs on the worker that calls it."""

from __future__ import annotations

from collections.abc import Mapping

from placesim.graph.graph import Node
from placesim.ops.categories import WITHOUT_STATE
from placesim.placement.function_bodies import bodies_of
from placesim.placement.placer import Placement


def keeps_state(node: Node) -> bool:
    """Whether a node keeps state on its device."""
    return node.signature.is_stateful and node.op not in WITHOUT_STATE


def join_workers(placement: Placement, homes: Mapping[str, str]) -> dict[str, str]:
    """Return a worker for each device, so that the state of a called function is always on the worker of its caller.

    Each device on which a called function keeps state is joined with the caller's device. All joined devices get the worker
    of the first one among them.
    """
    joined = {device: {device} for device in homes}
    callers: dict[str, str] = {}  # by body path: device of the graph's node that calls the body, maybe through other bodies
    for body in bodies_of(placement).bodies:
        caller = callers[body.path] = next(
            (device for path, device in callers.items() if body.path.startswith(f"{path}/")), body.device
        )
        if body.placement is None or body.placement.error is not None:
            continue
        for node, device in zip(body.placement.graph.nodes, body.placement.devices, strict=True):
            if device is not None and keeps_state(node) and joined[device.name] is not joined[caller]:
                group = joined[device.name] | joined[caller]
                joined.update(dict.fromkeys(group, group))
    order = {device: number for number, device in enumerate(homes)}
    return {device: homes[min(group, key=order.__getitem__)] for device, group in joined.items()}
