"""The proof of a node's placement: the reason that the placer recorded, with names and places in the file.

A proof does not copy the reason; it looks up each part on demand. The text and JSON output of `explain` and the paragraphs
of the page are all made from proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from placesim.core.errors import Location
from placesim.core.styled_text import StyledText, device, fill_template, join_texts
from placesim.graph.graph import Graph, Node, NodeDef, Signature
from placesim.inspection.explaining.annotations import Annotation, AnnotationKind, Annotations
from placesim.inspection.explaining.kernel_support import KernelSupport, kernel_support
from placesim.inspection.snapshot import SimulationState
from placesim.machine.device_names import ANY, DeviceName, parse_runtime_name
from placesim.ops.categories import ARGUMENTS
from placesim.placement.colocation import Cause, ColocationGraph, Union
from placesim.placement.constraints import Constraints, SoftStep, soften
from placesim.placement.function_bodies import CalledBody, Instantiation, body_node
from placesim.placement.placer import Placement
from placesim.placement.reasons import DeviceChoice, Reason

_SHOWN_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class Merge:
    """A union of two groups, because an edge, a label or a function connects `node` to `other`."""

    node: str
    other: str
    cause: str
    detail: str
    location: Location | None

    @property
    def text(self) -> str:
        """Return the merge as a sentence."""
        if self.cause == "edge":
            return f"{self.node} refers to {self.other} by its input {self.detail}"
        if self.cause == "label":
            return f"{self.node} is colocated with {self.other} by the label loc:@{self.detail}"
        return f"{self.node} is tied to {self.other} by the function call {self.detail}"


@dataclass(frozen=True, slots=True)
class ProofGroup:
    """A colocation group: members in runtime order, reasons for joining, and common constraints."""

    members: tuple[str, ...]
    merges: tuple[Merge, ...]


class LostRequest(NamedTuple):
    """A request that was overridden because of a reference or resource edge from `source` (5.6)."""

    source: str
    ignored: StyledText
    taken: StyledText


class IgnoredLabelProof(NamedTuple):
    """A colocation label that soft placement ignored, and TensorFlow's message about it (5.7)."""

    label: str
    why: str


class GroupBounds(NamedTuple):
    """Limits on the devices of a node's group before a device was chosen; empty texts for missing limits."""

    requested: str
    resource: str
    assigned: str


_CHOICES = {
    "default": "the first of the candidates",
    "group": "the device of its group, set by its first member, {followed}",
    "assigned": "kept from an earlier placement of this session (9.5)",
    "generator_follows_consumers": "a generator follows its consumers, which share a device; the first is {followed} (6.3 A)",
    "metadata_follows_input": "Shape, Size and Rank follow their input, {followed} (6.3 B1)",
    "identity_follows_input": "an Identity between equal requests follows its input, {followed} (6.3 B2)",
    "argument": "an argument is on the device of the tensor passed (9.8)",
    "result": "a result is on the device of the call (9.8)",
    "whole": "{call} runs its functions entirely on its own device, ignoring their nodes' requests (9.8)",
    "caller": "the device of the call, preferred wherever possible (3.7, 9.8)",
    "none": "not placed: an earlier error stopped placement",
}
_WITHOUT_FOLLOWED = ("default", "none", "argument", "result", "whole", "caller")


