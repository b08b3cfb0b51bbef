"""Nodes that read a reference variable through an Identity, and run after an update of it: they see the new value.

`w.value()` is an Identity that passes on the variable's memory, which updates change in place. So a node that reads this
Identity, and that depends on an update by data or control edges, computes with the new value. So does a node on another CPU of
the same task, which receives the memory itself. Found by experiment with TensorFlow 2.21 on the CPU. `SyncReplicasOptimizer`
relies on this to return the step number after its update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph, Node
from placesim.ops.categories import CONSTANTS, FUNCTION_ENDS, IDENTITIES, RECEIVES, REF_VARIABLES, SENDS
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.kernel import Kernel
from placesim.runtime.executors.transfer_keys import TransferKey, transfer_key
from placesim.runtime.executors.variable_handles import variable_handle

LateReads = Mapping[int, Mapping[int, ResourceHandle]]
"""Variables whose values a node reads again when it runs, by node and input position."""


def find_late_reads(parts: Sequence[tuple[Graph, str]]) -> Sequence[LateReads]:
    """Return, for each partition `(graph, device)`, the nodes that read a variable again when they run."""
    found: list[dict[int, dict[int, ResourceHandle]]] = [{} for _ in parts]
    edges = _Edges(parts)
    for number, (graph, device) in enumerate(parts):
        for one in _updated_variables(graph, partial(edges.readers, number)):
            handle = variable_handle(one.variable, device)
            reads = {(number, read) for read in one.reads}
            shared = (*one.reads, one.variable.id, *(update.id for update in one.updates))
            for part, received in edges.across(node for each in shared for node in one.readers.get(each, ())):
                if _share_memory(device, parts[part][1]):
                    reads.add((part, received.id))
            for part, late in _after(number, one, _overtaken(graph, one), edges):
                for position, source in enumerate(late.input_nodes):
                    if (part, source) in reads:
                        found[part].setdefault(late.id, {})[position] = handle
    return found


def _share_memory(device: str, other: str) -> bool:
    """Whether both devices are CPUs of one task."""
    task, is_cpu, _ = device.partition("/device:CPU:")
    return bool(is_cpu) and other.startswith(task + is_cpu)


class _Edges:
    """The readers of each partition's nodes, and the receives of sends."""

    def __init__(self, parts: Sequence[tuple[Graph, str]]) -> None:
        self._parts = parts
        self._readers: dict[int, Mapping[int, Sequence[Node]]] = {}

    @cached_property
    def _receives(self) -> dict[TransferKey, tuple[int, Node]]:
        parts = enumerate(self._parts)
        return {transfer_key(node): (part, node) for part, (graph, _) in parts for node in graph.nodes if node.op in RECEIVES}

    def readers(self, part: int) -> Mapping[int, Sequence[Node]]:
        """The nodes that wait for each node of a partition."""
        if part not in self._readers:
            self._readers[part] = _find_readers(self._parts[part][0])
        return self._readers[part]

    def across(self, nodes: Iterable[Node]) -> Iterator[tuple[int, Node]]:
        """Yield the receives, with their partitions, of those nodes that are sends to one of the partitions."""
        for node in nodes:
            found = self._receives.get(transfer_key(node)) if node.op in SENDS else None
            if found is not None:
                yield found


def find_overtaking_updates(graph: Graph) -> dict[int, list[Node]]:
    """Return the updates that run before other nodes without an edge between them, with these nodes.

    In `step.assign(step + 1)`, `step + 1` is often the last node that reads the Identity of `step`. The thread of TensorFlow
    that ran the Identity goes on with its last reader and with the update, and leaves the other readers to other threads. So a
    learning rate that depends on `step`, as in BERT's optimizer, has the new value, unless another thread is quicker.
    """
    found: dict[int, list[Node]] = {}
    for one in _updated_variables(graph, partial(_find_readers, graph)):
        found |= _overtaken(graph, one)
    return found


class _UpdatedVariable(NamedTuple):
    """A variable, the Identities that pass on its memory, its updates, and the readers of all nodes."""

    variable: Node
    reads: set[int]
    updates: list[Node]
    readers: Mapping[int, Sequence[Node]]


def _updated_variables(graph: Graph, find_readers: Callable[[], Mapping[int, Sequence[Node]]]) -> Iterator[_UpdatedVariable]:
    """Yield the reference variables of a graph that are updated; `find_readers` returns the readers of all nodes."""
    variables = [node for node in graph.nodes if node.op in REF_VARIABLES]
    if not variables:
        return
    readers = find_readers()
    for variable in variables:
        users = readers.get(variable.id, ())
        read_by = [node for node in users if node.op in IDENTITIES and not node.signature.output_is_ref[0]]
        reads = {node.id for node in read_by if variable.id in node.input_nodes}
        # an op that returns the reference has changed the variable in place
        updates = [node for node in users if True in node.signature.input_is_ref and True in node.signature.output_is_ref]
        if updates:
            yield _UpdatedVariable(variable, reads, updates, readers)


def _find_readers(graph: Graph) -> Mapping[int, Sequence[Node]]:
    return grouped((source, node) for node in graph.nodes for source in {*node.input_nodes, *node.control_inputs})


def _overtaken(graph: Graph, found: _UpdatedVariable) -> dict[int, list[Node]]:
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


def _after(
    number: int, found: _UpdatedVariable, overtaken: Mapping[int, Sequence[Node]], edges: _Edges
) -> Iterable[tuple[int, Node]]:
    """Return all nodes, with their partitions, that depend on an update in partition `number`, or that it overtakes."""
    seen: dict[tuple[int, int], tuple[int, Node]] = {}
    waiting = [(number, update) for update in found.updates]
    while waiting:
        part, last = waiting.pop()
        beside = overtaken.get(last.id, ()) if part == number else ()
        near = [(part, node) for node in (*edges.readers(part).get(last.id, ()), *beside)]
        for place, node in (*near, *edges.across([last])):
            if (place, node.id) not in seen:
                seen[place, node.id] = place, node
                waiting.append((place, node))
    return seen.values()


def read_late(kernel: Kernel, handles: Mapping[int, ResourceHandle], find: Callable[[ResourceHandle], Any]) -> Kernel:
    """Return a kernel that uses the values that the variables have when it computes; `handles` are by input position."""
    compute = kernel.compute

    def with_new_values(inputs: Sequence[Any], *rest: Any) -> Sequence[Any]:
        values = list(inputs)
        for position, handle in handles.items():
            now, before = getattr(find(handle), "value", None), values[position]
            # an assignment of another shape gives the variable new memory, and the old value stays
            if isinstance(now, _ARRAYS) and isinstance(before, _ARRAYS) and now.shape == before.shape:
                values[position] = now
        return compute(values, *rest)

    return kernel._replace(compute=with_new_values, direct=None)


_ARRAYS = (np.ndarray, np.generic)
