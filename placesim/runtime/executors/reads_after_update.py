"""Nodes that read a reference variable through an Identity, and run after an update of it: they see the new value.

`w.value()` is an Identity that passes on the variable's memory, which updates change in place. So a node that reads this
Identity, and that depends on an update by data or control edges, computes with the new value. Found by experiment with
TensorFlow 2.21 on the CPU. `SyncReplicasOptimizer` relies on this to return the step number after its update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph, Node
from placesim.ops.categories import CONSTANTS, FUNCTION_ENDS, IDENTITIES, REF_VARIABLES
from placesim.ops.kernels.device_resources import ResourceHandle, ResourceManager
from placesim.ops.kernels.kernel import Kernel
from placesim.runtime.executors.variable_handles import variable_handle

LateReads = Mapping[int, Mapping[int, ResourceHandle]]
"""Variables whose values a node reads again when it runs, by node and input position."""


def find_late_reads(graph: Graph, device: str) -> LateReads:
    """Return the nodes of a partition on `device` that read a variable again when they run."""
    found: dict[int, dict[int, ResourceHandle]] = {}
    for one in _read_variables(graph):
        handle = variable_handle(one.variable, device)
        for late in _after(one, _overtaken(graph, one)):
            for position, source in enumerate(late.input_nodes):
                if source in one.reads:
                    found.setdefault(late.id, {})[position] = handle
    return found


def find_overtaking_updates(graph: Graph) -> dict[int, list[Node]]:
    """Return the updates that run before other nodes without an edge between them, with these nodes.

    In `step.assign(step + 1)`, `step + 1` is often the last node that reads the Identity of `step`. The thread of TensorFlow
    that ran the Identity goes on with its last reader and with the update, and leaves the other readers to other threads. So a
    learning rate that depends on `step`, as in BERT's optimizer, has the new value, unless another thread is quicker.
    """
    found: dict[int, list[Node]] = {}
    for one in _read_variables(graph):
        found |= _overtaken(graph, one)
    return found


class _ReadVariable(NamedTuple):
    """A variable, the Identities that pass on its memory, its updates, and the readers of all nodes."""

    variable: Node
    reads: set[int]
    updates: list[Node]
    readers: Mapping[int, Sequence[Node]]


def _read_variables(graph: Graph) -> Iterator[_ReadVariable]:
    """Yield the reference variables of a graph that are both read and updated."""
    variables = [node for node in graph.nodes if node.op in REF_VARIABLES]
    if not variables:
        return
    readers = grouped((source, node) for node in graph.nodes for source in {*node.input_nodes, *node.control_inputs})
    for variable in variables:
        users = readers.get(variable.id, ())
        read_by = [node for node in users if node.op in IDENTITIES and not node.signature.output_is_ref[0]]
        reads = {node.id for node in read_by if variable.id in node.input_nodes}
        # an op that returns the reference has changed the variable in place
        updates = [node for node in users if True in node.signature.input_is_ref and True in node.signature.output_is_ref]
        if reads and updates:
            yield _ReadVariable(variable, reads, updates, readers)


def _overtaken(graph: Graph, found: _ReadVariable) -> dict[int, list[Node]]:
    """Map each update by the last reader of an Identity to the other readers, if both only wait for constants besides."""
    overtaken: dict[int, list[Node]] = {}
    for read in found.reads:
        others = [node for node in found.readers.get(read, ()) if node.op not in FUNCTION_ENDS]
        if len(others) < 2:
            continue
        last = others.pop()
        is_ready = all(source == read or graph.nodes[source].op in CONSTANTS for source in last.input_nodes)
        if not is_ready or last.control_inputs:
            continue
        for update in found.updates:
            if {*update.input_nodes} == {found.variable.id, last.id} and not update.control_inputs:
                overtaken[update.id] = others
    return overtaken


def _after(found: _ReadVariable, overtaken: Mapping[int, Sequence[Node]]) -> list[Node]:
    """Return all nodes that depend on an update, or that it overtakes."""
    seen: dict[int, Node] = {}
    waiting = list(found.updates)
    while waiting:
        last = waiting.pop().id
        for node in (*found.readers.get(last, ()), *overtaken.get(last, ())):
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
