"""Partitioning: one graph for each device, with sends and receives in place of edges between devices (section 8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import FLOAT
from placesim.core.errors import InvalidArgumentError
from placesim.graph.graph import Graph, Node, NodeDef, Signature
from placesim.machine.inventory import Device, DeviceSet
from placesim.ops.attributes import TensorValue
from placesim.ops.categories import (
    ENTERS,
    EXITS,
    FOLLOWING_READER,
    MERGES,
    MOVED_BY_PARTITIONER,
    NEXT_ITERATIONS,
    RECEIVES,
    RESULTS,
    SENDS,
    SWITCHES,
)
from placesim.runtime.partitioning.memory_types import MemoryTypes, memory_types
from placesim.runtime.partitioning.pruning import ClientGraph
from placesim.runtime.shapes.loop_frames import LoopFrame, find_frames

_EDGE = re.compile(r"^edge_\d+_")


class Transfer(NamedTuple):
    """A tensor that is copied between devices, or between device memory and host memory.

    `producer` and `slot` are the node and output of the client graph that computed the tensor, even if it was copied before.
    Slot -1 is a control edge.
    """

    tensor: str
    src: str
    dst: str
    send: str
    send_op: str
    recv: str
    recv_op: str
    producer: str
    slot: int


def tensor_of(transfer: str) -> str:
    """Return the tensor's name in the name of a transfer, such as `x` in `edge_3_x`."""
    return _EDGE.sub("", transfer)


class Partition(NamedTuple):
    """The partition of a graph for one device."""

    device: Device
    graph: Graph


class Partitions(NamedTuple):
    """The partitions of a client graph, in the order of their first node, and the transfers between them."""

    parts: tuple[Partition, ...]
    transfers: tuple[Transfer, ...]


@dataclass(slots=True)
class _PartNode:
    """A node of a partition under construction."""

    name: str
    op: str
    attrs: dict[str, Any]
    device: Device
    inputs: list[str] = field(default_factory=list)
    requested: str = ""
    location: int = 0

    def finish(self) -> NodeDef:
        return NodeDef(self.name, self.op, tuple(self.inputs), self.requested, self.attrs, self.location)


class _Names:
    """Numbered names of inserted nodes (8.5): `x/_3` in a direct session, `x_S3` between tasks, `x_G3` inside a task."""

    def __init__(self, infix: str) -> None:
        self._infix = infix
        self._count = 0

    def new(self, prefix: str) -> str:
        name = f"{prefix}{self._infix}{self._count}"
        self._count += 1
        return name


def partition(client: ClientGraph, device_set: DeviceSet) -> Partitions:
    """Partition a client graph by device; if there are several tasks, first by task, and then each part by device.

    Raises InvalidArgumentError for a loop over several devices without a loop condition.
    """
    tasks = {device.spec.address_space for device in device_set.devices}
    if len(tasks) <= 1:
        return _Partitioner(client.graph, client.devices, _Names("/_"), lambda device: device.name).run()
    # the master cuts the graph by task, and each worker cuts its part by device
    between = _Partitioner(client.graph, client.devices, _Names("_S"), lambda device: device.name.rpartition("/device:")[0])
    whole = between.run()
    parts: list[Partition] = []
    transfers = list(whole.transfers)
    for part in whole.parts:
        # a worker builds its part from NodeDefs, which numbers the nodes anew (6.5.2)
        graph = part.graph.in_runtime_order()
        devices = [device_set.by_name[node.device] for node in graph.nodes]
        inner = _Partitioner(graph, devices, _Names("_G"), lambda device: device.name, True).run()
        parts += inner.parts
        transfers += inner.transfers
    received = {transfer.recv: transfer for transfer in whole.transfers if transfer.recv not in client.graph.ids}
    return Partitions(tuple(parts), tuple(_traced(transfer, received) for transfer in transfers))


def _traced(transfer: Transfer, received: Mapping[str, Transfer]) -> Transfer:
    """Return a transfer with the node that computed its tensor; between tasks, a tensor passes through CPUs."""
    before = received.get(transfer.producer) if transfer.slot >= 0 else None
    return transfer if before is None else transfer._replace(producer=before.producer, slot=before.slot)


