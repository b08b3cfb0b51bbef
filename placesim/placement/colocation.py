"""Colocation groups as a union-find forest: joins of groups, and the allowed devices of the result.

A group is a tree, and only the constraints of its root count (5.1).  The steps in `grouping.py` decide which nodes are joined.
This module knows neither the reasons nor TensorFlow's error messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import colocation_tag
from placesim.machine.device_names import ANY, DeviceName, MergeConflict, merge_specs
from placesim.machine.inventory import Device, DeviceSet
from placesim.placement.candidate_devices import CandidateSearch
from placesim.placement.constraints import (
    Constraints,
    SoftStep,
    SupportedTypes,
    intersect_types,
    is_from_composite,
    merge_constraints,
    tie_constraints,
)
from placesim.placement.node_constraints import NodeConstraints


class Cause(IntEnum):
    """Reason for joining two groups."""

    EDGE = 0
    LABEL = 1
    FUNCTION = 2


class Union(NamedTuple):
    """A join of the groups of nodes `x` and `y`, with its cause.

    The cause is one of:

    - an edge from x into y; `detail` is the input slot.
    - a label that both nodes mention; `detail` is its name.
    - a function that passes a resource of one node to the other; `detail` is the name of the call.
    """

    x: int
    y: int
    cause: Cause
    detail: str | int


class GroupConflict(NamedTuple):
    """A failed join of the groups of nodes `x` and `y`; `reason` is empty if no device type can run both."""

    x: int
    y: int
    reason: str

    def sentence(self, graph: Graph) -> str:
        """Return TensorFlow's sentence for the conflict, without the debug texts (rule 5.4)."""
        tag_x, tag_y = (colocation_tag(graph.nodes[i].name) for i in (self.x, self.y))
        if self.reason:
            return f"Cannot colocate nodes {tag_x} and {tag_y}: {self.reason}"
        return (
            f"Cannot colocate nodes {tag_x} and {tag_y} because no device type supports both of those nodes and the other "
            "nodes colocated with them."
        )


class OverriddenRequest(NamedTuple):
    """A request that an edge from `source` overrides: the ignored device, and the device taken instead (5.6)."""

    source: int
    ignored: DeviceName
    taken: DeviceName


class IgnoredLabel(NamedTuple):
    """A `_class` label that soft placement ignored, with the conflict (5.7)."""

    label: str
    conflict: GroupConflict


class MovedGroup(NamedTuple):
    """A group that leaves the device of its resource: its root, its constraints, and the remaining devices (7.2c ii)."""

    root: int
    constraints: Constraints
    candidates: tuple[Device, ...]


Note = tuple[int, OverriddenRequest] | MovedGroup | str
"""An event for TensorFlow's log: a node with its overridden request, a moved group, or a line from a function's body."""