@dataclass(frozen=True, eq=False)
class Proof:
    """The proof of one node's device: the placer's reason, with data shared by all proofs of the placement."""

    reason: Reason
    proofs: Proofs

    @property
    def _node(self) -> Node:
        return self.proofs.graph.nodes[self.reason.node]

    @property
    def node(self) -> str:
        """Return the node's name; in a body, its path."""
        return self.proofs.named(self.reason.node)

    @property
    def body(self) -> CalledBody | None:
        """Return the function body that contains the node; None for the main graph."""
        return self.proofs.body

    @property
    def lowered_from(self) -> str:
        """Return the path of the node from which lowering made this node; empty for other nodes."""
        found = self.proofs.graph.origins.get(self._node.name)
        return "" if found is None else self.proofs.prefix + found.path

    @property
    def op(self) -> str:
        """Return the node's op."""
        return self._node.op

    @property
    def location(self) -> Location | None:
        """Return the node's location in its file; None if unknown."""
        return self.proofs.graph.location(self._node)

    @property
    def device(self) -> str | None:
        """Return the name of the assigned device; None if an error came first."""
        return None if self.reason.device is None else self.reason.device.name

    @property
    def requested(self) -> str:
        """Return the node's own request merged with its scopes; empty if there is none."""
        return self._node.device

    @property
    def written_in_body(self) -> tuple[str, NodeDef] | None:
        """Return the function and its node as written; None for a node outside functions."""
        origin = self.proofs.graph.origins.get(self._node.name)
        if origin is not None:
            found = body_node(self.proofs.graph, self._node.name)
            return None if found is None else (origin.function, found)
        body = self.proofs.body
        function = self.proofs.graph.functions.get(body.function) if body is not None else None
        if function is None:
            return None
        return next(((function.name, node) for node in function.nodes if node.name == self._node.name), None)

    @property
    def gradient_of(self) -> tuple[str, Location | None] | None:
        """Return the name and location of the forward node whose gradient this node computes; None for other nodes."""
        return self.proofs.gradient_of(self._node)

    @cached_property
    def origins(self) -> tuple[Annotation, ...]:
        """Return the annotations that determine the node's request."""
        return self.proofs.origins(self._node)

    @property
    def kernels(self) -> tuple[KernelSupport, ...]:
        """Return the kernel support of the node for each device type."""
        return self.proofs.kernels(self._node)

    @property
    def group(self) -> ProofGroup | None:
        """Return the colocation group; None for a single node."""
        return self.proofs.group(self.reason)

    @property
    def held_to(self) -> GroupBounds:
        """Return the limits on the devices of the group, or of a single node."""
        reason = self.reason
        return GroupBounds(*map(str, (reason.group_requested, reason.group_resource, reason.group_assigned)))

    @property
    def types(self) -> tuple[str, ...]:
        """Return the device types for which all nodes of the group have kernels, the preferred type first."""
        return tuple(device_type for device_type, _ in self.reason.types)

    @property
    def overridden(self) -> LostRequest | None:
        """Return the node's own request, if it was overridden."""
        found = self.reason.overridden
        return found and LostRequest(self.proofs.named(found.source), device(found.ignored), device(found.taken))

    @property
    def ignored_labels(self) -> tuple[IgnoredLabelProof, ...]:
        """Return the labels that soft placement ignored."""
        graph = self.proofs.graph
        return tuple(IgnoredLabelProof(ignored.label, ignored.conflict.sentence(graph)) for ignored in self.reason.ignored)

    @property
    def soft_steps(self) -> tuple[StyledText, ...]:
        """Return the steps of soft placement, as sentences."""
        return self.proofs.soft_steps(self._node, self.reason)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the names of the remaining devices, the preferred device first."""
        return tuple(device.name for device in self.reason.candidates)

    @property
    def rule(self) -> str:
        """Return the key of the rule by which the device was chosen among the candidates."""
        reason = self.reason
        body = self.proofs.body
        if reason.device is None:
            return "none"
        if body is not None and reason.choice == DeviceChoice.ASSIGNED:
            if body.how is Instantiation.SINGLE_DEVICE:
                return "whole"
            return "argument" if self.op in ARGUMENTS else "result"
        if reason.choice == DeviceChoice.DEFAULT and reason.followed is None:
            is_callers = body is not None and reason.device.name == body.device and body.how is Instantiation.MULTI_DEVICE
            return "caller" if is_callers and not self.held_to.requested else "default"
        if reason.choice == DeviceChoice.DEFAULT:
            return "group"
        if reason.choice == DeviceChoice.GENERATOR_FOLLOWS_CONSUMERS and reason.followed in reason.members:
            return "group"
        return reason.choice.name.lower()

    @property
    def followed(self) -> str | None:
        """Return the name of the node whose device was used; None if there is none."""
        followed = self.reason.followed
        return None if followed is None or self.rule in _WITHOUT_FOLLOWED else self.proofs.named(followed)

    @property
    def choice(self) -> str:
        """Return the rule by which the device was chosen, as a sentence."""
        return _CHOICES[self.rule].format(followed=self.followed, call="" if self.body is None else self.body.call)


class Proofs:
    """The proofs of the nodes in one placement, with their shared data.

    `written` is the graph as written, and `annotations` are its annotations. Similar nodes share facts about kernels. `body` is
    set for a function's body.
    """

    def __init__(self, placement: Placement, written: Graph, annotations: Annotations, body: CalledBody | None = None) -> None:
        self.body = body
        self.prefix = "" if body is None else f"{body.path}/"
        self.placement = placement
        self.graph = placement.graph
        self._written = written
        self._annotations = annotations
        self._kernels: dict[Signature, tuple[KernelSupport, ...]] = {}
        self._groups: dict[int, ProofGroup] = {}
        self._steps: dict[int, tuple[StyledText, ...]] = {}

    def of(self, node_id: int) -> Proof:
        """Return the proof of a node. Raises KeyError if an error came before its constraints were known."""
        return Proof(self.placement.reason(node_id), self)

    def named(self, node_id: int) -> str:
        """Return the name of a node of the placed graph; in a body, its path."""
        return self.prefix + self.graph.nodes[node_id].name

    def gradient_of(self, node: Node) -> tuple[str, Location | None] | None:
        """Return the name and location of the forward node whose gradient `node` computes or helps to compute; None if there is
        none.
        """
        name = self._written.gradients_of.get(node.name)
        if name is None:
            return None
        return name, self._written.location(self._written.node(name)) if name in self._written.ids else None

    def origins(self, node: Node) -> tuple[Annotation, ...]:
        """Return the annotations that determine a node's request.

        A node that a rewrite made has no annotations, except in a lowered body.
        """
        if node.name in self._written.ids:
            return self._annotations.origins(self._written.node(node.name))
        found = body_node(self.graph, node.name)
        if found is None or not found.device:
            return ()
        location = self.graph.located(found.location)
        return (Annotation(AnnotationKind.ENTRY, found.location, found.device, self.named(node.id), location),)

    def kernels(self, node: Node) -> tuple[KernelSupport, ...]:
        """Return the kernel support of a node for each device type of the machine."""
        found = self._kernels.get(node.signature)
        if found is None:
            found = kernel_support(self.graph.registry, node, self.placement.device_set.types)
            self._kernels[node.signature] = found
        return found

    def group(self, reason: Reason) -> ProofGroup | None:
        """Return the colocation group of a node, one object for all its members; None for a single node."""
        if not reason.members:
            return None
        first = reason.members[0]
        if first not in self._groups:
            merges = tuple(self._merge(union) for union in _effective(reason.unions))
            self._groups[first] = ProofGroup(tuple(map(self.named, reason.members)), merges)
        return self._groups[first]

    def _merge(self, union: Union) -> Merge:
        node, other = (union.y, union.x) if union.cause == Cause.EDGE else (union.x, union.y)
        location = self.graph.location(self.graph.nodes[node])
        return Merge(self.named(node), self.named(other), union.cause.name.lower(), str(union.detail), location)

    def soft_steps(self, node: Node, reason: Reason) -> tuple[StyledText, ...]:
        """Return the steps of soft placement, which all nodes of a group share."""
        first = reason.members[0] if reason.members else node.id
        if first not in self._steps:
            self._steps[first] = tuple(_soft_steps(self.placement.groups, node, reason))
        return self._steps[first]


def proofs_of(live: SimulationState) -> Proofs:
    """Return the proofs of the newest placement. Raises ValueError if there is none."""
    if live.placement is None:
        raise ValueError("no node is placed")
    return Proofs(live.placement, live.graph, Annotations(live.graph, live.is_raw))


def proofs_of_body(body: CalledBody) -> Proofs:
    """Return the proofs of a body's nodes. Raises ValueError if the body could not be instantiated."""
    if body.placed is None:
        raise ValueError("no node is placed")
    written = body.placed.written.graph
    return Proofs(body.placed.placement, written, Annotations(written, is_raw=True), body)


