"""Fetches that share the memory of a reference variable, and so have the variable's value at the end of the step.

TensorFlow passes a reference variable's buffer on without copying it, even through Identity, and updates it in place. So a
fetch of `w`, `w/read` or an update's output on the variable's device shows all updates of the step, even later ones. Values
that were computed earlier from the variable do not change. Found by experiment with TensorFlow 2.21 on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placesim.graph.graph import Node
from placesim.ops.categories import IDENTITIES, RESULTS
from placesim.ops.kernels import has_trait
from placesim.ops.kernels.device_resources import REF_VARIABLE_TYPE, VARIABLE_OPS, ResourceHandle
from placesim.ops.kernels.kernel import Trait
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.executors.variable_handles import variable_handle
from placesim.runtime.partitioning.pruning import ClientGraph

ARRAYS = (np.ndarray, np.generic)

Buffers = Mapping[int, tuple[str, ResourceHandle]]
"""Device and variable of each fetch that shares a variable's memory, by `_Retval` index."""


def shared_buffers(client: ClientGraph) -> Buffers:
    """Return the fetches that share a variable's memory; empty if the step updates no variable."""
    graph = client.graph
    if not any(_is_update(node) for node in graph.nodes):
        return {}
    found: dict[int, tuple[str, ResourceHandle]] = {}
    for end in graph.nodes:
        if end.op not in RESULTS:
            continue
        device = client.devices[end.id]
        source = _source(client, end)
        if source is not None and client.devices[source.id] == device:
            found[end.attrs["index"]] = device.name, variable_handle(source, device.name)
    return found


def _source(client: ClientGraph, end: Node) -> Node | None:
    """Return the variable whose memory the input of a `_Retval` shares; None if the input has its own memory."""
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
    return bool(inputs) and bool(outputs) and inputs[0] and outputs[0] and node.op not in IDENTITIES


def show_ends(results: dict[int, Any], buffers: Buffers, states: Mapping[str, DeviceState]) -> None:
    """Replace the results that share a variable's memory by the variable's current value."""
    for index, (device, handle) in buffers.items():
        variable = states[device].resources.find(handle)
        now, before = getattr(variable, "value", None), results[index]
        # a value of another size has memory of its own
        if isinstance(now, ARRAYS) and isinstance(before, ARRAYS) and now.size == before.size:
            results[index] = now.reshape(before.shape)
