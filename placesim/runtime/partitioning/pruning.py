"""Pruning of a placed graph for a step (8.11): `_Arg` nodes replace feeds, `_Retval` nodes take fetches, unneeded nodes go.

Small constants that several devices read are then copied to each of these devices (8.13).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placesim.core.errors import NotFoundError
from placesim.graph.graph import Graph, Node, TensorRef
from placesim.graph.node_text import node_error
from placesim.machine.inventory import Device, DeviceSet
from placesim.ops.categories import ARGUMENTS, CONSTANTS, RESULTS, UNFED_PLACEHOLDERS
from placesim.placement.collectives import replace_collectives
from placesim.placement.placer import PlacedGraph, Placement

MAX_REPLICATED_ELEMENTS = 16
"""Maximum number of elements of a constant that is copied; larger constants are sent."""
_FEED = re.compile(r"_arg_(?P<fed>.+)_\d+_\d+(?:/_\d+)?")
_ENDS = dict.fromkeys(ARGUMENTS, "_arg_") | dict.fromkeys(RESULTS, "_retval_")
"""Beginnings of the names of a step's own arguments and results."""


@dataclass(frozen=True, slots=True)
class ClientGraph:
    """The nodes that a step runs, in the runtime's order, with their devices.

    `feeds[i]` is the name of the tensor that `_Arg` i provides, and `fetches[i]` the name of the tensor that `_Retval` i takes.
    Both are sorted.
    """

    graph: Graph
    devices: Sequence[Device]
    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()

    def placed(self, placement: PlacedGraph) -> ClientGraph:
        """Return this graph with the devices of a placement, and with small constants copied."""
        devices: list[Device] = [device for device in placement.devices if device is not None]
        return replicate_constants(ClientGraph(self.graph, devices, self.feeds, self.fetches), placement.device_set)


def prune(
    placement: Placement, feeds: Iterable[TensorRef] = (), fetches: Iterable[TensorRef] = (), targets: Iterable[int] = ()
) -> ClientGraph:
    """Return the part of a placed graph that fetches and targets need if the `feeds` are given.

    Raises the errors of `replace_collectives`, and NotFoundError for a feed, fetch or target that this pass replaced.
    """
    # TensorFlow's pass runs on the whole graph, before it is pruned
    placed = replace_collectives(placement)
    if placed is not placement:
        feeds = _renumbered(feeds, placement, placed, "FeedInputs: unable to find feed output {}")
        fetches = _renumbered(fetches, placement, placed, "FetchOutputs node {}: not found")
        targets = [ref.node for ref in _renumbered((TensorRef(i, 0) for i in targets), placement, placed, _NO_TARGET)]
    return replicate_constants(_prune(placed, feeds, fetches, targets), placed.device_set)


def prune_unplaced(
    graph: Graph,
    device_set: DeviceSet,
    feeds: Iterable[TensorRef] = (),
    fetches: Iterable[TensorRef] = (),
    targets: Iterable[int] = (),
) -> ClientGraph:
    """Prune a graph before its placement (9.4): only arguments and results have devices, and they come last."""
    client = _prune(PlacedGraph(graph, device_set, graph.runtime_order(), [None] * len(graph)), feeds, fetches, targets)
    client.graph.runtime_ids = list(range(2, 2 + len(client.graph)))
    return client


_NO_TARGET = "PruneForTargets: Some target nodes not found: {}"


def _renumbered(refs: Iterable[TensorRef], before: PlacedGraph, after: PlacedGraph, complaint: str) -> list[TensorRef]:
    """Return tensors of the graph `before` as tensors of the graph `after`. Raises NotFoundError for a removed node."""
    found = []
    for ref in refs:
        name = before.graph.nodes[ref.node].name
        if name not in after.graph.ids:
            raise NotFoundError(complaint.format(name if complaint is _NO_TARGET else f"{name}:{ref.slot}"), node=name)
        found.append(TensorRef(after.graph.ids[name], ref.slot))
    return found


