"""Load of each device: nodes, bytes of variables and constants, floating-point operations, transfers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placesim.graph.graph import Node, TensorRef
from placesim.inspection.byte_amounts import Amount, amounts_by, merge_amounts
from placesim.machine.inventory import Device
from placesim.ops.attributes import Shape, TensorValue
from placesim.ops.categories import CONSTANTS, VARIABLES
from placesim.placement.placer import Placement
from placesim.runtime.partitioning.transfer_kinds import TransferKind
from placesim.runtime.sessions.outcome import Outcome, TransferRow


class DeviceSummary(NamedTuple):
    """The load of one device. `variables` and `constants` are None for a written report.

    `peak` is the maximum memory use in bytes while steps ran; None if no step ran. `nodes_in_bodies` is the number of nodes in
    called function bodies, which `nodes` does not include.
    """

    device: str
    nodes: int
    variables: Amount | None
    constants: Amount | None
    sent: Amount
    received: Amount
    peak: int | None = None
    nodes_in_bodies: int = 0

    @property
    def held_bytes(self) -> int:
        """Return the bytes of the device's variables and constants."""
        return (self.variables.bytes if self.variables else 0) + (self.constants.bytes if self.constants else 0)


def summarise_outcome(outcome: Outcome) -> tuple[DeviceSummary, ...]:
    """Return the summary of a simulation: its newest placement, and the transfers of its steps.

    The result is empty if nothing was placed.
    """
    if not outcome.placed_graphs:
        return ()
    placement = outcome.placed_graphs[-1]
    placed_on = [device.name for device in placement.devices if device is not None]
    rows = _with_bodies(summarise(outcome.devices, placed_on, outcome.transfers, placement), outcome)
    if not outcome.memory:
        return rows
    peaks = {usage.device: usage.peak for usage in outcome.memory}
    return tuple(row._replace(peak=peaks.get(row.device, 0)) for row in rows)


def _with_bodies(rows: tuple[DeviceSummary, ...], outcome: Outcome) -> tuple[DeviceSummary, ...]:
    bodies = [body.placement for body in outcome.bodies.bodies if body.placement is not None]
    if not bodies:
        return rows
    counts = Counter(device.name for placement in bodies for device in placement.devices if device is not None)
    return tuple(row._replace(nodes_in_bodies=counts[row.device]) for row in rows)


def summarise(
    devices: Sequence[Device], placed_on: Iterable[str], transfers: Iterable[TransferRow], placement: Placement | None
) -> tuple[DeviceSummary, ...]:
    """Return a row for each device in device-set order; `placed_on` has each node's device."""
    counts = dict.fromkeys((device.name for device in devices), 0)
    for name in placed_on:
        counts[name] = counts.get(name, 0) + 1
    variables = None if placement is None else held_amounts(placement, VARIABLES)
    constants = None if placement is None else held_amounts(placement, CONSTANTS)
    sent, received = sum_transfers(transfers)
    return tuple(
        DeviceSummary(
            name,
            count,
            None if variables is None else variables.get(name, Amount()),
            None if constants is None else constants.get(name, Amount()),
            sent.get(name, Amount()),
            received.get(name, Amount()),
        )
        for name, count in counts.items()
    )


def sum_transfers(transfers: Iterable[TransferRow]) -> tuple[dict[str, Amount], dict[str, Amount]]:
    """Return the transfers that each device sent, and the transfers that it received."""
    pairs = transfers_by_pair(transfers).items()
    sent = merge_amounts({source: amount} for (source, _), amount in pairs)
    return sent, merge_amounts({target: amount} for (_, target), amount in pairs)


def transfers_by_pair(transfers: Iterable[TransferRow]) -> dict[tuple[str, str], Amount]:
    """Return the transferred tensors for each pair of devices."""
    return amounts_by(((row.src, row.dst), row.bytes) for row in transfers if row.kind is TransferKind.TENSOR)


def held_amounts(placement: Placement, ops: Sequence[str]) -> dict[str, Amount]:
    """Return for each device the number and bytes of its variables or constants: of the nodes whose op is in `ops`."""
    return amounts_by((device, held_bytes(node)) for node, device in _holders(placement, ops))


def nodes_of_unknown_size(placement: Placement, ops: Sequence[str]) -> Iterator[tuple[Node, str]]:
    """Yield the variables or constants (by `ops`) whose bytes are unknown, each with the name of its device."""
    return ((node, device) for node, device in _holders(placement, ops) if held_bytes(node) is None)


def _holders(placement: Placement, ops: Sequence[str]) -> Iterator[tuple[Node, str]]:
    wanted = {signature for signature in {node.signature for node in placement.graph.nodes} if signature.op in ops}
    holders = [node for node in placement.graph.nodes if node.signature in wanted] if wanted else []
    placed_on = ((node, placement.devices[node.id]) for node in holders)
    return ((node, device.name) for node, device in placed_on if device is not None)


def held_bytes(node: Node) -> int | None:
    """Return the bytes of a variable or constant, with actual lengths for strings; None for an unknown shape."""
    value = node.attrs.get("value")
    if isinstance(value, TensorValue):
        size = value.dtype.size
        return value.array.size * size if size else sum(len(text) for text in value.array.flat if isinstance(text, bytes))
    shape, dtype = node.attrs.get("shape"), node.attrs.get("dtype")
    if not isinstance(shape, Shape) or shape.dims is None or min(shape.dims, default=0) < 0 or not dtype or not dtype.size:
        return None
    return math.prod(shape.dims, start=int(dtype.size))


def operations(placement: Placement) -> tuple[Mapping[str, int], int]:
    """Return the floating-point operations by device, and the number of nodes whose number of operations is unknown."""
    from placesim.ops.kernels import load_kernels
    from placesim.runtime.shapes.graph_shapes import GraphShapes
    from placesim.runtime.shapes.node_costs import node_flops

    graph, kernels = placement.graph, load_kernels()
    shapes = GraphShapes(graph)
    found = {device.name: 0 for device in placement.device_set.devices}
    unknown = 0
    for node in graph.nodes:
        kernel, device = kernels.get(node.op), placement.devices[node.id]
        if device is None or kernel is None or kernel.flops is None:
            continue
        inputs = [shapes.shape(ref) for ref in node.inputs]
        outputs = [shapes.shape(TensorRef(node.id, slot)) for slot in range(len(node.signature.output_dtypes))]
        flops = node_flops(kernel, graph.kernel_attrs(node), inputs, outputs)
        found[device.name] += flops or 0
        unknown += flops is None
    return found, unknown
