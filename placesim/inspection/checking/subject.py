"""Subject of a check: a snapshot, with values that several rules use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from placesim.core.errors import Location
from placesim.inspection.snapshot import PlacedNode, Snapshot
from placesim.machine.device_names import DeviceName, parse_runtime_name
from placesim.placement.function_bodies import Instantiation
from placesim.placement.placer import Placement

if TYPE_CHECKING:
    from placesim.prediction.time_breakdown import TimeStudy


@dataclass(frozen=True)
class Subject:
    """Subject of a check, with values that several rules use."""

    snapshot: Snapshot

    def matcher(self, patterns: Sequence[str]) -> Callable[[PlacedNode], bool]:
        """Whether a node is matched by one of the patterns."""
        return self.snapshot.matcher(patterns)

    @cached_property
    def unmet(self) -> tuple[PlacedNode, ...]:
        """Nodes that are not on their requested device."""
        specs: dict[str, DeviceName | None] = {device.name: device.spec for device in self.snapshot.devices}
        found = []
        for node in self.snapshot.nodes:
            asked = parse_runtime_name(node.requested) if node.requested else None
            device = specs.get(node.device)
            if asked is not None and device is not None and not asked.matches(device):
                found.append(node)
        return tuple(found)

    @cached_property
    def overridden(self) -> Mapping[str, str]:
        """The nodes whose request lost against a reference or resource edge, each with the node that it lost against."""
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
        """The newest placement and those of called bodies, each with the prefix of its nodes' names."""
        live = self.snapshot.live
        if live is not None and live.placement is not None:
            yield "", live.placement
            yield from ((f"{body.path}/", found) for body in live.bodies.bodies if (found := body.placement) is not None)

    @cached_property
    def calls_on_one_device(self) -> Mapping[str, str]:
        """The bodies that run whole on the device of their call, each with that node; a report does not tell."""
        found = self.snapshot.bodies.bodies
        return {body.path: body.call for body in found if body.how is Instantiation.SINGLE_DEVICE}

    def _overridden_by(self, prefix: str, placement: Placement) -> Iterator[tuple[str, str]]:
        """Nodes whose own request was overridden, each with the nodes of the overridden group that had the same request."""
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
        """The nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @property
    def placement(self) -> Placement:
        """The live placement, for rules that need the graph."""
        live = self.snapshot.live
        found = None if live is None else live.placement
        assert found is not None, "a rule that needs the graph is not checked on a report"
        return found

    @property
    def time(self) -> TimeStudy:
        """Predicted times of the steps, computed for rules that need them."""
        found = self.snapshot.time
        assert found is not None, "a rule that needs times is checked only with them"
        return found

    def at(self, node: PlacedNode) -> Location:
        """Position of a node in its file; none in a report."""
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
