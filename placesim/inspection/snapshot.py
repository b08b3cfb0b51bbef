"""Snapshot of a placement, which all inspections read: from a simulation, or from a report written as JSON.

A live snapshot also has the placement itself, with the reasons and the graph. A snapshot from a report has only the content of
the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import Location, PlacesimError
from placesim.core.styled_text import Role, StyledText, quote
from placesim.graph.graph import Graph
from placesim.graph.node_patterns import matcher
from placesim.graph.node_text import replace_tags
from placesim.graph.session_steps import GraphFile
from placesim.machine.inventory import Device
from placesim.placement.function_bodies import NO_BODIES, Bodies, CalledBody, bodies_of, logged_nodes
from placesim.placement.placer import Placement
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.sessions.outcome import Outcome, TransferRow

if TYPE_CHECKING:
    from placesim.inspection.predicted_step import PredictedStep
    from placesim.prediction.node_costs import NodeCosts
    from placesim.prediction.time_breakdown import TimeStudy
    from placesim.runtime.accounting.usage import DeviceUsage


class PlacedNode(NamedTuple):
    """A node with its device, its request and its location in the file.

    For a node in a function's body, the name is its path, which begins with `body`, the path of the body. `lowered_from` is the
    path of the node from which lowering made this node. Both are empty for other nodes.
    """

    name: str
    op: str
    device: str
    requested: str
    location: Location | None = None
    body: str = ""
    lowered_from: str = ""


class ReportedError(NamedTuple):
    """An error in the form of a report: class, TensorFlow's message, the node that caused it, and its location."""

    type: str
    message: str
    node: str | None = None
    location: str | None = None

    @property
    def summary(self) -> StyledText:
        """Return the class and the first line of the message, with nodes by their plain names."""
        first, *_ = (*self.message.strip().split("\n"), "")
        # TensorFlow writes "node" before the tag of a node in a group, not before that of the failing node
        readable = replace_tags(replace_tags(first, "node {}".format), str, ("colocation_node",))
        return StyledText(StyledText(f"{self.type}:", role=Role.ERROR), " ", quote(readable))


@dataclass(frozen=True)
class SimulationState:
    """The state of a simulation: the graph as written, its placements, the partitions of its steps, and bodies.

    `sizes` has the graph's number of nodes at each placement, as steps may have added nodes. `is_raw` says that the nodes come
    from a GraphDef.
    """

    graph: Graph
    placements: tuple[Placement, ...]
    prepared: tuple[PreparedStep, ...]
    sizes: tuple[int, ...]
    is_raw: bool = False

    @property
    def placement(self) -> Placement | None:
        """Return the newest placement; None if an error came before the first."""
        return self.placements[-1] if self.placements else None

    @property
    def bodies(self) -> Bodies:
        """Return the bodies of functions that the nodes of the newest placement call when they run."""
        return NO_BODIES if self.placement is None else bodies_of(self.placement)


