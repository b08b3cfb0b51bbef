"""The proof of a node's placement: the placer's own reasons, with every node by name and every place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placesim.devices.names import ANY, DeviceSpec, parse_runtime_name
from placesim.errors import Location
from placesim.graph.graph import Graph, Node
from placesim.inspection.explaining.annotations import Annotation, Annotations
from placesim.inspection.explaining.kernel_support import KernelSupport, kernel_support
from placesim.placement.colocation import Cause, ColocationGraph, Union
from placesim.placement.constraints import Constraints, SoftStep, softened
from placesim.placement.placer import Placement
from placesim.placement.reasons import Choice, Reason

_SHOWN_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class Merge:
    """What made one group of two: an edge or a label, or a function, that ties `node` to `other`."""

    node: str
    other: str
    cause: str
    detail: str
    location: Location | None

    @property
    def text(self) -> str:
        """The merge as a sentence."""
        if self.cause == "edge":
            return f"{self.node} refers to {self.other} by its input {self.detail}"
        if self.cause == "label":
            return f"{self.node} is colocated with {self.other} by the label loc:@{self.detail}"
        return f"{self.node} is tied to {self.other} by the function call {self.detail}"


@dataclass(frozen=True, slots=True)
class Group:
    """A colocation group: its members in the runtime's order, what joined them, and what they are held to together."""

    members: tuple[str, ...]
    merges: tuple[Merge, ...]


