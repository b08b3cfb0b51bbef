"""Nodes that read a reference variable through an Identity, and run after an update of it: they see the new value.

`w.value()` is an Identity that passes on the variable's memory, which updates change in place. So a node that reads this
Identity, and that depends on an update by data or control edges, computes with the new value. Found by experiment with
TensorFlow 2.21 on the CPU. `SyncReplicasOptimizer` relies on this to return the step number after its update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from placesim.graph.graph import Graph, Node
from placesim.ops.categories import REF_VARIABLES
from placesim.ops.kernels.device_resources import ResourceHandle, ResourceManager
from placesim.ops.kernels.kernel import Kernel
from placesim.runtime.executors.variable_handles import variable_handle

LateReads = Mapping[int, Mapping[int, ResourceHandle]]
"""Variables whose values a node reads again when it runs, by node and input position."""


def find_late_reads(graph: Graph, device: str) -> LateReads:
    """Return the nodes of a partition on `device` that read a variable again when they run."""
    variables = [node for node in graph.nodes if node.op in REF_VARIABLES]
    if not variables:
        return {}
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for source in {*node.input_nodes, *node.control_inputs}:
            readers.setdefault(source, []).append(node)
    found: dict[int, dict[int, ResourceHandle]] = {}
    for variable in variables:
        users = readers.get(variable.id, ())
        reads = {node.id for node in users if node.op == "Identity" and variable.id in node.input_nodes}
        # an op that returns the reference has changed the variable in place
        updates = [node for node in users if True in node.signature.input_is_ref and True in node.signature.output_is_ref]
        if not reads or not updates:
            continue
        handle = variable_handle(variable, device)
        for late in _after(updates, readers):
            for position, source in enumerate(late.input_nodes):
                if source in reads:
                    found.setdefault(late.id, {})[position] = handle
    return found


def _after(updates: Sequence[Node], readers: Mapping[int, Sequence[Node]]) -> list[Node]:
    """Return all nodes that depend on an update."""
    seen: dict[int, Node] = {}
    waiting = list(updates)
    while waiting:
        for node in readers.get(waiting.pop().id, ()):
            if node.id not in seen:
                seen[node.id] = node
                waiting.append(node)
    return list(seen.values())


def read_late(kernel: Kernel, handles: Mapping[int, ResourceHandle], resources: ResourceManager) -> Kernel:
    """Return a kernel that uses the values that the variables have when it computes; `handles` are by input position."""
    compute = kernel.compute

    def with_new_values(inputs: Sequence[Any], *rest: Any) -> Sequence[Any]:
        values = list(inputs)
        for position, handle in handles.items():
            now, before = getattr(resources.find(handle), "value", None), values[position]
            # an assignment of another shape gives the variable new memory, and the old value stays
            if isinstance(now, _ARRAYS) and isinstance(before, _ARRAYS) and now.shape == before.shape:
                values[position] = now
        return compute(values, *rest)

    return kernel._replace(compute=with_new_values, direct=None)


_ARRAYS = (np.ndarray, np.generic)