class NoCandidates(Exception):  # internal: the caller turns it into TensorFlow's message
    """Raised when a group has no allowed device; `node` is the member being placed."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.node = node


class ColocationGraph:
    """The nodes of a graph on a device set, each in its own group until groups are joined.

    - `order`: the nodes in the runtime's order.
    - `assigned`: the full device names of nodes that are already placed.
    - `default_device`: preferred wherever possible.
    - `classes`: the nodes by op, types and request.
    - `own`: the constraints of single nodes.
    - `constraints`: the constraints of groups, at the index of the group's root; the first grouping step fills it.
    - `bodies`: the called functions, shared with the graphs of their bodies.
    """

    def __init__(
        self,
        graph: Graph,
        order: Sequence[int],
        devices: DeviceSet,
        soft: bool,
        assigned: Mapping[int, str] | None = None,
        default_device: Device | None = None,
    ) -> None:
        count = len(graph)
        self.graph = graph
        self.order = order
        self.devices = devices
        self.soft = soft
        self.assigned = assigned or {}
        self.default_device = default_device
        self.classes = graph.classes()
        self.own = NodeConstraints(graph, self.classes, order, devices, self._local_address(), self.assigned)
        self.parent = list(range(count))
        # union by rank, as in TensorFlow: a soft merge depends on which group is merged into which (1.4.7, 5.4.2)
        self.rank = bytearray(count)
        # most nodes are alone: the placer then needs neither the forest nor `fix`
        self.is_grouped = bytearray(count)
        self.constraints: list[Constraints] = [None] * count  # type: ignore[list-item]
        self.unions: list[tuple[int, int, Cause, str | int]] = []
        self.ignored: dict[int, list[IgnoredLabel]] = {}
        self.overridden: dict[int, OverriddenRequest] = {}
        self.notes: list[Note] = []
        self.bodies: dict[Hashable, Any] = {}
        self._search = CandidateSearch(devices, soft, default_device)

    def _local_address(self) -> DeviceName:
        # without a client device, TensorFlow takes the task of the default device as local (`LocalAddressSpec`)
        if self.devices.local == ANY and self.default_device is not None:
            return self.default_device.spec.address_space
        return self.devices.local

    # --- unions

    def root(self, node_id: int) -> int:
        """Return the root of a node's group."""
        parent = self.parent
        while parent[node_id] != node_id:
            # path halving keeps the trees flat without recursion
            parent[node_id] = parent[parent[node_id]]
            node_id = parent[node_id]
        return node_id

    def join(self, x: int, y: int, cause: Cause, detail: str | int) -> GroupConflict | None:
        """Join two groups.  Return the conflict, or None on success (5.4)."""
        root_x, root_y = self.root(x), self.root(y)
        conflict = self._unite(x, y, root_x, root_y) if root_x != root_y else None
        # a union that changed nothing is kept too: it explains why the nodes share a device
        if conflict is None:
            self.unions.append((x, y, cause, detail))
        return conflict

    def tie(self, source: int, node_id: int, cause: Cause, detail: str | int) -> GroupConflict | None:
        """Join the group of a node with the group of its source. Return the conflict, or None on success (5.6).

        A conflicting request of the node's group is overridden.  Raises TieConflict if assigned devices or devices of resources
        conflict.
        """
        source_root, root = self.root(source), self.root(node_id)
        if source_root != root:
            theirs, mine = self.constraints[source_root], self.constraints[root]
            # the edge is skipped: no join, and no conflict either (5.6.1)
            if is_from_composite(theirs, mine):
                return None
            # 1.15 merges two requests only if one is a specification of the other (13.5)
            left = tie_constraints(mine, theirs, self.graph.registry.rules.ties_nested_devices)
            if left is not mine:
                override = self.overridden[node_id] = OverriddenRequest(source, mine.requested, theirs.requested)
                # TensorFlow logs this as INFO, even if the join fails afterwards (5.6.2)
                self.notes.append((node_id, override))
                self.constraints[root] = left
            conflict = self._unite(source, node_id, source_root, root)
            if conflict is not None:
                return conflict
        self.unions.append((source, node_id, cause, detail))
        return None

    def _unite(self, x: int, y: int, root_x: int, root_y: int) -> GroupConflict | None:
        rank = self.rank
        # on a tie the group of x wins (5.4.2)
        winner, loser = (root_y, root_x) if rank[root_x] < rank[root_y] else (root_x, root_y)
        mine = self.constraints[winner]
        try:
            merged = merge_constraints(mine, self.constraints[loser], self.soft, self.devices.types)
        except MergeConflict as conflict:
            return GroupConflict(x, y, str(conflict))
        if not merged.types:
            # TensorFlow merges the devices before it checks the types, and keeps the merged devices (5.4).  So if soft
            # placement ignores the label, the group has a request that none of its members made.
            if merged.specs != mine.specs:
                self.constraints[winner] = merged.with_types(mine.types)
            return GroupConflict(x, y, "")
        if rank[winner] == rank[loser]:
            rank[winner] += 1
        self.parent[loser] = winner
        self.is_grouped[loser] = self.is_grouped[winner] = 1
        self.constraints[winner] = merged
        return None

    # --- what a group may be placed on

    def limit(self, node_id: int, requested: DeviceName, resource: DeviceName, types: SupportedTypes) -> None:
        """Apply the constraints of a function's body to a node's group; types that leave no device are ignored (5.8).

        Raises MergeConflict if the devices contradict each other.
        """
        root = self.root(node_id)
        mine = self.constraints[root]
        # only the request is merged softly: devices of resources must agree (5.8)
        wanted = merge_specs(mine.requested, requested, self.soft)
        generated = merge_specs(mine.resource, resource)
        common = intersect_types(mine.types, types, self.devices.types)
        # an empty intersection is silently not applied (5.8)
        self.constraints[root] = Constraints(wanted, mine.assigned, generated, common or mine.types)

    def candidates(self, node_id: int) -> Constraints:
        """Return the constraints of a node's group with its candidates (6.1).  Raises NoCandidates if there are none."""
        root = self.root(node_id) if self.is_grouped[node_id] else node_id
        found = self.constraints[root]
        if found.candidates:
            return found
        possible, step = self._search.find(found)
        if not possible:
            raise NoCandidates(node_id)
        if step == SoftStep.WITHOUT_RESOURCE:
            # a warning of TensorFlow's log: a resource leaves its requested device (7.2c ii)
            self.notes.append(MovedGroup(root, found, possible))
            found = self.constraints[root] = found.with_types(found.types)  # not shared, so that each moved group is noted
        found.candidates, found.soft_step = possible, step
        return found

    def fix(self, node_id: int, device: Device) -> None:
        """Restrict the whole group of a node to this device (rule 6.4)."""
        root = self.root(node_id)
        self.constraints[root] = self.constraints[root].fixed_to(device)

    # --- what became of it

    def members(self, node_id: int) -> list[Node]:
        """Return the nodes of a group, by runtime id."""
        root = self.root(node_id)
        return [self.graph.nodes[i] for i in self.order if self.root(i) == root]

    @cached_property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """Members of each group of several nodes, by the group's root; valid once all groups are complete."""
        found = grouped((self.root(node_id), node_id) for node_id in self.order if self.is_grouped[node_id])
        return {root: tuple(ids) for root, ids in found.items()}