@dataclass(frozen=True)
class Snapshot:
    """A placement with its transfers between devices.

    `nodes` are in log order, with their latest devices: the graph's nodes, then the nodes of called bodies. `complaint` is the
    error as shown to a user, with suggestions; None for a written report.

    `memory` is the memory use of devices, if requested; `memory_note` says why it is unknown. In the same way, `time` and
    `time_note` are about step times, and `costs` and `cost_note` about single nodes. `step` has the times that `diff` compares.
    A prediction has only `step`, and `holds_placement` is then False.

    If a dry run was requested for the sizes of transfers, `transfers` has them, `static_transfers` are the transfers with the
    sizes that static shapes determine, and `size_note` says why sizes are unknown.
    """

    name: str
    devices: tuple[Device, ...] = ()
    nodes: tuple[PlacedNode, ...] = ()
    transfers: tuple[TransferRow, ...] = ()
    warnings: tuple[str, ...] = ()
    error: ReportedError | None = None
    live: SimulationState | None = field(default=None, compare=False)
    memory: tuple[DeviceUsage, ...] = field(default=(), compare=False)
    memory_note: str = field(default="", compare=False)
    time: TimeStudy | None = field(default=None, compare=False)
    time_note: str = field(default="", compare=False)
    static_transfers: tuple[TransferRow, ...] | None = field(default=None, compare=False)
    size_note: str = field(default="", compare=False)
    costs: NodeCosts | None = field(default=None, compare=False)
    cost_note: str = field(default="", compare=False)
    step: PredictedStep | None = field(default=None, compare=False)
    holds_placement: bool = True
    complaint: StyledText = field(default_factory=StyledText, compare=False)

    @property
    def handles(self) -> Mapping[str, Sequence[str]]:
        """Map each id in the graph file to the names of its nodes; empty for a written report."""
        return {} if self.live is None else self.live.graph.handles

    @property
    def bodies(self) -> Bodies:
        """Return the function bodies that the graph calls; none for a written report, which has only their nodes."""
        return NO_BODIES if self.live is None else self.live.bodies

    def matcher(self, patterns: Sequence[str]) -> Callable[[PlacedNode], bool]:
        """Return a function that says whether a node matches a pattern: by name, by id, or by its path before lowering."""
        bodies = self.bodies
        meant = [found for pattern in patterns for found in dict.fromkeys((pattern, bodies.standing_for(pattern)))]
        matches = matcher(meant, self.handles)
        return lambda node: matches(node.name) or bool(node.lowered_from and matches(node.lowered_from))

    @property
    def start(self) -> Location:
        """Return the location of findings without a node: the first line of the file."""
        return Location(self.name, 1, 1)


def snapshot_of(name: str, outcome: Outcome) -> Snapshot:
    """Return the snapshot of a simulation."""
    live, file = None, outcome.file
    if file is not None:
        sizes = _sizes(file, len(outcome.placed_graphs))
        live = SimulationState(file.graph, outcome.placed_graphs, outcome.prepared, sizes, file.is_raw)
    rows = {row.name: row for placement in outcome.placed_graphs for row in _rows(placement)}
    failure = None if outcome.error is None else failure_of(outcome.error)
    warnings = (*outcome.warnings, *_body_warnings(outcome.bodies))
    return Snapshot(name, outcome.devices, tuple(rows.values()), outcome.transfers, warnings, failure, live)


def body_failure(body: CalledBody) -> str:
    """Return the reason why a body can't be placed, in one line."""
    assert body.error is not None
    return f"{body.path}, called by {body.call}, cannot be placed: {failure_of(body.error).summary}"


def _body_warnings(bodies: Bodies) -> Iterator[str]:
    yield from (body_failure(body) for body in bodies.bodies if body.error is not None)
    yield from (f"{path} is not inspected: too many nested calls" for path in bodies.deeper)


def failure_of(error: PlacesimError) -> ReportedError:
    """Return an error in the form of a report."""
    return ReportedError(error.type_name, error.message, error.node, None if error.location is None else str(error.location))


def _rows(placement: Placement) -> list[PlacedNode]:
    graph = placement.graph
    if not graph.functions:  # a fast path, since most graphs call no functions, and some have a million nodes
        nodes, devices, location = graph.nodes, placement.devices, graph.location
        names = {device: device.name for device in placement.device_set.devices}
        return [
            PlacedNode(node.name, node.op, names[device], node.device, location(node))
            for node_id in placement.log
            if (device := devices[node_id]) is not None and (node := nodes[node_id])
        ]
    return [
        PlacedNode(path, node.op, device.name, node.device, graph.location(node), body, lowered_from)
        for path, node, device, graph, body, lowered_from in logged_nodes(placement)
    ]


def _sizes(file: GraphFile, placements: int) -> tuple[int, ...]:
    """Return the graph's number of nodes at each placement: before each step that adds nodes, and with all nodes."""
    ids = file.graph.ids
    first_added = [step.nodes[0].name for step in file.steps or () if step.nodes]
    counts = [*(ids[name] for name in first_added if name in ids), len(file.graph)]
    return tuple(counts[len(counts) - placements :])
