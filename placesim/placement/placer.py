"""The placer: chooses a device for every node among its group's candidates, in TensorFlow's two passes (section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from placesim.core.errors import FailedPreconditionError, OpError
from placesim.core.process.gc_pause import collector_paused
from placesim.core.process.progress import report_stage
from placesim.graph.graph import Graph, Node, Signature
from placesim.machine.device_names import parse_runtime_name
from placesim.machine.inventory import Device, DeviceSet
from placesim.ops.categories import IDENTITIES, SHAPE_READERS
from placesim.placement.colocation import ColocationGraph, NoCandidates
from placesim.placement.constraints import Constraints
from placesim.placement.group_messages import log_lines, no_candidates
from placesim.placement.grouping import build_groups
from placesim.placement.reasons import DeviceChoice, Reason, Reasons


@dataclass(frozen=True, slots=True)
class PlacedGraph:
    """A graph with the devices of its nodes, by node id (None after an error); `order` is the runtime's order."""

    graph: Graph
    device_set: DeviceSet
    order: Sequence[int]
    devices: Sequence[Device | None]


@dataclass(frozen=True, slots=True)
class Placement(PlacedGraph):
    """A placed graph, with the reasons for its devices.

    - `log`: the nodes in log order.
    - `choices`: the kind of choice for each node, by its id.
    - `groups`: the constraints, from which `reasons` are computed.
    - `error`: the error that stopped the placer, if any.
    - `is_body`: whether the graph is a function's body.
    - `known`: cache of the bodies that its nodes call (`function_bodies`).
    """

    log: Sequence[int]
    choices: bytearray
    groups: ColocationGraph
    reasons: Reasons
    error: OpError | None = None
    is_body: bool = False
    known: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def messages(self) -> Sequence[str]:
        """Lines of TensorFlow's INFO and WARNING log."""
        return log_lines(self.groups)

    def reason(self, node_id: int) -> Reason:
        """Return the reason for a node's device.  Raises KeyError if an error came before the node was examined."""
        return self.reasons.explain(node_id, self.devices[node_id], DeviceChoice(self.choices[node_id]))


class _Kind(IntEnum):
    ORDINARY = 0
    GENERATOR = 1
    METADATA = 2
    IDENTITY = 3


_GENERATOR, _IDENTITY = int(_Kind.GENERATOR), int(_Kind.IDENTITY)
"""Kinds as plain integers, which compare faster in a byte array than enumeration members."""
_ONLY_GENERATORS = bytes(kind == _GENERATOR for kind in range(256))
"""Table that translates kinds to 1 for generators and 0 for others."""


def place_graph(
    graph: Graph,
    devices: DeviceSet,
    soft: bool = False,
    assigned: Mapping[int, str] | None = None,
    default_device: str | None = None,
) -> Placement:
    """Place a graph.  A TensorFlow error is part of the result, with the nodes placed before it.

    `assigned` has the full device names of nodes that are already placed (9.5).  `default_device` is preferred wherever
    possible (3.7); for a function's body, it is the device of its call.  Raises KeyError if there is no such device.
    """
    order = graph.runtime_order()
    preferred = devices.by_name[default_device] if default_device else None
    groups = ColocationGraph(graph, order, devices, soft, assigned, preferred)
    placer = _Placer(graph, order, groups)
    error = None
    try:
        # TensorFlow finds this before any node is looked at (6.2)
        if not devices.devices:
            raise FailedPreconditionError("No devices are registered")
        with collector_paused(), report_stage("placing nodes", lambda: (len(placer.log), len(graph))):
            build_groups(groups)
            placer.place()
    except NoCandidates as found:
        error = no_candidates(groups, found.node)
    except OpError as problem:
        error = problem
    return Placement(
        graph,
        devices,
        order,
        placer.chosen,
        log=placer.log,
        choices=placer.choices,
        groups=groups,
        reasons=Reasons(groups),
        error=error,
    )


