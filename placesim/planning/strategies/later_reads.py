"""Reads of a reference variable after an update, written so that they give the new value on any device.

`w.value()` is an Identity that passes on the variable's memory. On the variable's device, a node that reads this Identity after
an update, such as a moving average of the variable, computes with the new value. On another device, it would get a copy that
may have been sent before the update. So each of these nodes gets an Identity of its own, which waits for the update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from placesim.graph.graph import Node, NodeDef
from placesim.graph.session_steps import GraphFile
from placesim.inspection.memory_categories import find_origin
from placesim.ops.categories import REF_VARIABLES
from placesim.planning.strategies.node_writer import NodeWriter
from placesim.planning.strategies.training_graph import TrainingGraph, reachable


def with_later_reads(file: GraphFile, training: TrainingGraph) -> GraphFile:
    """Return the file with a read of its own for each node that reads a variable after an update; node ids do not change."""
    graph, after = training.graph, _find_nodes_after_updates(training)
    found = [*_find_later_reads(training, after)]
    if not found:
        return file
    later = frozenset().union(*after.values())
    writer = NodeWriter(graph.ids)
    inputs = {node.id: graph.input_texts(node) for node in graph.nodes}
    for node, position, variable in found:
        waits = dict.fromkeys((*node.control_inputs, *(number for number in node.input_nodes if number in later)))
        names = [graph.nodes[number].name for number in waits]
        dtype = node.signature.input_dtypes[position]
        read = writer.later_read(f"{node.name}/{variable.name}", variable, dtype, names)
        inputs[node.id][position] = read
    new = graph.emptied()
    kept = (NodeDef(node.name, node.op, tuple(inputs[node.id]), node.device, node.attrs, node.location) for node in graph.nodes)
    new.extend([*kept, *writer.nodes])
    return replace(file, graph=new, as_read=None)


def _find_nodes_after_updates(training: TrainingGraph) -> Mapping[int, set[int]]:
    """Return for each updated reference variable the nodes outside the passes that depend on an update."""
    graph, found = training.graph, dict[int, set[int]]()
    readers = graph.consumers()
    passes = frozenset((*training.forward, *training.backward))
    for update in training.updates:
        if graph.nodes[update.variable].op in REF_VARIABLES:
            found.setdefault(update.variable, set()).update(reachable(readers, readers[update.node]) - passes)
    return found


def _find_later_reads(training: TrainingGraph, after: Mapping[int, set[int]]) -> Iterator[tuple[Node, int, Node]]:
    """Yield nodes that read an updated variable after the update, with the input's position and the variable."""
    graph = training.graph
    for number, numbers in after.items():
        for node in (graph.nodes[later] for later in sorted(numbers) if find_origin(graph, later).id != number):
            for position, source in enumerate(node.input_nodes):
                if not node.signature.input_is_ref[position] and find_origin(graph, source).id == number:
                    yield node, position, graph.nodes[number]
