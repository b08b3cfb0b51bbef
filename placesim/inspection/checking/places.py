"""Rules about the devices of nodes: allowed devices, and nodes that must be together or apart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from placesim.core.styled_text import device, fill_template
from placesim.inspection.checking.rule import DEVICE, EXCEPT, NODES, OPS, Breach, PolicyRule, Values
from placesim.inspection.checking.subject import Subject, is_on
from placesim.inspection.short_device_names import short_device
from placesim.inspection.snapshot import PlacedNode
from placesim.ops.categories import IDENTITIES, VARIABLE_READS, VARIABLES

SHOWN = 3
"""Maximum number of nodes that a message about a request names."""


def _chosen(subject: Subject, values: Values) -> Iterator[PlacedNode]:
    ops, names = values["ops"], values["nodes"]
    is_named, is_excepted = subject.matcher(names), subject.matcher(values["except"])
    nodes = (node for node in subject.snapshot.nodes if not is_excepted(node))
    return (node for node in nodes if (not ops or node.op in ops) and (not names or is_named(node)))


def on_device(subject: Subject, values: Values, *, allowed: bool) -> Iterator[Breach]:
    """Yield the nodes that break the rule, among the nodes that `ops` and `nodes` select and `except` does not exclude.

    If the device is `allowed`, all selected nodes must be on it; otherwise none may be on it. Nodes whose device one written
    request decides are one violation, at the place of the request.
    """
    must = "must be on" if allowed else "must not be on"
    wrong = [node for node in _chosen(subject, values) if is_on(node.device, values["device"]) != allowed]
    found: dict[object, list[PlacedNode]] = {}
    for node in wrong:
        origin = subject.origin(node)
        decides = origin is not None and origin.location is not None
        found.setdefault((origin, node.device) if decides else node.name, []).append(node)
    for nodes in found.values():
        origin, node = subject.origin(nodes[0]), nodes[0]
        if len(nodes) == 1 or origin is None:
            places = (must, device(values["device"]), short_device(node.device))
            message = fill_template("{} ({}) {} {} and is on {}", node.name, node.op, *places)
            yield Breach(subject.at(node), message, node.name)
            continue
        named = ", ".join(one.name for one in nodes[:SHOWN]) + (", ..." if len(nodes) > SHOWN else "")
        told = (origin, len(nodes), short_device(node.device), must, device(values["device"]), named)
        yield Breach(origin.location, fill_template("{} puts {} nodes on {}, which {} {}: {}", *told))


def together(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the selected nodes that are on another device than the first selected node."""
    is_member = subject.matcher(values["nodes"])
    members = [node for node in subject.snapshot.nodes if is_member(node)]
    for node in members[1:]:
        if node.device != members[0].device:
            places = (node.name, short_device(node.device), members[0].name, short_device(members[0].device))
            message = fill_template("{} is on {} and {} on {}", *places)
            yield Breach(subject.at(node), message, node.name)


def apart(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield nodes that share a device with a node that matches another pattern."""
    holders: dict[str, tuple[int, PlacedNode]] = {}
    matchers = [subject.matcher([pattern]) for pattern in values["nodes"]]
    for node in subject.snapshot.nodes:
        group = next((index for index, matches in enumerate(matchers) if matches(node)), None)
        if group is None:
            continue
        other, first = holders.setdefault(node.device, (group, node))
        if other != group:
            message = fill_template("{} and {} are both on {}", node.name, first.name, short_device(node.device))
            yield Breach(subject.at(node), message, node.name)


def variables_with_consumers(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield nodes that read a variable on another device, directly or through its read op."""
    placement, is_chosen = subject.placement, subject.matcher(values["nodes"])
    nodes, devices = placement.graph.nodes, placement.devices
    holder: dict[int, int] = {}
    for i in placement.order:
        node = nodes[i]
        if node.op in VARIABLES:
            holder[i] = i
        elif node.op in (*IDENTITIES, *VARIABLE_READS) and node.input_nodes and node.input_nodes[0] in holder:
            holder[i] = holder[node.input_nodes[0]]
        for source in dict.fromkeys(node.input_nodes):
            variable = nodes[holder[source]] if source in holder else None
            if variable is not None and devices[i] != devices[variable.id] and is_chosen(subject.by_name[variable.name]):
                yield _apart_from_variable(subject, i, variable.id)


def _apart_from_variable(subject: Subject, node_id: int, variable_id: int) -> Breach:
    graph, devices = subject.placement.graph, subject.placement.devices
    node, variable = graph.nodes[node_id], graph.nodes[variable_id]
    places = [short_device(found.name) if (found := devices[i]) is not None else "nowhere" for i in (node_id, variable_id)]
    message = fill_template("{} reads {} and is on {}, but the variable is on {}", node.name, variable.name, *places)
    return Breach(graph.location(node) or subject.snapshot.start, message, node.name)


RULES = (
    PolicyRule(
        "on-device",
        "These nodes are on a matching device.",
        partial(on_device, allowed=True),
        (DEVICE, OPS, NODES, EXCEPT),
    ),
    PolicyRule(
        "not-on-device",
        "These nodes are not on a matching device.",
        partial(on_device, allowed=False),
        (DEVICE, OPS, NODES, EXCEPT),
    ),
    PolicyRule("together", "These nodes share one device.", together, (NODES._replace(required=True),)),
    PolicyRule(
        "apart",
        "Nodes of different patterns share no device.",
        apart,
        (NODES._replace(required=True),),
    ),
    PolicyRule(
        "variables-with-consumers",
        "A variable and its readers are on one device.",
        variables_with_consumers,
        (NODES._replace(help="variables to check", default=("*",)),),
        needs_graph=True,
    ),
)
