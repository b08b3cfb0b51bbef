"""The picture of a placement, made from a snapshot: nodes with sizes, the edges between them, copies between devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.errors import Location
from placesim.graph.graph import Graph, Node, TensorRef, split_tensor_name
from placesim.inspection.byte_amounts import Amount, amounts_by
from placesim.inspection.snapshot import SimulationState, Snapshot
from placesim.placement.function_bodies import Bodies, CalledBody
from placesim.runtime.partitioning.transfer_kinds import TransferKind
from placesim.runtime.sessions.outcome import TransferRow

if TYPE_CHECKING:
    from placesim.placement.placer import Placement
    from placesim.prediction.node_costs import NodeCosts
    from placesim.runtime.accounting.usage import DeviceUsage
    from placesim.runtime.shapes.graph_shapes import GraphShapes

CONTROL_SLOT = -1
UNPLACED = -1
"""Device index of a node that was not placed because of an error."""


class InputSource(NamedTuple):
    """An input: the source node and the index of its output, or CONTROL_SLOT for a control edge."""

    node: int
    slot: int


class PictureNode(NamedTuple):
    """A node, identified by its id in the picture. `device` is an index into the picture's devices.

    `bytes` is the size of its outputs, or for a handle, of the variable; None for an unknown shape. `body` is the path of its
    function body, which is a prefix of its name; empty for the main graph.
    """

    name: str
    op: str
    device: int
    requested: str
    bytes: int | None = None
    inputs: tuple[InputSource, ...] = ()
    location: Location | None = None
    body: str = ""


class Copy(NamedTuple):
    """A tensor that a step copies from one device to another.

    `node` is the producer's id, or -1 if the picture lacks it. `bytes` is None if unknown before the step runs.
    """

    node: int
    slot: int
    src: int
    dst: int
    bytes: int | None


class Asides(NamedTuple):
    """Copies that are not transfers between devices.

    `host` maps each device to the tensors copied between its memory and the host's. `signals` maps each pair of devices to the
    number of control edges, and of tensors without elements, between them.
    """

    host: Mapping[int, Amount] = {}
    signals: Mapping[tuple[int, int], int] = {}


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of a placement: the graph's nodes, followed by those of the bodies that it calls.

    `devices` are full names in device-set order. `copies` are the transfers, and `asides` all other copies. `live` has the
    reasons. In a picture of a written report it is None, and nodes have neither inputs nor bytes.

    `memory` is the memory use of devices, if requested; `memory_note` says why it is unknown. `costs` has the nodes' times in a
    step, if known. `command` followed by a node's name explains that node; it is empty if the options of the placement are
    unknown.
    """

    name: str
    devices: tuple[str, ...]
    nodes: tuple[PictureNode, ...] = ()
    copies: tuple[Copy, ...] = ()
    asides: Asides = field(default_factory=Asides)
    live: SimulationState | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""
    memory: tuple[DeviceUsage, ...] = ()
    memory_note: str = ""
    costs: NodeCosts | None = None
    command: str = ""

    def matrix(self) -> dict[tuple[int, int], Amount]:
        """Return the transfers in one run of each step, by (source device, target device), in sorted order."""
        return dict(sorted(amounts_by(((copy.src, copy.dst), copy.bytes) for copy in self.copies).items()))


# --- from a snapshot --------------------------------------------------------------------------------------------------


def picture_of(snapshot: Snapshot) -> Picture:
    """Return the picture of a snapshot's newest placement, with the copies that one run of each step makes."""
    devices = tuple(device.name for device in snapshot.devices)
    indices = {name: index for index, name in enumerate(devices)}
    live, error = snapshot.live, "" if snapshot.error is None else snapshot.error.summary
    placement = None if live is None else live.placement
    if live is None or placement is None:
        nodes = tuple(
            PictureNode(node.name, node.op, indices[node.device], node.requested, body=node.body) for node in snapshot.nodes
        )
        copies = _written_copies(snapshot, indices)
    else:
        nodes = (*_nodes(placement, indices), *_nodes_of_bodies(live.bodies, placement, indices))
        copies = _live_copies(snapshot, live, placement, indices)
    transfers = tuple(copy for copy, row in zip(copies, snapshot.transfers, strict=True) if row.kind is TransferKind.TENSOR)
    found = snapshot.memory, snapshot.memory_note, snapshot.costs
    asides = _asides(snapshot.transfers, indices)
    return Picture(snapshot.name, devices, nodes, transfers, asides, live, snapshot.warnings, error, *found)