def _effective(unions: Sequence[Union]) -> Iterator[Union]:
    """Yield the unions, except unions of nodes that were already in the same group."""
    parent: dict[int, int] = {}

    def root(i: int) -> int:
        while parent.setdefault(i, i) != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for union in unions:
        x, y = root(union.x), root(union.y)
        if x != y:
            parent[x] = y
            yield union


# --- what soft placement gave up (7.2) ------------------------------------------------------------------------------


def _soft_steps(groups: ColocationGraph, node: Node, reason: Reason) -> Iterator[StyledText]:
    if not groups.soft:
        return
    yield from _dropped_in_merges(groups, node, reason)
    held = Constraints(reason.group_requested, reason.group_assigned, reason.group_resource, reason.types)
    if reason.soft_step >= SoftStep.WITHOUT_TYPE_AND_ID:
        left = DeviceName(*soften(held, SoftStep.WITHOUT_TYPE_AND_ID))
        sentence = "no device with a kernel matches {}; TensorFlow drops type and id, and the request then matches {} (7.2c i)"
        yield fill_template(sentence, device(reason.group_requested), _anything(left))
    if reason.soft_step >= SoftStep.WITHOUT_RESOURCE:
        left = DeviceName(*soften(held, SoftStep.WITHOUT_RESOURCE))
        yield fill_template("still no match; without the resource's device, the request matches {} (7.2c ii)", _anything(left))


def _anything(left: DeviceName) -> str:
    return device(left) if str(left) else "any device"


def _dropped_in_merges(groups: ColocationGraph, node: Node, reason: Reason) -> Iterator[StyledText]:
    """Yield the types and ids that were dropped from conflicting requests of a group's members (7.2a)."""
    requests: dict[DeviceName, str] = {}
    for i in reason.members or (node.id,):
        member = groups.graph.nodes[i]
        spec = parse_runtime_name(member.device) or ANY
        if spec != ANY and i not in groups.overridden:
            requests.setdefault(spec, member.name)
    lost = [(spec, name) for spec, name in requests.items() if not spec.matches(reason.group_requested)]
    if lost and len(requests) > 1:
        named = join_texts(", ", (fill_template("{} of {}", device(spec), name) for spec, name in lost[:_SHOWN_REQUESTS]))
        common = device(reason.group_requested) if str(reason.group_requested) else "nothing"
        yield fill_template("conflicting requests in the group ({}): they have {} in common (7.2a)", named, common)
