"""Reasons for the devices of nodes, as data for the log and explanations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from placesim.core.grouped import grouped
from placesim.graph.graph import Node
from placesim.machine.device_names import ANY, DeviceName, parse_runtime_name
from placesim.machine.inventory import Device
from placesim.placement.colocation import ColocationGraph, IgnoredLabel, OverriddenRequest, Union
from placesim.placement.constraints import Constraints, SoftStep, SupportedTypes


class DeviceChoice(IntEnum):
    """Rule by which a node's device was chosen from its group's candidates."""

    DEFAULT = 0
    ASSIGNED = 1
    GENERATOR_FOLLOWS_CONSUMERS = 2
    METADATA_FOLLOWS_INPUT = 3
    IDENTITY_FOLLOWS_INPUT = 4


@dataclass(frozen=True, slots=True)
class Reason:
    """Everything that decided the device of one node; other nodes are given by their ids.

    | field | meaning |
    |---|---|
    | requested | the node's own request |
    | members, unions | its colocation group by runtime id, and the joins that made it, in order; empty for a node on its own |
    | group_requested, group_assigned, group_resource, types | the group's constraints before a device was chosen |
    | candidates, soft_step | the remaining devices, the preferred one first, and the step of soft placement |
    | device, choice | the chosen device and the rule; the device is None if an error came first |
    | followed | the node whose device was taken: the followed input or consumer, or the first node of the group |
    | overridden | its own request, if a reference or resource edge overrode it |
    | ignored | the `_class` labels that soft placement ignored |
    """

    node: int
    requested: DeviceName
    members: tuple[int, ...]
    unions: tuple[Union, ...]
    group_requested: DeviceName
    group_assigned: DeviceName
    group_resource: DeviceName
    types: SupportedTypes
    candidates: tuple[Device, ...]
    soft_step: SoftStep
    device: Device | None
    choice: DeviceChoice
    followed: int | None
    overridden: OverriddenRequest | None
    ignored: tuple[IgnoredLabel, ...]


class Reasons:
    """Reasons for a placement's devices, computed on demand from its groups."""

    def __init__(self, groups: ColocationGraph) -> None:
        self._groups = groups

    def explain(self, node_id: int, device: Device | None, choice: DeviceChoice) -> Reason:
        """Return the reason for a node's device.  Raises KeyError if an error came before its constraints were known."""
        groups = self._groups
        node, root = groups.graph.nodes[node_id], groups.root(node_id)
        held = groups.constraints[root]
        if held is None:
            raise KeyError(node.name)
        members = groups.groups.get(root, ())
        # placing the first member replaced the constraints by its device (6.4)
        before: Constraints = held.origin or held
        return Reason(
            node=node_id,
            requested=parse_runtime_name(node.device) or ANY,
            members=members,
            unions=self._unions.get(root, ()) if members else (),
            group_requested=before.requested,
            group_assigned=before.assigned,
            group_resource=before.resource,
            types=before.types,
            candidates=before.candidates,
            soft_step=before.soft_step,
            device=device,
            choice=choice,
            followed=None if device is None else self._followed(node, root, choice),
            overridden=groups.overridden.get(node_id),
            ignored=tuple(groups.ignored.get(node_id, ())),
        )

    def _followed(self, node: Node, root: int, choice: DeviceChoice) -> int | None:
        if choice in (DeviceChoice.METADATA_FOLLOWS_INPUT, DeviceChoice.IDENTITY_FOLLOWS_INPUT):
            # TensorFlow follows the first in-edge, which may be a control edge (6.3 B1)
            return (*node.input_nodes, *node.control_inputs)[0]
        leader = self._placed_first.get(root)
        if leader not in (None, node.id):
            return None if choice == DeviceChoice.ASSIGNED else leader
        return self._first_consumers.get(node.id) if choice == DeviceChoice.GENERATOR_FOLLOWS_CONSUMERS else None

    @cached_property
    def _unions(self) -> dict[int, tuple[Union, ...]]:
        """Joins that made each group, by its root, in order of occurrence."""
        found = grouped((self._groups.root(union.x), union) for union in map(Union._make, self._groups.unions))
        return {root: tuple(unions) for root, unions in found.items()}

    @cached_property
    def _placed_first(self) -> dict[int, int]:
        """For each group, the member that was placed first: the first assigned or non-generator one, else the first of all."""
        nodes, assigned = self._groups.graph.nodes, self._groups.assigned

        def leader(members: tuple[int, ...]) -> int:
            # generators are placed in pass 2, if they are not assigned (6.2)
            ordinary = (i for i in members if i in assigned or not nodes[i].signature.is_generator)
            return next(ordinary, members[0])

        return {root: leader(members) for root, members in self._groups.groups.items()}

    @cached_property
    def _first_consumers(self) -> dict[int, int]:
        """First node, by id, that reads or waits for each node."""
        found: dict[int, int] = {}
        for node in self._groups.graph.nodes:
            for i in (*node.input_nodes, *node.control_inputs):
                found.setdefault(i, node.id)
        return found
