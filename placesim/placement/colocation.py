"""Colocation groups and what is possible for each: the constraints of a placement (section 5).

A group is a tree in a union-find forest; only the constraints of its root count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

from placesim.devices.inventory import Device, DeviceSet
from placesim.devices.names import ANY, DeviceSpec, MergeConflict, merge_specs
from placesim.dtypes import VARIANT
from placesim.errors import InvalidArgumentError
from placesim.graph.graph import Graph, Node
from placesim.ops.attributes import AttrValue
from placesim.placement.complaints import (
    Conflict,
    conflict_message,
    incompatible_edge,
    moved_resources,
    no_candidates,
    node_error,
    overridden_request,
)
from placesim.placement.constraints import (
    COMPOSITE,
    XLA_TYPES,
    Constraints,
    SoftStep,
    SpecFields,
    SupportedTypes,
    TieConflict,
    intersect_types,
    is_from_composite,
    merge_constraints,
    softened,
    tie_constraints,
    without_xla_types,
)
from placesim.placement.deep_calls import Frame, find_deep_calls, join_deep_calls
from placesim.placement.host_only import host_only_nodes
from placesim.placement.members import Members
from placesim.placement.ties import is_dataset_op, tying_slots


class Cause(IntEnum):
    """Why two groups became one."""

    EDGE = 0
    LABEL = 1
    FUNCTION = 2


_SOFT_STEPS = (SoftStep.WITHOUT_TYPE_AND_ID, SoftStep.WITHOUT_RESOURCE)


class Union(NamedTuple):
    """One merge of two groups: nodes `x` and `y`, and what joined them.

    An edge from x into y (`detail` is the input's slot), a label that both mention (its name), or a function that passes one's
    resource on to the other (the name of the call).
    """

    x: int
    y: int
    cause: Cause
    detail: str | int


class Override(NamedTuple):
    """A request that lost against an edge from `source`: what was asked for, and what was taken instead (5.6)."""

    source: int
    ignored: DeviceSpec
    taken: DeviceSpec


class IgnoredLabel(NamedTuple):
    """A `_class` label that soft placement passed over, and why (5.7)."""

    label: str
    conflict: Conflict


class ColocationGraph:
    """The groups of a graph on a device set.

    `assigned` gives the full device name of nodes that are placed already; `default_device` is a device that is preferred
    wherever it can be; `stack` is the chain of calls that led into this graph, where it is a function's body.  Raises OpError,
    in TensorFlow's words, where constraints contradict each other.
    """

    def __init__(
        self,
        graph: Graph,
        order: Sequence[int],
        devices: DeviceSet,
        soft: bool,
        assigned: Mapping[int, str] | None = None,
        default_device: Device | None = None,
        stack: tuple[Frame, ...] = (),
    ) -> None:
        count = len(graph)
        self.graph = graph
        self.order = order
        self.devices = devices
        self.soft = soft
        self.assigned = assigned or {}
        self.default_device = default_device
        self.stack = stack
        self.parent = list(range(count))
        self.rank = bytearray(count)
        self.is_grouped = bytearray(count)
        self.constraints: list[Constraints] = [None] * count  # type: ignore[list-item]
        self.unions: list[tuple[int, int, Cause, str | int]] = []
        self.ignored: dict[int, list[IgnoredLabel]] = {}
        self.overridden: dict[int, Override] = {}
        self._notes: list[str | tuple[int, Override]] = []
        self._members = Members(graph, order, devices, self._local_address(), self.assigned)
        self._soft_matches: dict[tuple[SpecFields, SupportedTypes], tuple[Device, ...]] = {}

    def _local_address(self) -> DeviceSpec:
        if self.devices.local == ANY and self.default_device is not None:
            return self.default_device.spec.address_space
        return self.devices.local

    def build(self) -> None:
        """All steps in TensorFlow's order (5.2)."""
        deep = find_deep_calls(self.graph, self.order)
        self._members.fill(self.constraints)
        self._join_edges(deep)
        join_deep_calls(self, deep)
        self._join_labels()
        self._keep_on_host()
        if any(device_type in XLA_TYPES for device_type in self.devices.types):
            self._exclude_xla_types()

    def for_body(self, graph: Graph, stack: tuple[Frame, ...]) -> ColocationGraph:
        """The groups of a function's body, on the same devices."""
        made = ColocationGraph(graph, graph.runtime_order(), self.devices, self.soft, None, self.default_device, stack)
        made.build()
        self._notes += made.messages
        return made

    def own_types(self, node: Node) -> SupportedTypes:
        """The device types that a node alone could run on."""
        return self._members.own_types(node)

    @property
    def messages(self) -> list[str]:
        """The lines of TensorFlow's INFO and WARNING log."""
        return [note if isinstance(note, str) else self._override_line(*note) for note in self._notes]

    def _override_line(self, node_id: int, override: Override) -> str:
        return overridden_request(self, override.source, self.graph.nodes[node_id], override.ignored, override.taken)

    # --- unions (5.4)

    def root(self, node_id: int) -> int:
        """The root of a node's group."""
        parent = self.parent
        while parent[node_id] != node_id:
            parent[node_id] = parent[parent[node_id]]
            node_id = parent[node_id]
        return node_id

    def join(self, x: int, y: int, cause: Cause, detail: str | int) -> Conflict | None:
        """Make one group of two; what stands against it, None where it was done."""
        root_x, root_y = self.root(x), self.root(y)
        conflict = self._unite(x, y, root_x, root_y) if root_x != root_y else None
        if conflict is None:
            self.unions.append((x, y, cause, detail))
        return conflict

    def _unite(self, x: int, y: int, root_x: int, root_y: int) -> Conflict | None:
        rank = self.rank
        winner, loser = (root_y, root_x) if rank[root_x] < rank[root_y] else (root_x, root_y)
        mine = self.constraints[winner]
        try:
            merged = merge_constraints(mine, self.constraints[loser], self.soft, self.devices.types)
        except MergeConflict as conflict:
            return Conflict(x, y, str(conflict))
        if not merged.types:
            if merged.specs != mine.specs:
                self.constraints[winner] = merged.with_types(mine.types)
            return Conflict(x, y, "")
        if rank[winner] == rank[loser]:
            rank[winner] += 1
        self.parent[loser] = winner
        self.is_grouped[loser] = self.is_grouped[winner] = 1
        self.constraints[winner] = merged
        return None

    # --- reference, resource and dataset edges (5.6)

    def _join_edges(self, deep: Mapping[int, Node]) -> None:
        slots_of = {signature: slots for signature in self._members.signatures if (slots := tying_slots(signature))}
        if not slots_of:
            return
        nodes, back_edges = self.graph.nodes, []
        for node_id in self.order:
            node = nodes[node_id]
            for slot, needs_dataset in slots_of.get(node.signature, ()):
                source = nodes[node.input_nodes[slot]]
                if deep and (source.id in deep or node_id in deep):
                    continue
                if needs_dataset and not is_dataset_op(source.signature.definition):
                    continue
                if self.graph.is_back_edge(source.id, node):
                    back_edges.append((source.id, node, slot))
                else:
                    self.join_edge(source.id, node, Cause.EDGE, slot)
        for source_id, node, slot in back_edges:
            self.join_edge(source_id, node, Cause.EDGE, slot)

    def join_edge(self, source: int, node: Node, cause: Cause, detail: str | int) -> None:
        """Tie a node to what it refers to; a request of its own that is at odds with that is dropped."""
        source_root, root = self.root(source), self.root(node.id)
        if source_root != root:
            theirs, mine = self.constraints[source_root], self.constraints[root]
            if is_from_composite(theirs, mine):
                return
            self._tie(source, node, root, theirs, mine)
            conflict = self._unite(source, node.id, source_root, root)
            if conflict is not None:
                raise node_error(
                    self.graph,
                    node,
                    "Nodes were connected by a reference or resource connection (requiring them to be on the same device), "
                    f"but the two nodes were assigned two different devices: {conflict_message(self, conflict)}",
                )
        self.unions.append((source, node.id, cause, detail))

    def _tie(self, source: int, node: Node, root: int, theirs: Constraints, mine: Constraints) -> None:
        try:
            left = tie_constraints(mine, theirs)
        except TieConflict as conflict:
            raise incompatible_edge(self, source, node, conflict.kind, conflict.ends) from None
        if left is not mine:
            override = self.overridden[node.id] = Override(source, mine.requested, theirs.requested)
            self._notes.append((node.id, override))
            self.constraints[root] = left

    # --- function calls that return resources (5.8)

    def join_by_call(self, x: int, y: int, call: str) -> None:
        """Make one group of two nodes that a function ties to each other."""
        conflict = self.join(x, y, Cause.FUNCTION, call)
        if conflict is not None:
            raise InvalidArgumentError(conflict_message(self, conflict), node=self.graph.nodes[y].name)

    def tie_by_call(self, source: int, node: Node, call: str) -> None:
        """Tie a node to the resource that a function hands on to it."""
        self.join_edge(source, node, Cause.FUNCTION, call)

    def limit(self, node_id: int, requested: DeviceSpec, resource: DeviceSpec, types: SupportedTypes) -> None:
        """Narrow a node's group to what a function's body asks for; types that leave nothing are passed over.

        Raises InvalidArgumentError where the devices contradict each other.
        """
        root = self.root(node_id)
        mine = self.constraints[root]
        try:
            wanted = merge_specs(mine.requested, requested, self.soft)
            generated = merge_specs(mine.resource, resource)
        except MergeConflict as conflict:
            raise InvalidArgumentError(str(conflict), node=self.graph.nodes[node_id].name) from None
        common = intersect_types(mine.types, types, self.devices.types)
        self.constraints[root] = Constraints(wanted, mine.assigned, generated, common or mine.types)

    # --- `_class` labels (5.7)

    def _join_labels(self) -> None:
        nodes = self.graph.nodes
        labelled = {i: class_labels(nodes[i].attrs["_class"]) for i in self.order if "_class" in nodes[i].attrs}
        mentioned = {label for labels in labelled.values() for label in labels}
        if not mentioned:
            return
        holders: dict[str, int] = {}
        for node_id in self.order:
            name = nodes[node_id].name
            labels = labelled.get(node_id, ())
            for label in (*labels, name) if name in mentioned else labels:
                holder = holders.setdefault(label, node_id)
                if holder != node_id:
                    self._join_label(nodes[node_id], label, holder)

    def _join_label(self, node: Node, label: str, holder: int) -> None:
        conflict = self.join(node.id, holder, Cause.LABEL, label)
        if conflict is None:
            return
        if not self.soft:
            raise node_error(self.graph, node, conflict_message(self, conflict))
        self.ignored.setdefault(node.id, []).append(IgnoredLabel(label, conflict))

    # --- device types (5.11, 5.12)

    def _keep_on_host(self) -> None:
        if not any(VARIANT in signature.input_dtypes for signature in self._members.signatures):
            return
        for node_id in host_only_nodes(self.graph, self.order, self._is_on_host, self._has_assigned_device):
            root = self.root(node_id)
            found = self.constraints[root]
            types = tuple(pair for pair in found.types if pair[0] == "CPU")
            if types:
                self.constraints[root] = found.with_types(types)

    def _is_on_host(self, node_id: int) -> bool:
        return all(device_type == "CPU" for device_type, _ in self.constraints[self.root(node_id)].types)

    def _has_assigned_device(self, node_id: int) -> bool:
        return self.constraints[self.root(node_id)].assigned != ANY

    def _exclude_xla_types(self) -> None:
        constraints, parent = self.constraints, self.parent
        known: dict[Constraints, Constraints] = {}
        for node_id in self.order:
            if parent[node_id] == node_id:
                found = constraints[node_id]
                constraints[node_id] = known.get(found) or known.setdefault(found, without_xla_types(found))

    # --- candidates (6.1, 7.2)

    def candidates(self, node_id: int) -> Constraints:
        """The constraints of a node's group, with its candidates worked out; raises OpError where there are none."""
        root = self.root(node_id)
        found = self.constraints[root]
        if found.candidates:
            return found
        possible, step = self._filter(self.devices.matching(found.requested), found.types), SoftStep.NONE
        if not possible and self.soft and found.requested.has_details:
            possible, step = self._soft_candidates(found)
        if not possible:
            raise no_candidates(self, self.graph.nodes[node_id], found, root)
        if step == SoftStep.WITHOUT_RESOURCE:
            self._notes.append(moved_resources(self, root, possible))
            found = self.constraints[root] = found.with_types(found.types)
        found.candidates, found.soft_step = possible, step
        return found

    def _filter(self, devices: tuple[Device, ...], types: SupportedTypes) -> tuple[Device, ...]:
        """Those of a type that is supported, by kernel priority and then in the devices' own order (3.6)."""
        if not devices:
            return devices
        priorities = dict(types)
        kept = [device for device in devices if device.type in priorities or device.type == COMPOSITE]
        if any(priority for _, priority in types):
            highest = max(priorities.values())
            kept.sort(key=lambda device: -priorities.get(device.type, highest))
        if self.default_device is not None:
            kept.sort(key=lambda device: device != self.default_device)
        possible = tuple(kept)
        return devices if possible == devices else possible

    def _soft_candidates(self, found: Constraints) -> tuple[tuple[Device, ...], SoftStep]:
        """7.2c: without the requested type and id, and then without those of resources."""
        for step in _SOFT_STEPS:
            key = (softened(found, step), found.types)
            known = self._soft_matches.get(key)
            if known is None:
                known = self._soft_matches[key] = self._filter(self.devices.matching(DeviceSpec(*key[0])), found.types)
            if known:
                return known, step
        return (), SoftStep.NONE

    def constrain(self, node_id: int, device: Device) -> None:
        """6.4: from now on the whole group is on this device."""
        root = self.root(node_id)
        self.constraints[root] = self.constraints[root].fixed_to(device)

    # --- members of a group

    def members(self, node_id: int) -> list[Node]:
        """The nodes of a group, by runtime id."""
        root = self.root(node_id)
        return [self.graph.nodes[i] for i in self.order if self.root(i) == root]

    @cached_property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """The members of each group of several nodes, by runtime id, under its root; asked for when all groups are made."""
        found: dict[int, list[int]] = {}
        for node_id in self.order:
            if self.is_grouped[node_id]:
                found.setdefault(self.root(node_id), []).append(node_id)
        return {root: tuple(ids) for root, ids in found.items()}

    @cached_property
    def unions_by_group(self) -> dict[int, tuple[Union, ...]]:
        """What made each group, under its root, in the order in which it happened."""
        found: dict[int, list[Union]] = {}
        for union in map(Union._make, self.unions):
            found.setdefault(self.root(union.x), []).append(union)
        return {root: tuple(unions) for root, unions in found.items()}

    @cached_property
    def placed_first(self) -> dict[int, int]:
        """The member of each group whose device the others took: generators wait, unless they are assigned already."""
        nodes = self.graph.nodes

        def leader(members: tuple[int, ...]) -> int:
            ordinary = (i for i in members if i in self.assigned or not nodes[i].signature.is_generator)
            return next(ordinary, members[0])

        return {root: leader(members) for root, members in self.groups.items()}

    def first_consumer(self, node_id: int) -> int | None:
        """The first node, by id, that reads a node or waits for it."""
        return self._first_consumers.get(node_id)

    @cached_property
    def _first_consumers(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for node in self.graph.nodes:
            for i in (*node.input_nodes, *node.control_inputs):
                found.setdefault(i, node.id)
        return found


@lru_cache(maxsize=4096)
def class_labels(value: AttrValue) -> tuple[str, ...]:
    """The names in a `_class` attr, without `loc:@`; none in one that is not a list (2.2.7)."""
    if not isinstance(value, tuple):
        return ()
    labels = (label.decode(errors="replace") if isinstance(label, bytes) else str(label) for label in value)
    return tuple(label[5:] for label in labels if label.startswith("loc:@"))
