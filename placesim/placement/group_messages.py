"""TensorFlow's texts about colocation groups: errors, log lines, and a group's debug text (5.4 to 6.1).

Each function returns a text, or an error for the caller to raise; none raises.
"""

from __future__ import annotations

from placesim.core.errors import InvalidArgumentError, OpError
from placesim.graph.graph import Node
from placesim.graph.node_text import colocation_tag, format_attrs, node_error, node_tag
from placesim.machine.device_names import parse_runtime_name
from placesim.ops.kernel_lookup import format_registered_kernels
from placesim.placement.colocation import ColocationGraph, GroupConflict, MovedGroup, Note, OverriddenRequest
from placesim.placement.constraints import Constraints, TieConflict


def conflict_message(groups: ColocationGraph, conflict: GroupConflict) -> str:
    """Return the message for a conflict, with the debug texts of both groups if their types conflict (5.4)."""
    sentence = conflict.sentence(groups.graph)
    if conflict.reason:
        return sentence
    return sentence + group_text(groups, groups.root(conflict.x)) + group_text(groups, groups.root(conflict.y))


def incompatible_edge(groups: ColocationGraph, source: int, node: Node, conflict: TieConflict) -> OpError:
    """Return the error for a reference or resource edge between two fixed devices (5.6).

    The message has no suffix that names a node.
    """
    ends = groups.graph.registry.rules.edge_ends
    start = groups.graph.nodes[source]
    return InvalidArgumentError(
        "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible "
        f"{conflict.kind} devices: {conflict.ends[0]} vs {conflict.ends[1]}. "
        + ends.format(source=start.name, source_op=start.op, node=node.name, op=node.op),
        node=node.name,
        location=groups.graph.location(node),
    )


def no_candidates(groups: ColocationGraph, node_id: int) -> OpError:
    """Return the error for a node whose group no device can run (6.1.4)."""
    node, root = groups.graph.nodes[node_id], groups.root(node_id)
    reason = _no_candidates(groups, node, groups.constraints[root], root)
    return node_error(groups.graph, node, f"Cannot assign a device for operation {node.name}: {reason}")


def _no_candidates(groups: ColocationGraph, node: Node, found: Constraints, root: int) -> str:
    own = parse_runtime_name(node.device)
    unsatisfied = f"Could not satisfy explicit device specification '{node.device}'"
    # without any request there is none to blame (6.1.1)
    if not found.requested.has_details:
        types = ", ".join(dtype.name for dtype in node.signature.input_dtypes)
        return (
            "Node had no OpKernel registered to support this operation: "
            f"Operation was {node.op} and inputs were [{types}].\n{group_text(groups, root)}"
        )
    if own != found.requested:
        # here in creation order, in the next text sorted by name (6.1.4)
        available = ", ".join(device.name for device in groups.devices.devices)
        return (
            f"{unsatisfied} because the node {colocation_tag(node.name)} was colocated with a group of nodes that "
            f"required incompatible device '{found.requested}'. All available devices [{available}]. "
            f"{group_text(groups, root)}"
        )
    if not groups.devices.matching(own):
        available = ", ".join(sorted(device.name for device in groups.devices.devices))
        return (
            f"{node_tag(node.name)} was explicitly assigned to {node.device} but available devices are "
            f"[ {available} ]. Make sure the device specification refers to a valid device."
        )
    if own.type:
        attrs = format_attrs(groups.graph.full_attrs(node))
        return (
            f"{unsatisfied} because no supported kernel for {own.type} devices is available.{group_text(groups, root)}"
            f"\nOp: {node.op}\nNode attrs: {attrs}\nRegistered kernels:\n"
            f"{format_registered_kernels(groups.graph.registry, node.op)}"
        )
    # TensorFlow leaves out the closing quote here (6.1.4c).
    return unsatisfied.removesuffix("'") + group_text(groups, root)


# --- the log --------------------------------------------------------------------------------------------------------


def log_lines(groups: ColocationGraph) -> list[str]:
    """Return the lines for TensorFlow's INFO and WARNING log from the groups' notes."""
    return [_log_line(groups, note) for note in groups.notes]


def _log_line(groups: ColocationGraph, note: Note) -> str:
    if isinstance(note, str):
        return note
    return _moved_resources(groups, note) if isinstance(note, MovedGroup) else _overridden_request(groups, *note)


def _overridden_request(groups: ColocationGraph, node_id: int, override: OverriddenRequest) -> str:
    """Return the log line for a request that a reference or resource edge overrides (5.6)."""
    nodes, (source, ignored, taken) = groups.graph.nodes, override
    return (
        f"I colocation_graph.cc: Ignoring device specification {ignored} for node '{nodes[node_id].name}' because the input "
        f"edge from '{nodes[source].name}' is a reference connection and already has a device field set to {taken}"
    )


def _moved_resources(groups: ColocationGraph, moved: MovedGroup) -> str:
    """Return the warning for a group that leaves its resource's device (7.2c ii)."""
    listed = "".join(f"\n  {device.name}" for device in moved.candidates)
    return (
        "W colocation_graph.cc: Failed to place the graph without changing the devices of some resources. Some of the "
        "operations (that had to be colocated with resource generating operations) are not supported on the resources' "
        f"devices. Current candidate devices are [{listed}].\nSee below for details of this colocation group:"
        f"{group_text(groups, moved.root, moved.constraints).rstrip()}"
    )


# --- debug texts ----------------------------------------------------------------------------------------------------


def group_text(groups: ColocationGraph, root: int, held: Constraints | None = None) -> str:
    """Return TensorFlow's `Colocation Debug Info` of a group (5.10); `held` has constraints to show instead of the current
    ones.
    """
    members = groups.members(root)
    # each op's own types, not the group's, with a space after each (5.10)
    types = {node.op: "".join(f"{t} " for t, _ in groups.own.types(node)) for node in members}
    text = "\nColocation Debug Info:\nColocation group had the following types and supported devices: \n"
    text += f"Root {(held or groups.constraints[root]).describe()}\n"
    text += "".join(f"{op}: {line}\n" for op, line in types.items())
    text += "\nColocation members, user-requested devices, and framework assigned devices, if any:\n"
    return text + "".join(_member_line(node, groups.assigned.get(node.id)) for node in members)


def _member_line(node: Node, assigned: str | None) -> str:
    suffix = f" framework assigned device={assigned}" if assigned else ""
    return f"  {node.name} ({node.op}) {node.device}{suffix}\n"