def _asides(rows: Sequence[TransferRow], indices: Mapping[str, int]) -> Asides:
    host = amounts_by((indices[row.dst], row.bytes) for row in rows if row.kind is TransferKind.HOST)
    signals = amounts_by(((indices[row.src], indices[row.dst]), 0) for row in rows if row.kind is TransferKind.SIGNAL)
    return Asides(dict(sorted(host.items())), {pair: amount.number for pair, amount in sorted(signals.items())})


def _nodes_of_bodies(bodies: Bodies, placement: Placement, indices: Mapping[str, int]) -> Iterator[PictureNode]:
    """Yield the nodes of each body; nodes without inputs depend on the calling node."""
    numbers = {node.name: node.id for node in placement.graph.nodes} if bodies.bodies else {}
    start = len(placement.graph)
    for body, found in placed_bodies(bodies):
        caller = (InputSource(numbers[body.call], CONTROL_SLOT),)
        for number, node in enumerate(_nodes(found, indices)):
            name, inputs = body.path_of(node.name), tuple(InputSource(start + s.node, s.slot) for s in node.inputs)
            numbers[name] = start + number
            yield node._replace(name=name, inputs=inputs or caller, body=body.path)
        start += len(found.graph)


def placed_bodies(bodies: Bodies) -> Iterator[tuple[CalledBody, Placement]]:
    """Yield the bodies that have a placement, in the order of their nodes in a picture."""
    yield from ((body, body.placement) for body in bodies.bodies if body.placement is not None)


def pictured_graphs(live: SimulationState | None) -> tuple[Graph, ...]:
    """Return the graphs in a picture: the placed graph, then the graphs of bodies; none without a placement."""
    if live is None or live.placement is None:
        return ()
    return (live.placement.graph, *(found.graph for _, found in placed_bodies(live.bodies)))


def _nodes(placement: Placement, indices: Mapping[str, int]) -> Iterator[PictureNode]:
    graph = placement.graph
    by_device = {device: indices[device.name] for device in placement.device_set.devices}
    for node, device, size in zip(graph.nodes, placement.devices, node_bytes(graph), strict=True):
        index = UNPLACED if device is None else by_device[device]
        yield PictureNode(node.name, node.op, index, node.device, size, _sources(node), graph.location(node))


def _sources(node: Node) -> tuple[InputSource, ...]:
    return (*map(InputSource, node.input_nodes, node.input_slots), *(InputSource(i, CONTROL_SLOT) for i in node.control_inputs))


def node_bytes(graph: Graph) -> list[int | None]:
    """Return for each node the bytes of its outputs by static shapes; a handle has the bytes of its variable."""
    from placesim.runtime.shapes.graph_shapes import GraphShapes
    from placesim.runtime.shapes.node_costs import total_bytes

    shapes = GraphShapes(graph)
    return [total_bytes(*_outputs(node, shapes)) for node in graph.nodes]


def _outputs(node: Node, shapes: GraphShapes) -> tuple[list[Any], list[Any]]:
    if node.op == "VarHandleOp":
        shape = node.attrs.get("shape")
        return [getattr(shape, "dims", None)], [node.attrs["dtype"]]
    dtypes = list(node.signature.output_dtypes)
    return [shapes.shape(TensorRef(node.id, slot)) for slot in range(len(dtypes))], dtypes


def _live_copies(snapshot: Snapshot, live: SimulationState, placement: Placement, indices: Mapping[str, int]) -> Iterator[Copy]:
    ids, rows = placement.graph.ids, iter(snapshot.transfers)
    for step in live.prepared:
        for transfer in step.partitions.transfers:
            size = next(rows).bytes
            yield Copy(ids.get(transfer.producer, -1), transfer.slot, indices[transfer.src], indices[transfer.dst], size)


def _written_copies(snapshot: Snapshot, indices: Mapping[str, int]) -> Iterator[Copy]:
    ids = {node.name: index for index, node in enumerate(snapshot.nodes)}
    for row in snapshot.transfers:
        name, slot = split_tensor_name(row.tensor)
        yield Copy(ids.get(name, -1), slot, indices[row.src], indices[row.dst], row.bytes)
