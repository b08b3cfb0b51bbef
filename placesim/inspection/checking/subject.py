"""The placement that a check examines, with values that several rules use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from placesim.core.errors import Location
from placesim.graph.graph import Node
from placesim.inspection.explaining.annotations import Annotation, Annotations
from placesim.inspection.snapshot import PlacedNode, Snapshot
from placesim.machine.device_names import DeviceName, parse_runtime_name
from placesim.placement.function_bodies import Instantiation
from placesim.placement.placer import Placement

if TYPE_CHECKING:
    from placesim.prediction.time_breakdown import TimeStudy


@dataclass(frozen=True)
class Subject:
    """The placement that a check examines, with values that several rules use."""

    snapshot: Snapshot

    def matcher(self, patterns: Sequence[str]) -> Callable[[PlacedNode], bool]:
        """Return a function that says whether a node matches one of the patterns; a scope `a/` includes the node `a`."""
        return self.snapshot.matcher([*patterns, *(pattern[:-1] for pattern in patterns if pattern.endswith("/"))])

    @cached_property
    def unmet(self) -> tuple[PlacedNode, ...]:
        """Return the nodes that are not on their requested device."""
        specs: dict[str, DeviceName | None] = {device.name: device.spec for device in self.snapshot.devices}
        found = []
        for node in self.snapshot.nodes:
            asked = parse_runtime_name(node.requested) if node.requested else None
            device = specs.get(node.device)
            if asked is not None and device is not None and not asked.matches(device):
                found.append(node)
        return tuple(found)

    def missing_type(self, node: PlacedNode) -> str | None:
        """Return the device type that a node requests, if the machine has no device of that type."""
        asked = parse_runtime_name(node.requested)
        return None if asked is None or asked.type in self._types else asked.type

    @cached_property
    def _types(self) -> frozenset[str | None]:
        """The types of the machine's devices; None, for a request without a type, is among them."""
        return frozenset((None, *(device.spec.type for device in self.snapshot.devices)))

    @cached_property
    def overridden(self) -> Mapping[str, str]:
        """Map each node whose request a reference or resource edge overrode to the node that determines its device."""
        live = self.snapshot.live
        if live is None:
            return _overridden_in(self.snapshot.warnings)
        placed = (("", placement) for placement in live.placements[:-1])
        return {
            name: source
            for prefix, placement in (*placed, *self.placements)
            for name, source in self._overridden_by(prefix, placement)
        }

    @property
    def placements(self) -> Iterator[tuple[str, Placement]]:
        """Yield the newest placement and the placements of called bodies, each with the prefix of the node names."""
        live = self.snapshot.live
        if live is not None and live.placement is not None:
            yield "", live.placement
            yield from ((f"{body.path}/", found) for body in live.bodies.bodies if (found := body.placement) is not None)

    @cached_property
    def calls_on_one_device(self) -> Mapping[str, str]:
        """Map each body that runs entirely on its calling node's device to the name of the calling node; empty for a report."""
        found = self.snapshot.bodies.bodies
        return {body.path: body.call for body in found if body.how is Instantiation.SINGLE_DEVICE}

    def _overridden_by(self, prefix: str, placement: Placement) -> Iterator[tuple[str, str]]:
        """Yield nodes whose request was overridden, each with the node that determines the device of its group.

        The result includes nodes of the overridden group that had the same request.
        """
        groups, graph = placement.groups, placement.graph
        by_group = {groups.root(i): lost for i, lost in groups.overridden.items()}
        for node in self.unmet if by_group else ():
            node_id = graph.ids.get(node.name.removeprefix(prefix)) if node.name.startswith(prefix) else None
            lost = None if node_id is None else groups.overridden.get(node_id) or by_group.get(groups.root(node_id))
            asked = parse_runtime_name(node.requested)
            if lost is not None and asked is not None and lost.ignored.is_compatible_with(asked):
                yield node.name, prefix + graph.nodes[lost.source].name

    @cached_property
    def by_name(self) -> Mapping[str, PlacedNode]:
        """Return the nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @property
    def placement(self) -> Placement:
        """Return the live placement, for rules that need the graph."""
        live = self.snapshot.live
        found = None if live is None else live.placement
        assert found is not None, "a rule that needs the graph is not checked on a report"
        return found

    def origin(self, node: PlacedNode) -> Annotation | None:
        """Return the written device that decides a node's: of its own request, or of the first request in its group."""
        live = self.snapshot.live
        if live is None or live.placement is None or node.name not in live.placement.graph.ids:
            return None
        graph, groups = live.placement.graph, live.placement.groups
        placed = graph.node(node.name)
        holder = placed if placed.device else self._requests_of_groups.get(groups.root(placed.id))
        written = live.graph
        found = self._annotations.origins(written.node(holder.name)) if holder and holder.name in written.ids else ()
        return found[0] if found else None

    @cached_property
    def _requests_of_groups(self) -> Mapping[int, Node]:
        groups = self.placement.groups
        return {groups.root(node.id): node for node in reversed(self.placement.graph.nodes) if node.device}

    @cached_property
    def _annotations(self) -> Annotations:
        live = self.snapshot.live
        assert live is not None
        return Annotations(live.graph, live.is_raw)

    @property
    def time(self) -> TimeStudy:
        """Return the predicted times of the steps, which are computed only for rules that need them."""
        found = self.snapshot.time
        assert found is not None, "a rule that needs times is checked only with them"
        return found

    def at(self, node: PlacedNode) -> Location:
        """Return the location of a node in its file; for a report, the first line of the report."""
        return node.location or self.snapshot.start


def _overridden_in(warnings: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in warnings:
        if "Ignoring device specification" in text and " for node '" in text:
            node = text.split(" for node '", 1)[1].split("'", 1)[0]
            found[node] = text.split("the input edge from '", 1)[-1].split("'", 1)[0]
    return found


def is_on(device: str, spec: DeviceName) -> bool:
    """Whether a device, given by its full name, matches a specification."""
    found = parse_runtime_name(device)
    return found is not None and spec.matches(found)