def _prune(
    placed: PlacedGraph, feeds: Iterable[TensorRef], fetches: Iterable[TensorRef], targets: Iterable[int]
) -> ClientGraph:
    graph = placed.graph
    client = placed.device_set.client
    # the index in the name of an `_Arg` or `_Retval` is the position in the sorted list (8.11)
    by_name = sorted({graph.tensor_name_full(ref): ref for ref in feeds}.items())
    fetched = sorted({graph.tensor_name_full(ref): ref for ref in fetches}.items())
    fed = {ref: index for index, (_, ref) in enumerate(by_name)}
    # a placeholder that is fed does not run, so nodes that wait for it wait for its `_Arg`
    fed_placeholders = {ref.node for ref in fed if graph.nodes[ref.node].op in UNFED_PLACEHOLDERS}
    needed = _needed(graph, fed, fed_placeholders, [ref for _, ref in fetched], targets)
    devices = placed.devices
    result = graph.emptied()
    kept: list[Device] = []
    order = [i for i in placed.order if needed[i]]
    ids = {node_id: position for position, node_id in enumerate(order)}
    arg_ids = {ref: len(order) + index for index, (_, ref) in enumerate(by_name)}
    fed_nodes = {ref.node for ref in fed}
    for node_id in order:
        node = graph.nodes[node_id]
        if fed_nodes.isdisjoint(node.input_nodes):
            inputs, slots = tuple([ids[i] for i in node.input_nodes]), node.input_slots
        else:
            _check_fed_refs(graph, node, fed)
            refs = [
                (arg_ids[r], 0) if (r := TensorRef(i, s)) in fed else (ids[i], s)
                for i, s in zip(node.input_nodes, node.input_slots, strict=True)
            ]
            inputs, slots = tuple(i for i, _ in refs), tuple(s for _, s in refs)
        control = tuple(
            next(arg_ids[r] for r in fed if r.node == i) if i in fed_placeholders else ids[i] for i in node.control_inputs
        )
        result.add(node.name, node.op, node.attrs, inputs, slots, control, node.device, node.location)
        kept.append(devices[node_id])  # type: ignore[arg-type]
    for index, (_, ref) in enumerate(by_name):
        node = graph.nodes[ref.node]
        # feeds arrive on the client device, whatever device the tensor has (8.11)
        name = f"_arg_{node.name}_{ref.slot}_{index}"
        result.add(name, "_Arg", {"T": node.signature.output_dtypes[ref.slot], "index": index}, device=client.name)
        kept.append(client)
    for index, (_, ref) in enumerate(fetched):
        node = graph.nodes[ref.node]
        source, slot = (arg_ids[ref], 0) if ref in fed else (ids[ref.node], ref.slot)
        attrs = {"T": node.signature.output_dtypes[ref.slot], "index": index}
        result.add(f"_retval_{node.name}_{ref.slot}_{index}", "_Retval", attrs, (source,), (slot,), device=client.name)
        kept.append(client)
    return ClientGraph(result, kept, tuple(n for n, _ in by_name), tuple(n for n, _ in fetched))


def is_step_end(node: Node) -> bool:
    """Return whether a node gives a tensor that a step is fed or takes one that it fetches, which no end of a function does."""
    return node.op in _ENDS and node.name.startswith(_ENDS[node.op])


def _check_fed_refs(graph: Graph, node: Node, fed: Mapping[TensorRef, int]) -> None:
    """Raise InvalidArgumentError if a value is fed to a reference input of the node; `fed` has the index of each argument."""
    for position, (i, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True)):
        ref = TensorRef(i, slot)
        if ref in fed and node.signature.input_is_ref[position]:
            source = graph.nodes[i]
            dtype = source.signature.output_dtypes[slot].name
            raise node_error(
                graph,
                node,
                f"Input {position} of node {node.name} was passed {dtype} from _arg_{source.name}_{slot}_{fed[ref]}:0 "
                f"incompatible with expected {dtype}_ref.",
            )