class _Partitioner:
    """The state of one partitioning."""

    def __init__(
        self,
        graph: Graph,
        devices: Sequence[Device],
        names: _Names,
        place: Callable[[Device], str],
        has_control_loops: bool = False,
    ) -> None:
        self.graph = graph
        self.devices = list(devices)
        self.names = names
        self.place = place
        self.has_control_loops = has_control_loops
        self.made: dict[str, list[_PartNode]] = {}
        self.transfers: list[Transfer] = []
        self._memory: dict[tuple[Signature, str], MemoryTypes] = {}
        self._received: dict[tuple[int, int, str, bool], str] = {}

    def run(self) -> Partitions:
        nodes = self._nodes()
        places = [self.place(device) for device in self.devices]
        for node in nodes:
            self._add_node(node, places)
        parts = []
        for copies in self.made.values():
            graph = self.graph.emptied()
            graph.extend([copy.finish() for copy in copies])
            parts.append(Partition(copies[0].device, graph))
        return Partitions(tuple(parts), tuple(self.transfers))

    def _nodes(self) -> Sequence[Node]:
        # the master has already moved the nodes and added the loops
        if not self.has_control_loops:
            ops = {signature.op for signature in self.graph.signatures.all()}
            if ops & MOVED_BY_PARTITIONER:
                self._move_control_flow()
            if ops & set(ENTERS):
                self._add_control_loops()
        return self.graph.nodes

    # --- nodes and edges (8.2 to 8.6)

    def _memory_types(self, node: Node) -> MemoryTypes:
        key = (node.signature, self.devices[node.id].type)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = memory_types(self.graph.registry, *key)
        return found

    def _add_node(self, node: Node, places: Sequence[str]) -> None:
        nodes, own = self.graph.nodes, places[node.id]
        device = self.devices[node.id]
        copy = _PartNode(node.name, node.op, node.attrs, device, [], device.name, node.location)  # type: ignore[arg-type]
        self.made.setdefault(own, []).append(copy)
        # these control inputs belong on the receives of the node, not on the node (8.10)
        control_merges = [i for i in node.control_inputs if self._is_control_loop_merge(i)]
        cut_refs: list[_PartNode] = []
        plain: list[str] = []
        for i, slot, position in self._edges(node, control_merges):
            source = nodes[i]
            is_control = position < 0
            if places[i] == own and (is_control or not self._crosses_memory(source, slot, node, position)):
                copy.inputs.append(_input_text(source.name, slot, is_control))
                if is_control or not source.signature.output_is_ref[slot]:
                    # receives of references wait for these inputs (8.9)
                    plain.append(source.name)
                continue
            # a CPU has one kind of memory, so its readers share one receive
            on_host = device.type == "CPU" or (not is_control and self._memory_types(node).inputs[position])
            key = (i, slot, own, on_host)
            received = self._received.get(key)
            if received is None:
                merge = control_merges.pop() if control_merges and places[i] != own else None
                received, recv = self._cut(source, slot, node, position, merge, places[i] == own)
                if not is_control and source.signature.output_is_ref[slot]:
                    cut_refs.append(recv)
                else:
                    # receives of references are not shared: each reader waits for its own inputs (8.3)
                    self._received[key] = received
                    plain.append(received)
            else:
                plain.append(received)
            copy.inputs.append(_input_text(received, 0, is_control))
        # a reference must not be read before the other inputs have arrived (8.9)
        for recv in cut_refs:
            recv.inputs += ["^" + name for name in plain]
        copy.inputs += ["^" + nodes[i].name for i in control_merges]

    def _edges(self, node: Node, control_merges: Sequence[int]) -> Iterable[tuple[int, int, int]]:
        """Yield source, slot and input position of each edge; control edges have slot and position -1."""
        for position, (i, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True)):
            yield i, slot, position
        for i in node.control_inputs:
            if i not in control_merges:
                yield i, -1, -1

    def _crosses_memory(self, source: Node, slot: int, node: Node, position: int) -> bool:
        """Whether an edge within one device connects host memory and device memory."""
        # only a device with memory of its own needs a copy within itself (8.2)
        if self.devices[source.id] is not self.devices[node.id] or self.devices[node.id].type == "CPU":
            return False
        return self._memory_types(source).outputs[slot] != self._memory_types(node).inputs[position]

    def _cut(
        self, source: Node, slot: int, node: Node, position: int, merge: int | None, is_local: bool
    ) -> tuple[str, _PartNode]:
        """Replace an edge by a send and a receive; return the node's new input name and the receive.

        The receive waits for the send if `is_local`, else for the control loop's `merge`, if there is one.
        """
        src, dst = self.devices[source.id], self.devices[node.id]
        out, into = (self.made.setdefault(self.place(device), []) for device in (src, dst))
        is_control = slot < 0
        tensor, dtype, send_on_host, recv_on_host = source.name, FLOAT, False, False
        if is_control:
            # a control edge is sent as an empty tensor (8.4)
            tensor = self.names.new(self.graph.registry.rules.control_constant.format(node=source.name))
            out.append(_PartNode(tensor, "Const", dict(_EMPTY_CONST), src, ["^" + source.name], src.name))
        else:
            dtype = node.signature.input_dtypes[position]
            send_on_host = self._memory_types(source).outputs[slot]
            recv_on_host = self._memory_types(node).inputs[position]
        attrs = self._transfer_attrs(source, node, src, dst)
        send_op, recv_op = SENDS[send_on_host], RECEIVES[recv_on_host]
        sent = [_input_text(tensor, max(slot, 0), False)]
        send = _PartNode(self.names.new(source.name), send_op, {"T": dtype, **attrs}, src, sent, src.name)
        recv = _PartNode(self.names.new(source.name), recv_op, {"tensor_type": dtype, **attrs}, dst, [], dst.name)
        out.append(send)
        into.append(recv)
        name = f"{tensor}:{max(slot, 0)}"
        self.transfers.append(
            Transfer(name, src.name, dst.name, send.name, send_op, recv.name, recv_op, producer=source.name, slot=slot)
        )
        if is_local:
            # within a device nothing else ensures that the tensor is sent first (8.6)
            recv.inputs.append("^" + send.name)
        elif merge is not None:
            recv.inputs.append("^" + self.graph.nodes[merge].name)
        if not is_control:
            return recv.name, recv
        identity = _PartNode(self.names.new(source.name), "Identity", {"T": FLOAT}, dst, [recv.name], dst.name)
        into.append(identity)
        return identity.name, recv

    def _transfer_attrs(self, source: Node, node: Node, src: Device, dst: Device) -> dict[str, Any]:
        return {
            # TensorFlow uses the id of the edge; only its uniqueness matters (8.7)
            "tensor_name": f"edge_{len(self.transfers)}_{source.name}",
            "send_device": src.name,
            # a session of one process never sees a device restart (8.7)
            "send_device_incarnation": 1,
            "recv_device": dst.name,
            "client_terminated": False,
            "_src": source.name,
            "_dst": node.name,
        }

    # --- loops over several devices (8.10)

    def _is_control_loop_merge(self, node_id: int) -> bool:
        node = self.graph.nodes[node_id]
        return node.op in MERGES and node.name.startswith("_cloop")

    def _move_control_flow(self) -> None:
        """Move each control flow node to the device of its data, so that fewer devices take part in a loop.

        Nodes outside loops move too, as in TensorFlow.
        """
        graph, devices = self.graph, self.devices
        consumers = _consumers_by_edge(graph)
        for node_id in _depth_first(graph, consumers):
            node = graph.nodes[node_id]
            if node.op in SWITCHES or node.op in EXITS:
                # devices of earlier nodes may have changed, so the order of the search matters (8.10)
                devices[node_id] = devices[node.input_nodes[0]]
            elif node.op in FOLLOWING_READER:
                reader = next((i for i in consumers[node_id] if node_id in graph.nodes[i].input_nodes), node_id)
                devices[node_id] = devices[reader]

    def _add_control_loops(self) -> None:
        """Add a control loop on each device of a loop except the device of its condition; it repeats as often as the loop."""
        frames = find_frames(self.graph)
        conditions = {f.name: node for node in self.graph.nodes if node.op == "LoopCond" and (f := frames[node.id])}
        extended = self.graph.emptied()  # a copy with own nodes, which get more control inputs
        for node in self.graph.nodes:
            inputs = node.input_nodes, node.input_slots, node.control_inputs
            extended.add(node.name, node.op, node.attrs, *inputs, node.device, node.location)
        loops: dict[tuple[str, str], _ControlLoop] = {}
        crossings: list[tuple[int, tuple[str, str]]] = []
        for node in list(extended.nodes):
            for i in (*node.input_nodes, *node.control_inputs):
                source = extended.nodes[i]
                # only an edge between devices makes a device take part in a loop
                if self.devices[i].name == self.devices[node.id].name:
                    continue
                # the output of an Exit is already outside the loop
                frame = frames[i].parent if source.op in EXITS and frames[i] else frames[i]  # type: ignore[union-attr]
                own = frames[node.id]
                # the input of an Enter is still outside the loop
                inside = own.parent if node.op in ENTERS and own else own
                if frame is None or frame != inside:
                    continue
                self._add_control_loop(extended, node, frame, conditions, loops)
                crossings.append((node.id, (frame.name, self.devices[node.id].name)))
        for (name, device), loop in loops.items():
            if self.devices[conditions[name].id].name != device:
                # the Switch receives the loop's condition, in each iteration (8.10)
                crossings.append((loop.switch, (name, device)))
        for node_id, key in crossings:
            node = extended.nodes[node_id]
            node.control_inputs = (*node.control_inputs, loops[key].merge)
        for loop in loops.values():
            # the merge of the outer loop exists only now
            extended.nodes[loop.enter].input_nodes = (loop.outer,)
        self.graph = extended

    def _add_control_loop(
        self,
        graph: Graph,
        node: Node,
        frame: LoopFrame,
        conditions: dict[str, Node],
        loops: dict[tuple[str, str], _ControlLoop],
    ) -> None:
        device = self.devices[node.id]
        child: _ControlLoop | None = None
        current: LoopFrame | None = frame
        while current is not None:
            existing = loops.get((current.name, device.name))
            if existing is not None:
                if child is not None:
                    child.outer = existing.merge
                return
            condition = conditions.get(current.name)
            if condition is None:
                raise InvalidArgumentError(f"A cross-device loop must have a pivot predicate: {current.name}")
            loop = self._make_loop(graph, node, current, condition, device)
            loops[current.name, device.name] = loop
            if child is not None:
                child.outer = loop.merge
            child, current = loop, current.parent
        if child is not None:
            const = graph.add(self.names.new(node.name), "Const", dict(_EMPTY_CONST), device=device.name)
            self.devices.append(device)
            child.outer = const.id

    def _make_loop(self, graph: Graph, node: Node, frame: LoopFrame, condition: Node, device: Device) -> _ControlLoop:
        enter, merge, switch, following = (f"_cloop{self.names.new(node.name)}" for _ in range(4))
        attrs = {"T": FLOAT}
        iterations = frame.enter.attrs.get("parallel_iterations", 10)
        of_frame = {"frame_name": frame.name, "parallel_iterations": iterations, "is_constant": False}
        first = len(graph)
        graph.add(enter, "Enter", attrs | of_frame, (first,), (0,), (), device.name)
        graph.add(merge, "Merge", {"T": FLOAT, "N": 2}, (first, first + 3), (0, 0), (), device.name)
        graph.add(switch, "Switch", attrs, (first + 1, condition.id), (0, 0), (), device.name)
        graph.add(following, "NextIteration", attrs, (first + 2,), (1,), (), device.name)
        self.devices += [device] * 4
        return _ControlLoop(first, first + 1, first + 2)


