"""Mirrored variables, of which each replica has a copy, and the nodes that update them."""

from __future__ import annotations

from collections.abc import Iterator

from placesim.graph.graph import Node
from placesim.inspection.memory_categories import find_origin, find_written_variable
from placesim.planning.strategies.training_graph import TrainingGraph


class MirroredVariables:
    """The updated variables with their slots and reads, and all nodes between gradients and writes of these variables.

    Without `training`, no variable is mirrored.
    """

    def __init__(self, training: TrainingGraph | None) -> None:
        self._nodes = frozenset[int]() if training is None else frozenset(_find_mirrored(training))

    @property
    def exist(self) -> bool:
        return bool(self._nodes)

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._nodes

    def name(self, node: Node, replica: int) -> str:
        """Return a node's name in a replica: nodes that are not mirrored, and those of replica 0, keep their names."""
        return f"tower_{replica}/{node.name}" if replica and node.id in self._nodes else node.name

    def shared_name(self, name: str, replica: int) -> str:
        """Return the name of a variable's resource in a replica; an empty name stays empty."""
        return f"tower_{replica}/{name}" if name and replica else name


def _find_mirrored(training: TrainingGraph) -> Iterator[int]:
    graph, nodes = training.graph, training.graph.nodes
    updates = [nodes[update.node] for update in training.updates]
    variables = {find_origin(graph, node.input_nodes[i]).id for node in updates for i in node.signature.tied_inputs}
    held = {node.id for node in nodes if find_origin(graph, node.id).id in variables}
    yield from held
    region = {*training.forward, *training.backward}
    reached = held | region
    for number in graph.runtime_order():
        if not reached.isdisjoint(nodes[number].input_nodes):
            reached.add(number)
    writes = {node.id for node in nodes if find_written_variable(graph, node) in variables}
    waiting, seen = [*writes], held | region
    while waiting:
        number = waiting.pop()
        if number not in seen and (number in reached or number in writes):
            seen.add(number)
            yield number
            waiting += nodes[number].input_nodes