def _needed(
    graph: Graph, fed: dict[TensorRef, int], fed_placeholders: set[int], fetches: Sequence[TensorRef], targets: Iterable[int]
) -> bytearray:
    needed = bytearray(len(graph))
    # a fetched feed needs no node: its `_Retval` reads the `_Arg`
    waiting = deque(ref.node for ref in fetches if ref not in fed)
    waiting.extend(targets)
    while waiting:
        node_id = waiting.popleft()
        if needed[node_id]:
            continue
        needed[node_id] = 1
        node = graph.nodes[node_id]
        if fed:
            inputs = zip(node.input_nodes, node.input_slots, strict=True)
            waiting.extend(i for i, s in inputs if not needed[i] and TensorRef(i, s) not in fed)
            waiting.extend(i for i in node.control_inputs if not needed[i] and i not in fed_placeholders)
        else:
            waiting.extend(i for i in node.input_nodes if not needed[i])
            waiting.extend(i for i in node.control_inputs if not needed[i])
    return needed


def replicate_constants(client: ClientGraph, device_set: DeviceSet) -> ClientGraph:
    """Copy each small constant on a CPU to every other CPU that reads it (8.13)."""
    # in TensorFlow 1.15, each CPU that reads such a constant receives it instead (13.11)
    if not client.graph.registry.rules.copies_constants:
        return client
    consumers = client.graph.consumers()
    copies: dict[int, list[str]] = {}
    for node in client.graph.nodes:
        # on a GPU, a constant is sent as any other tensor (8.13)
        if node.op in CONSTANTS and len(consumers[node.id]) > 1 and client.devices[node.id].type == "CPU":
            hosts = sorted({_host(client.devices[i]) for i in consumers[node.id]})
            if len(hosts) > 1 and _is_replicable(node, client, consumers[node.id]):
                copies[node.id] = hosts
    return _with_copies(client, copies, device_set) if copies else client


def _is_replicable(node: Node, client: ClientGraph, consumers: Sequence[int]) -> bool:
    if node.attrs["value"].array.size > MAX_REPLICATED_ELEMENTS:
        return False
    # a node with a control edge from the original would not wait for a copy
    return not any(node.id in client.graph.nodes[i].control_inputs for i in consumers)


def _host(device: Device) -> str:
    """Return the CPU to which a constant is copied for a reader: the reader's own device, or the first CPU of its task."""
    # a reader on a GPU receives the constant from this CPU
    return device.name if device.type == "CPU" else device.name.rpartition("/device:")[0] + "/device:CPU:0"


def _with_copies(client: ClientGraph, copies: dict[int, list[str]], device_set: DeviceSet) -> ClientGraph:
    """Replace each constant in `copies` by a copy for each of its CPUs; the copies follow all other nodes."""
    old = client.graph
    graph = old.emptied()
    kept = [node for node in old.nodes if node.id not in copies]
    ids = {node.id: position for position, node in enumerate(kept)}
    pairs = [(node_id, host) for node_id, hosts in copies.items() for host in hosts]
    copy_ids = {pair: len(kept) + position for position, pair in enumerate(pairs)}
    for node in kept:
        host = _host(client.devices[node.id])
        inputs = tuple(copy_ids[i, host] if i in copies else ids[i] for i in node.input_nodes)
        control = tuple(ids[i] for i in node.control_inputs)
        graph.add(node.name, node.op, node.attrs, inputs, node.input_slots, control, node.device, node.location)
    for number, (node_id, _) in enumerate(pairs):
        node = old.nodes[node_id]
        control = tuple(ids[i] for i in node.control_inputs)
        name = f"{node.name}/replicate/_{number}"
        graph.add(name, node.op, node.attrs, (), (), control, node.device, node.location)
    devices = [client.devices[node.id] for node in kept] + [device_set.by_name[host] for _, host in pairs]
    return ClientGraph(graph, devices, client.feeds, client.fetches)


def feed_name(node: str) -> str:
    """Return `x` for `_arg_x_0_0`, which a step adds to feed `x` (also on another device); other names are unchanged."""
    added = _FEED.fullmatch(node)
    return added["fed"] if added else node
