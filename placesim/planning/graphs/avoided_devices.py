"""Devices that a plan avoids, and the nodes that stay on them with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.errors import UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.graph.graph import Graph, Node
from placesim.inspection.short_device_names import short_names
from placesim.machine.inventory import Device
from placesim.ops.kernel_lookup import find_kernel
from placesim.planning.graphs.plan_comparison import StayingNodes
from placesim.planning.graphs.problem_building import GraphProblem


def find_avoided(devices: Sequence[Device], wanted: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the devices with these names or types, such as `CPU`, `GPU:1` or `/gpu:1`.

    Raises UsageError for a word that names no device, and if no device is left.
    """
    short = short_names([device.name for device in devices])
    found: set[int] = set()
    for given in wanted:
        asked = given.lower().removeprefix("/device:").lstrip("/")
        matching = {
            number
            for number, device in enumerate(devices)
            if asked in (str(device.spec.type).lower(), short[number].lower(), device.name.lower().lstrip("/"))
        }
        if not matching:
            known = list(dict.fromkeys([*(str(device.spec.type) for device in devices), *short]))
            near = did_you_mean(given, known, SIMILAR_AMONG_FEW)
            raise UsageError(f"no device matches --without: got '{given}', expected one of {', '.join(known)}{near}")
        found |= matching
    if len(found) == len(devices):
        raise UsageError(f"no device is left: got --without {' '.join(wanted)}, expected at least one other device")
    return frozenset(found)


def staying_nodes(drawn: GraphProblem, graph: Graph) -> tuple[StayingNodes, ...]:
    """Return the nodes of `graph` that have no other device than the avoided ones, by device and reason."""
    names = short_names([device.name for device in drawn.devices])
    others = {device.spec.type for number, device in enumerate(drawn.devices) if number not in drawn.avoided}
    found: dict[tuple[str, str], list[str]] = {}
    for group, tasks in zip(drawn.groups, drawn.problem.groups, strict=True):
        device = drawn.start[tasks[0]]
        if not drawn.avoided.issuperset(group.choices):
            continue
        own = [graph.node(name) for name in group.nodes if name in graph.ids]
        fixed = [drawn.problem.tasks[task].name for task in tasks if not group.nodes]
        fixed = [name for name in dict.fromkeys(fixed) if name in graph.ids]
        reason = _reason(own, others, graph) if own else "it calls a function, or is fed or fetched, so it never moves"
        nodes = [node.name for node in own] or fixed
        if nodes:
            found.setdefault((names[device], reason), []).extend(nodes)
    return tuple(StayingNodes(device, tuple(nodes), reason) for (device, reason), nodes in found.items())


def _reason(nodes: Sequence[Node], others: set[str | None], graph: Graph) -> str:
    """Return the reason for which a colocation group has no device of another type."""
    asking = next((node for node in nodes if node.device), None)
    if asking is not None:
        return f"{asking.name} requests {asking.device}, see --free"
    for node in nodes:
        if not any(find_kernel(graph.registry, node.op, str(kind), node.attrs, node.name) for kind in others):
            kinds = " or ".join(sorted(map(str, others)))
            why = f"{node.op} has no kernel for {kinds} with these types"
            return why if len(nodes) == 1 else f"{why}, and {node.name} is colocated with the others"
    return "a constraint of the placer leaves no other device"
