"""Fetches that alias a reference variable's memory and therefore show its value at the end of the step.

TensorFlow passes a reference variable's buffer on without copying it, even through Identity, and updates it in place. A fetch
of `w`, `w/read` or an update's output on the variable's device therefore shows every update of the step, in any order. Values
computed from it earlier in the step do not change. Found by experiment with TensorFlow 2.21 on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placesim.graph.graph import Node
from placesim.ops.kernels import has_trait
from placesim.ops.kernels.device_resources import REF_VARIABLE_TYPE, VARIABLE_OPS, ResourceHandle
from placesim.ops.kernels.kernel import Trait
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.partitioning.pruning import ClientGraph

ARRAYS = (np.ndarray, np.generic)

Buffers = Mapping[int, tuple[str, ResourceHandle]]
"""The device and the variable of each aliasing fetch, by `_Retval` index."""


def shared_buffers(client: ClientGraph) -> Buffers:
    """Return the fetches that alias a variable, or nothing if the step modifies no variable."""
    graph = client.graph
    if not any(_is_update(node) for node in graph.nodes):
        return {}
    found: dict[int, tuple[str, ResourceHandle]] = {}
    for end in graph.nodes:
        if end.op != "_Retval":
            continue
        device = client.devices[end.id]
        source = _source(client, end)
        if source is not None and client.devices[source.id] == device:
            name = source.attrs.get("shared_name") or source.name
            container = source.attrs.get("container") or "localhost"
            found[end.attrs["index"]] = (
                device.name,
                ResourceHandle(device.name, container, name, REF_VARIABLE_TYPE, source.attrs["dtype"]),
            )
    return found


def _source(client: ClientGraph, end: Node) -> Node | None:
    """Return the variable whose memory a `_Retval` aliases, or None if its value has its own memory."""
    graph = client.graph
    node, slot = graph.nodes[end.input_nodes[0]], end.input_slots[0]
    while VARIABLE_OPS.get(node.op) != REF_VARIABLE_TYPE:
        hands_on = has_trait(node.op, Trait.SHARES_MEMORY) or (slot == 0 and _is_update(node))
        if not hands_on or client.devices[node.id] != client.devices[end.id]:
            return None
        node, slot = graph.nodes[node.input_nodes[0]], node.input_slots[0]
    return node


def _is_update(node: Node) -> bool:
    """Whether a node updates a reference variable and returns it."""
    inputs, outputs = node.signature.input_is_ref, node.signature.output_is_ref
    return bool(inputs) and bool(outputs) and inputs[0] and outputs[0] and node.op != "RefIdentity"


def show_ends(results: dict[int, Any], buffers: Buffers, states: Mapping[str, DeviceState]) -> None:
    """Replace the results that alias variables with the variables' current values."""
    for index, (device, handle) in buffers.items():
        variable = states[device].resources.find(handle)
        now, before = getattr(variable, "value", None), results[index]
        # one of another size has other memory
        if isinstance(now, ARRAYS) and isinstance(before, ARRAYS) and now.size == before.size:
            results[index] = now.reshape(before.shape)