class _Placer:
    """State of the placer's two passes."""

    def __init__(self, graph: Graph, order: Sequence[int], groups: ColocationGraph) -> None:
        self.graph = graph
        self.order = order
        self.groups = groups
        self.chosen: list[Device | None] = [None] * len(graph)
        self.choices = bytearray(len(graph))
        self.log: list[int] = []

    def place(self) -> None:
        kinds = self._kinds()
        generators = self._place_first_pass(kinds)
        if generators:
            self._place_generators(generators, kinds)

    def _kinds(self) -> bytearray:
        classes, numbers = self.groups.classes
        of_classes = np.array([_kind_of(signature) for signature, _, _ in classes], np.uint8)
        identities = _IDENTITY in of_classes
        kinds = bytearray(of_classes[numbers].tobytes())
        # 1.15 has no such rule (13.9)
        if identities and not self.graph.registry.rules.identities_follow_inputs:
            kinds = kinds.replace(bytes((_IDENTITY,)), bytes((_Kind.ORDINARY,)))
        elif identities:
            self._keep_following_identities(kinds)
        return kinds

    def _keep_following_identities(self, kinds: bytearray) -> None:
        """Make identities ordinary nodes unless they have one producer and one consumer with equal requests (6.3 B2)."""
        nodes, wanted = self.graph.nodes, self._requests_of_only_readers(kinds)
        for node in nodes:
            if kinds[node.id] == _IDENTITY:
                sources = (*node.input_nodes, *node.control_inputs)
                # Requests are compared as text: /cpu:1 and /device:CPU:1 differ, and two empty requests are equal.
                if len(sources) > 1 or node.device or nodes[sources[0]].device != wanted.get(node.id, ""):
                    kinds[node.id] = _Kind.ORDINARY

    def _requests_of_only_readers(self, kinds: bytearray) -> dict[int, str | None]:
        """Return the requested device of the only reader of each identity; None if an identity has several outgoing edges."""
        found: dict[int, str | None] = {}
        for node in self.graph.nodes:
            for i in node.input_nodes:
                if kinds[i] == _IDENTITY:
                    found[i] = None if i in found else node.device
            for i in node.control_inputs:
                if kinds[i] == _IDENTITY:
                    found[i] = None if i in found else node.device
        return found

    def _place_first_pass(self, kinds: bytearray) -> list[int]:
        """Place every node except generators.  Return the generators."""
        groups, chosen = self.groups, self.chosen
        constraints, is_grouped, log = groups.constraints, groups.is_grouped, self.log
        assigned, generators = groups.assigned, []
        for node_id in self.order:
            kind = kinds[node_id]
            if assigned and node_id in assigned:
                # an assigned generator is placed in pass 1 too, so that it moves up in the log (9.5)
                self._choose(node_id, groups.devices.by_name[str(parse_runtime_name(assigned[node_id]))], DeviceChoice.ASSIGNED)
            elif kind == _GENERATOR:
                # pass 2 places these after their consumers, so a log usually ends with constants (6.2)
                generators.append(node_id)
            elif kind or is_grouped[node_id]:
                self._place_ordinary(self.graph.nodes[node_id], kind)
            else:
                # a node on its own: neither heuristic nor group can change the first candidate
                found = constraints[node_id]
                chosen[node_id] = (found.candidates or groups.candidates(node_id).candidates)[0]
                log.append(node_id)
        return generators

    def _place_ordinary(self, node: Node, kind: int) -> None:
        found = self.groups.candidates(node.id)
        # `origin` is set once a member of the group has a device; the group then has no other candidate (6.4)
        if kind and found.origin is None:
            # A generator has no device yet, so a Shape does not follow its Placeholder (6.3 B1).
            followed = self.chosen[(*node.input_nodes, *node.control_inputs)[0]]
            if followed is not None and found.allows(followed):
                choice = DeviceChoice.METADATA_FOLLOWS_INPUT if kind == _Kind.METADATA else DeviceChoice.IDENTITY_FOLLOWS_INPUT
                self._choose(node.id, followed, choice)
                return
        self._take_first(node.id, found)

    def _place_generators(self, generators: Sequence[int], kinds: bytearray) -> None:
        """Place each generator with its consumers, if all are on one device that supports it (6.3 A)."""
        # before pass 2 begins: generators that others wait for have no device yet (6.3 A)
        followed = self._common_consumer_devices(kinds)
        for node_id in generators:
            found = self.groups.candidates(node_id)
            device = followed.get(node_id)
            # a heuristic may only pick one of the candidates: constraints have priority (6.3)
            if device is not None and found.origin is None and found.allows(device):
                self._choose(node_id, device, DeviceChoice.GENERATOR_FOLLOWS_CONSUMERS)
            else:
                self._take_first(node_id, found)

    def _take_first(self, node_id: int, found: Constraints) -> None:
        """Place a node on its preferred candidate. After its group has a device, there is only this candidate."""
        if found.origin is None:
            self._choose(node_id, found.candidates[0], DeviceChoice.DEFAULT)
        else:
            self.chosen[node_id] = found.candidates[0]
            self.log.append(node_id)

    def _common_consumer_devices(self, kinds: bytearray) -> dict[int, Device | None]:
        """Return for each generator the common device of all its consumers; None if they differ or are not placed yet."""
        chosen = self.chosen
        found: dict[int, Device | None] = {}
        # control edges count as much as data edges (6.3 A)
        for source, reader in self.graph.edges_from(kinds.translate(_ONLY_GENERATORS)):
            device = chosen[reader]
            if found.setdefault(source, device) is not device:
                found[source] = None
        return found

    def _choose(self, node_id: int, device: Device, choice: DeviceChoice) -> None:
        self.chosen[node_id] = device
        if choice:
            self.choices[node_id] = choice
        if self.groups.is_grouped[node_id]:
            self.groups.fix(node_id, device)
        self.log.append(node_id)


def _kind_of(signature: Signature) -> _Kind:
    if signature.is_generator:
        return _Kind.GENERATOR
    if signature.op in SHAPE_READERS:
        return _Kind.METADATA
    return _Kind.IDENTITY if signature.op in IDENTITIES else _Kind.ORDINARY
