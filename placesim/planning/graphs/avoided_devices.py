"""Devices that a plan avoids, and the nodes that stay on their device with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.errors import GraphBuildError, UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.graph.graph import Graph, Node
from placesim.inspection.short_device_names import short_names
from placesim.machine.device_names import ANY, parse_python_spec
from placesim.machine.inventory import Device
from placesim.ops.kernel_lookup import find_kernel
from placesim.planning.graphs.plan_comparison import StayingNodes
from placesim.planning.graphs.problem_building import GraphProblem

_FIXED = "it calls a function, or is fed or fetched, so it never moves"


def find_avoided(devices: Sequence[Device], wanted: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the devices that specifications such as `CPU`, `GPU:1` or `/job:worker` match.

    Raises UsageError for a specification that matches no device, and if no device is left.
    """
    found: set[int] = set()
    for given in wanted:
        try:
            spec = parse_python_spec(given)
        except GraphBuildError:
            spec = ANY
        matching = {number for number, device in enumerate(devices) if spec != ANY and spec.matches(device.spec)}
        if not matching:
            known = dict.fromkeys([*(str(device.spec.type) for device in devices), *short_names([row.name for row in devices])])
            near = did_you_mean(given, known, SIMILAR_AMONG_FEW)
            raise UsageError(f"no device matches --without: got '{given}', expected one of {', '.join(known)}{near}")
        found |= matching
    if len(found) == len(devices):
        raise UsageError(f"no device is left: got --without {' '.join(wanted)}, expected at least one other device")
    return frozenset(found)


def staying_nodes(drawn: GraphProblem, graph: Graph) -> tuple[StayingNodes, ...]:
    """Return the nodes of `graph` that can only run on avoided devices, by device and reason."""
    names = short_names([device.name for device in drawn.devices])
    others = {device.spec.type for number, device in enumerate(drawn.devices) if number not in drawn.avoided}
    found: dict[tuple[str, str], list[str]] = {}
    for group, tasks in zip(drawn.groups, drawn.problem.groups, strict=True):
        if not drawn.avoided.issuperset(group.choices):
            continue
        # a group without nodes has tasks that never move
        held = group.nodes or dict.fromkeys(drawn.problem.tasks[task].name for task in tasks)
        nodes = [graph.node(name) for name in held if name in graph.ids]
        if nodes:
            reason = _reason(nodes, others, graph) if group.nodes else _FIXED
            found.setdefault((names[drawn.start[tasks[0]]], reason), []).extend(node.name for node in nodes)
    return tuple(StayingNodes(device, tuple(nodes), reason) for (device, reason), nodes in found.items())


def held_nodes(drawn: GraphProblem, graph: Graph, before: Graph) -> tuple[StayingNodes, ...]:
    """Return the nodes that cannot move since colocated nodes request their device, by device, with these nodes as the reason.

    Only nodes whose requests in the graph `before` were dropped are returned, and none that `staying_nodes` returns.
    """
    names = short_names([device.name for device in drawn.devices])
    found: dict[int, list[str]] = {}
    asking: dict[int, list[Node]] = {}
    for group in drawn.groups:
        is_held = len(group.choices) == 1 and group.choices[0] not in drawn.avoided
        nodes = [graph.node(name) for name in group.nodes if name in graph.ids] if is_held else []
        requests = [node for node in nodes if node.device]
        held = [node.name for node in nodes if not node.device and before.node(node.name).device] if requests else []
        if held:
            found.setdefault(group.choices[0], []).extend(held)
            asking.setdefault(group.choices[0], []).extend(requests)
    return tuple(
        StayingNodes(names[device], tuple(nodes), _held_reason(asking[device])) for device, nodes in sorted(found.items())
    )


def _held_reason(asking: Sequence[Node]) -> str:
    """Return the reason why nodes that are colocated with requests can't move."""
    node, more = asking[0], len(asking) - 1
    if not more:
        return f"colocated with {node.name}, which requests {node.device}: free this one, too"
    others = f"{more} more node{'s' * (more > 1)}"
    return f"colocated with {node.name} and {others}, which request {node.device}: free these, too"


def _reason(nodes: Sequence[Node], others: set[str | None], graph: Graph) -> str:
    """Return the reason why a colocation group can't run on another device type."""
    asking = next((node for node in nodes if node.device), None)
    if asking is not None:
        return f"{asking.name} requests {asking.device}, see --free"
    for node in nodes:
        if not any(find_kernel(graph.registry, node.op, str(kind), node.attrs, node.name) for kind in others):
            kinds = " or ".join(sorted(map(str, others)))
            why = f"{node.op} has no kernel for {kinds} with these types"
            return why if len(nodes) == 1 else f"{why}, and {node.name} is colocated with the others"
    return "a constraint of the placer leaves no other device"
