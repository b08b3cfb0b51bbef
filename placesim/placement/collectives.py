"""Replacement of NCCL broadcasts and reductions in a placed graph by sends and receives on the participating devices.

This is TensorFlow's `NcclReplacePass`, which runs on the placed graph before the graph is pruned for a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import INT32
from placesim.core.errors import InvalidArgumentError
from placesim.machine.inventory import Device
from placesim.ops.attributes import Shape, TensorValue
from placesim.placement.editable_graph import EditableGraph
from placesim.placement.editable_node import EditableNode
from placesim.placement.placer import PlacedGraph, Placement

COLLECTIVES = ("NcclBroadcast", "NcclReduce")


def replace_collectives(placed: Placement) -> PlacedGraph:
    """Replace the collectives of a placed graph.  Return the same object if it has none.

    Raises InvalidArgumentError if no input of a reduction is on the reduction's device.
    """
    if not any(node.op in COLLECTIVES for node in placed.graph.nodes):
        return placed
    return _Replacement(placed).run()


class _End(NamedTuple):
    """An edge out of a collective: the node that reads it, and the input slot (-1 for a control edge)."""

    node: EditableNode
    slot: int


class _Replacement:
    """A graph whose collectives are being replaced, with the device of each node.

    `first_use` has the numbers of the devices in TensorFlow's graph: the placer numbers devices when it first chooses them.
    """

    def __init__(self, placed: Placement) -> None:
        self.placed = placed
        self.edited = EditableGraph(placed.graph)
        nodes = zip(self.edited.nodes, placed.order, strict=True)
        self.devices: dict[int, Device | None] = {id(node): placed.devices[node_id] for node, node_id in nodes}
        used = dict.fromkeys(device.name for i in placed.log if (device := placed.devices[i]) is not None)
        self.first_use = {name: number for number, name in enumerate(used)}

    def run(self) -> PlacedGraph:
        for node in list(self.edited.nodes):
            if node.op == "NcclReduce":
                self._replace_reduce(node)
            elif node.op == "NcclBroadcast":
                self._replace_broadcast(node)
        graph = self.edited.finish()
        devices = [self._device(node) for node in self.edited.nodes if not node.removed]
        return PlacedGraph(graph, self.placed.device_set, graph.runtime_order(), devices)

    def _device(self, node: EditableNode) -> Device | None:
        return self.devices[id(node)]

    def _add(
        self,
        name: str,
        op: str,
        attrs: dict[str, object],
        device: Device | None,
        data: Sequence[tuple[EditableNode, int]] = (),
        control: Iterable[EditableNode] = (),
    ) -> EditableNode:
        node = self.edited.add(name, op, attrs, "", data, control)
        self.devices[id(node)] = device
        return node

    def _take_out(self, node: EditableNode) -> list[_End]:
        """Remove a node with its edges and return its outgoing edges."""
        ends = [_End(reader, slot) for reader, slot in node.readers]
        self.edited.remove(node)
        return ends

    def _connect(self, source: EditableNode, slot: int, end: _End) -> None:
        if end.slot < 0:
            self.edited.control(source, end.node)
        else:
            end.node.data[end.slot] = (source, slot)
            source.readers.append((end.node, end.slot))

    # --- reductions

    def _replace_reduce(self, node: EditableNode) -> None:
        """Replace a reduction by a receive of the first input on its device, and a send for every other input."""
        own = self._device(node)
        attrs: dict[str, object] = {
            "reduction": node.attrs["reduction"],
            "num_devices": len(node.data),
            "shared_name": node.name,
            "T": node.attrs["T"],
        }
        # the first input on this device stays; all others send theirs
        kept = next((source for source, _ in node.data if self._device(source) is own), None)
        if kept is None:
            raise InvalidArgumentError("No input tensor uses the same device as the NcclReduce op", node=node.name)
        sources, control = [source for source, _ in node.data], list(node.control)
        sources.remove(kept)
        ends = self._take_out(node)
        for number, source in enumerate(sources, 1):
            device = self._device(source)
            send = self._add(f"{node.name}Send_{number}", "_NcclReduceSend", attrs, device, [(source, 0)], control)
            for end in ends:
                self.edited.control(send, end.node)
        receive = self._add(f"{node.name}Recv", "_NcclReduceRecv", attrs, own, [(kept, 0)], control)
        for end in ends:
            self._connect(receive, 0, end)

    # --- broadcasts

    def _replace_broadcast(self, node: EditableNode) -> None:
        """Replace a broadcast by a send on its device and a receive on each other device.

        Readers on the device of the broadcast read its input directly.
        """
        own, source = self._device(node), node.data[0]
        by_device: dict[str, list[_End]] = {}
        for reader, slot in node.readers:
            # a control edge needs no tensor, so it counts as an edge on the broadcast's own device
            device = own if slot < 0 else self._device(reader)
            # TensorFlow pushes each edge to the front of a list, which reverses their order
            by_device.setdefault(device.name if device else "", []).insert(0, _End(reader, slot))
        control = list(node.control)
        self._take_out(node)
        if len(by_device) <= 1:
            for end in next(iter(by_device.values()), ()):
                self._connect(*source, end)
            return
        attrs: dict[str, object] = {"num_devices": len(by_device), "shared_name": node.name, "T": node.attrs["T"]}
        send = self._add(f"{node.name}Send", "_NcclBroadcastSend", attrs, own, [source], control)
        own_name = own.name if own else ""
        for end in by_device.get(own_name, ()):
            if end.slot >= 0:
                self._connect(*source, end)
            self.edited.control(send, end.node)
        numbers = {name: number for number, name in enumerate(by_device)}
        self._add_receives(node, source, attrs, {name: ends for name, ends in by_device.items() if name != own_name}, numbers)

    def _add_receives(
        self,
        node: EditableNode,
        source: tuple[EditableNode, int],
        attrs: dict[str, object],
        by_device: dict[str, list[_End]],
        numbers: dict[str, int],
    ) -> None:
        shape: Shape = node.attrs["shape"]
        prefix = f"{source[0].name}/Shape"
        is_known = shape.dims is not None and all(dim >= 0 for dim in shape.dims)
        shape_attrs: dict[str, object] = {"out_type": INT32, "T": node.attrs["T"]}
        shared = None if is_known else self._add(prefix, "Shape", shape_attrs, self._device(node), [source])
        for name, ends in sorted(by_device.items(), key=lambda pair: self.first_use[pair[0]]):
            device = self.placed.device_set.by_name[name]
            known = shared or self._add_known_shape(f"{prefix}{numbers[name]}", shape, device)
            receive = self._add(f"{node.name}Recv_{numbers[name]}", "_NcclBroadcastRecv", attrs, device, [(known, 0)])
            for end in ends:
                self._connect(receive, 0, end)

    def _add_known_shape(self, name: str, shape: Shape, device: Device) -> EditableNode:
        value = TensorValue(INT32, np.array(shape.dims, np.int32))
        return self._add(name, "Const", {"value": value, "dtype": INT32}, device)