@dataclass(frozen=True, slots=True)
class Override:
    """A request that lost against a reference or resource edge from `source` (5.6)."""

    source: str
    ignored: str
    taken: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one node is where it is.

    `requested` is the node's own request and `origins` where it was written; `group_requested`, `resource` and `assigned` what
    its group was held to; `types` the device types that the whole group has kernels for; `soft_steps` what soft placement gave
    up; `rule` is how the device was chosen among the candidates, and `followed` the node that was followed.
    """

    node: str
    op: str
    location: Location | None
    device: str | None
    requested: str
    origins: tuple[Annotation, ...]
    kernels: tuple[KernelSupport, ...]
    group: Group | None
    group_requested: str
    resource: str
    assigned: str
    types: tuple[str, ...]
    overridden: Override | None
    ignored_labels: tuple[tuple[str, str], ...]
    candidates: tuple[str, ...]
    soft_steps: tuple[str, ...]
    rule: str
    followed: str | None

    @property
    def choice(self) -> str:
        """How the device was chosen, as a sentence."""
        return _CHOICES[self.rule].format(followed=self.followed, device=self.device)


_CHOICES = {
    "default": "the first of the candidates",
    "group": "the device of its group, whose first member, {followed}, was placed before",
    "assigned": "kept from an earlier placement of this session (9.5)",
    "generator_follows_consumers": "a generator goes where all its consumers are, {followed} the first of them (6.3 A)",
    "metadata_follows_input": "Shape, Size and Rank go where their input, {followed}, is (6.3 B1)",
    "identity_follows_input": "an Identity between equal requests goes where its input, {followed}, is (6.3 B2)",
    "none": "not placed: the error came first",
}


class Explainer:
    """Explains the nodes of one placement; `source` is the graph as it was written, `annotations` its own."""

    def __init__(self, placement: Placement, source: Graph, annotations: Annotations) -> None:
        self._placement = placement
        self._source = source
        self._annotations = annotations
        self._groups: dict[int, Group] = {}
        self._steps: dict[int, tuple[str, ...]] = {}

    def explain(self, name: str) -> Explanation:
        """The proof for a node.  KeyError where an error came before its constraints were known."""
        placement = self._placement
        graph = placement.graph
        node = graph.node(name)
        reason = placement.reason(node.id)
        written = self._source.node(name) if name in self._source.ids else None
        rule = _rule(reason)
        return Explanation(
            node.name,
            node.op,
            graph.location(node),
            None if reason.device is None else reason.device.name,
            node.device,
            () if written is None else self._annotations.origins(written),
            kernel_support(graph.registry, node, placement.device_set.types),
            self._group(reason),
            str(reason.group_requested),
            str(reason.group_resource),
            str(reason.group_assigned),
            tuple(device_type for device_type, _ in reason.types),
            self._override(reason),
            tuple((ignored.label, ignored.conflict.sentence(graph)) for ignored in reason.ignored),
            tuple(device.name for device in reason.candidates),
            self._soft_steps(node, reason),
            rule,
            None if reason.followed is None or rule in ("default", "none") else graph.nodes[reason.followed].name,
        )

    def _group(self, reason: Reason) -> Group | None:
        if not reason.members:
            return None
        first = reason.members[0]
        if first not in self._groups:
            nodes = self._placement.graph.nodes
            merges = tuple(_merge(self._placement.graph, union) for union in _effective(reason.unions))
            self._groups[first] = Group(tuple(nodes[i].name for i in reason.members), merges)
        return self._groups[first]

    def _soft_steps(self, node: Node, reason: Reason) -> tuple[str, ...]:
        """What soft placement gave up, which is the same for all of a group."""
        first = reason.members[0] if reason.members else node.id
        if first not in self._steps:
            self._steps[first] = tuple(_soft_steps(self._placement.groups, node, reason))
        return self._steps[first]

    def _override(self, reason: Reason) -> Override | None:
        found = reason.overridden
        if found is None:
            return None
        return Override(self._placement.graph.nodes[found.source].name, str(found.ignored), str(found.taken))


def _rule(reason: Reason) -> str:
    if reason.device is None:
        return "none"
    if reason.choice == Choice.DEFAULT:
        return "default" if reason.followed is None else "group"
    if reason.choice == Choice.GENERATOR_FOLLOWS_CONSUMERS and reason.followed in reason.members:
        return "group"
    return reason.choice.name.lower()


def _effective(unions: Sequence[Union]) -> Iterator[Union]:
    """Without those between nodes that were in one group already."""
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


def _merge(graph: Graph, union: Union) -> Merge:
    x, y = graph.nodes[union.x], graph.nodes[union.y]
    node, other = (y, x) if union.cause == Cause.EDGE else (x, y)
    return Merge(node.name, other.name, union.cause.name.lower(), str(union.detail), graph.location(node))


# --- what soft placement gave up (7.2) ------------------------------------------------------------------------------


def _soft_steps(groups: ColocationGraph, node: Node, reason: Reason) -> Iterator[str]:
    if not groups.soft:
        return
    yield from _dropped_in_merges(groups, node, reason)
    held = Constraints(reason.group_requested, reason.group_assigned, reason.group_resource, reason.types)
    if reason.soft_step >= SoftStep.WITHOUT_TYPE_AND_ID:
        left = DeviceSpec(*softened(held, SoftStep.WITHOUT_TYPE_AND_ID))
        anything = str(left) or "any device"
        yield f"no device with a kernel matches {reason.group_requested}; without its type and id: {anything} (7.2c i)"
    if reason.soft_step >= SoftStep.WITHOUT_RESOURCE:
        left = DeviceSpec(*softened(held, SoftStep.WITHOUT_RESOURCE))
        yield f"none matches that either; without the resource's device: {str(left) or 'any device'} (7.2c ii)"


def _dropped_in_merges(groups: ColocationGraph, node: Node, reason: Reason) -> Iterator[str]:
    """7.2a: requests of members that contradict each other lose the type or id that they differ in."""
    requests: dict[DeviceSpec, str] = {}
    for i in reason.members or (node.id,):
        member = groups.graph.nodes[i]
        spec = parse_runtime_name(member.device) or ANY
        if spec != ANY and i not in groups.overridden:
            requests.setdefault(spec, member.name)
    lost = [(spec, name) for spec, name in requests.items() if not _is_kept(spec, reason.group_requested)]
    if lost and len(requests) > 1:
        listed = ", ".join(f"{spec} of {name}" for spec, name in lost[:_SHOWN_REQUESTS])
        common = str(reason.group_requested) or "nothing"
        yield f"requests of the group contradict each other ({listed}): {common} is what they have in common (7.2a)"


def _is_kept(spec: DeviceSpec, group: DeviceSpec) -> bool:
    return all(mine is None or mine == theirs for mine, theirs in zip(spec, group, strict=True))
