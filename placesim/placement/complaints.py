"""What TensorFlow says where a graph cannot be placed: its sentences and debug texts (5.3 to 5.10, 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from placesim.devices.inventory import Device, DeviceSet
from placesim.devices.names import DeviceSpec, parse_runtime_name
from placesim.errors import InvalidArgumentError, OpError
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import format_attrs, format_node, node_tail
from placesim.ops.kernels import format_registered_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placesim.placement.colocation import ColocationGraph
    from placesim.placement.constraints import Constraints


class Conflict(NamedTuple):
    """Why the groups of nodes `x` and `y` could not become one: `reason` is empty where no device type can run both."""

    x: int
    y: int
    reason: str

    def sentence(self, graph: Graph) -> str:
        """What TensorFlow says of it, without the debug texts."""
        name_x, name_y = (graph.nodes[i].name for i in (self.x, self.y))
        opening = f"Cannot colocate nodes {{{{colocation_node {name_x}}}}} and {{{{colocation_node {name_y}}}}}"
        if self.reason:
            return f"{opening}: {self.reason}"
        return f"{opening} because no device type supports both of those nodes and the other nodes colocated with them."


def node_error(graph: Graph, node: Node, message: str, kind: type[OpError] = InvalidArgumentError) -> OpError:
    """An error that a node is to blame for, with TensorFlow's tail that names it (5.9)."""
    return kind(message + node_tail(message, node.name), node=node.name, location=graph.location(node))


def conflict_message(groups: ColocationGraph, conflict: Conflict) -> str:
    """5.4: a conflict, with both groups where their types are at odds."""
    sentence = conflict.sentence(groups.graph)
    if conflict.reason:
        return sentence
    return sentence + group_text(groups, groups.root(conflict.x)) + group_text(groups, groups.root(conflict.y))


def incompatible_edge(groups: ColocationGraph, source: int, node: Node, kind: str, ends: Sequence[DeviceSpec]) -> OpError:
    """5.6: a reference or resource edge between devices that nothing may change."""
    source_text, node_text = (f"name='{n.name}' (op='{n.op}')" for n in (groups.graph.nodes[source], node))
    return InvalidArgumentError(
        "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible "
        f"{kind} devices: {ends[0]} vs {ends[1]}. The edge src node is {source_text}, and the dst node is {node_text}.",
        node=node.name,
        location=groups.graph.location(node),
    )


def overridden_request(groups: ColocationGraph, source: int, node: Node, ignored: DeviceSpec, taken: DeviceSpec) -> str:
    """5.6: the line of TensorFlow's log for a request that loses against a reference or resource edge."""
    return (
        f"I colocation_graph.cc: Ignoring device specification {ignored} for node '{node.name}' because the input edge from "
        f"'{groups.graph.nodes[source].name}' is a reference connection and already has a device field set to {taken}"
    )


def moved_resources(groups: ColocationGraph, root: int, possible: Sequence[Device]) -> str:
    """7.2c ii: the warning of TensorFlow's log for a group that leaves its resource's device."""
    listed = "".join(f"\n  {device.name}" for device in possible)
    return (
        "W colocation_graph.cc: Failed to place the graph without changing the devices of some resources. Some of the "
        "operations (that had to be colocated with resource generating operations) are not supported on the resources' "
        f"devices. Current candidate devices are [{listed}].\nSee below for details of this colocation group:"
        f"{group_text(groups, root).rstrip()}"
    )


def unknown_assigned_device(name: str, devices: DeviceSet) -> str:
    """5.3b: an assigned device that the session does not have."""
    available = ", ".join(device.name for device in devices.devices)
    return (
        f"Assigned device '{name}' does not match any device. This error can happen when one attempts to run a "
        "tf.function with resource inputs residing on remote devices. This use case is currently not supported. Here are "
        f"the devices available on this machine: [{available}].If you are seeing this error when running using a "
        "tf.Session, set share_cluster_devices_in_session to true in the tf.ConfigProto."
    )


def no_candidates(groups: ColocationGraph, node: Node, found: Constraints, root: int) -> OpError:
    """6.1.4: the error for a group that no device can take."""
    message = f"Cannot assign a device for operation {node.name}: {_no_candidates(groups, node, found, root)}"
    return node_error(groups.graph, node, message)


def _no_candidates(groups: ColocationGraph, node: Node, found: Constraints, root: int) -> str:
    own = parse_runtime_name(node.device)
    unsatisfied = f"Could not satisfy explicit device specification '{node.device}'"
    if not found.requested.has_details:
        types = ", ".join(dtype.name for dtype in node.signature.input_dtypes)
        return (
            "Node had no OpKernel registered to support this operation: "
            f"Operation was {node.op} and inputs were [{types}].\n{group_text(groups, root)}"
        )
    if own != found.requested:
        available = ", ".join(device.name for device in groups.devices.devices)
        return (
            f"{unsatisfied} because the node {{{{colocation_node {node.name}}}}} was colocated with a group of nodes that "
            f"required incompatible device '{found.requested}'. All available devices [{available}]. "
            f"{group_text(groups, root)}"
        )
    if not groups.devices.matching(own):
        available = ", ".join(sorted(device.name for device in groups.devices.devices))
        return (
            f"{{{{node {node.name}}}}} was explicitly assigned to {node.device} but available devices are "
            f"[ {available} ]. Make sure the device specification refers to a valid device."
        )
    if own.type:
        attrs = format_attrs(groups.graph.full_attrs(node))
        return (
            f"{unsatisfied} because no supported kernel for {own.type} devices is available.{group_text(groups, root)}"
            f"\nOp: {node.op}\nNode attrs: {attrs}\nRegistered kernels:\n"
            f"{format_registered_kernels(groups.graph.registry, node.op)}"
        )
    return unsatisfied + group_text(groups, root)


def group_text(groups: ColocationGraph, root: int) -> str:
    """TensorFlow's `Colocation Debug Info` of a group (5.10)."""
    members = groups.members(root)
    types = {node.op: "".join(f"{t} " for t, _ in groups.own_types(node)) for node in members}
    text = "\nColocation Debug Info:\nColocation group had the following types and supported devices: \n"
    text += f"Root {groups.constraints[root].describe()}\n"
    text += "".join(f"{op}: {line}\n" for op, line in types.items())
    text += "\nColocation members, user-requested devices, and framework assigned devices, if any:\n"
    return text + "".join(_member_line(node, groups.assigned.get(node.id)) for node in members)


def _member_line(node: Node, assigned: str | None) -> str:
    suffix = f" framework assigned device={assigned}" if assigned else ""
    return f"  {node.name} ({node.op}) {node.device}{suffix}\n"


def node_debug_text(graph: Graph, node: Node, runtime_id: int, assigned: str = "") -> str:
    """A node as TensorFlow's debug string shows it (5.9)."""
    summary = format_node(node.name, node.op, graph.full_attrs(node), graph.input_texts(node), node.device)
    devices = f"{{requested: '{node.device}', assigned: '{assigned}'}}"
    return f"{{name:'{node.name}' id:{runtime_id} op device:{devices} def:{{{summary}}}}}"