@dataclass(slots=True)
class _ControlLoop:
    """A loop of dummy nodes, by their ids; `enter` reads `outer`: a constant, or the merge of the enclosing control loop."""

    enter: int
    merge: int
    switch: int
    outer: int = -1


_EMPTY_CONST: dict[str, Any] = {"dtype": FLOAT, "value": TensorValue(FLOAT, np.zeros(0, np.float32))}


def _input_text(name: str, slot: int, is_control: bool) -> str:
    if is_control:
        return "^" + name
    return f"{name}:{slot}" if slot else name


def _consumers_by_edge(graph: Graph) -> list[list[int]]:
    """Return `graph.consumers()`, sorted as TensorFlow added the edges: edges that close a loop last, but before fetches."""
    consumers = graph.consumers()
    for node in graph.nodes:
        if node.op in NEXT_ITERATIONS:
            consumers[node.id].sort(key=lambda i: 2 if graph.nodes[i].op in RESULTS else i < node.id)
    return consumers


def _depth_first(graph: Graph, consumers: Sequence[Sequence[int]]) -> Iterable[int]:
    """Yield node ids in the order of TensorFlow's depth-first search.

    The search begins at the last node without inputs, and visits the last consumer of a node first. If a graph has more than
    five nodes without inputs, or a node more than eight consumers, TensorFlow's order depends on the addresses of edges, and
    differs between runs (8.10).
    """
    visited = bytearray(len(graph))
    stack = [node.id for node in graph.nodes if not node.input_nodes and not node.control_inputs]
    while stack:
        node_id = stack.pop()
        if visited[node_id]:
            continue
        visited[node_id] = 1
        yield node_id
        stack += [i for i in consumers[node_id] if not visited[i]]
