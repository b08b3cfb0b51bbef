"""The places of a training graph's nodes along the forward pass, at which a pipeline can be cut into stages.

The forward nodes between the batch and the loss that depend on variables have the places 0, 1, ... in topological order. Every
other node gets the place of one of these nodes. Tensors of the forward pass then never go to an earlier place, and gradients
never to a later one, so a cut of the places cuts the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placesim.core.grouped import grouped
from placesim.graph.graph import Node
from placesim.inspection.memory_categories import find_origin, find_written_variable
from placesim.ops.categories import CONSTANTS, VARIABLES
from placesim.planning.strategies.training_graph import TrainingGraph


class ForwardPlaces:
    """Places by id: of each node (`of`), and of each variable that a forward node reads or an update writes (`variables`).

    - `main`: the nodes that have a place of their own.
    - `forward`, `backward`: all nodes of both passes in topological order.
    - `readers`: for each variable, the forward nodes that read it.

    A variable has the earliest place of the forward nodes that read it. A forward node that depends on variables but not on
    the batch has the latest place of these variables and its inputs. A forward node that does not depend on a variable has the
    earliest place of its readers. A gradient has the place of its forward node, and a sum of gradients has the first of their
    places. An update has the place of its variable.
    """

    def __init__(self, training: TrainingGraph) -> None:
        self.training = training
        self._graph = graph = training.graph
        self._order = [graph.nodes[number] for number in graph.runtime_order()]
        forward, backward = frozenset(training.forward), frozenset(training.backward)
        self.forward = [node for node in self._order if node.id in forward]
        self.backward = [node for node in self._order if node.id in backward]
        self.readers: dict[int, list[int]] = {}
        self._of_batch: set[int] = set()
        self._of_variable: set[int] = set()
        self._find_dependences(forward)
        self.main = [node for node in self.forward if node.id in self._of_batch and node.id in self._of_variable]
        self.of: dict[int, int] = {node.id: place for place, node in enumerate(self.main)}
        self.variables: dict[int, int] = {}
        if self.main:
            self._place_forward_nodes()
            self._place_gradients()
            self._place_updates()

    def _find_dependences(self, forward: frozenset[int]) -> None:
        batch = frozenset(self.training.batch)
        for node in self.forward:
            sources = _sources(node)
            origins = {find_origin(self._graph, ref.node) for ref in node.inputs if ref.node not in forward}
            variables = [origin.id for origin in origins if origin.op in VARIABLES]
            for variable in variables:
                self.readers.setdefault(variable, []).append(node.id)
            if not batch.isdisjoint(node.inputs) or not self._of_batch.isdisjoint(sources):
                self._of_batch.add(node.id)
            if variables or not self._of_variable.isdisjoint(sources):
                self._of_variable.add(node.id)

    def _place_forward_nodes(self) -> None:
        others = [node for node in self.forward if node.id not in self.of]
        needed = dict(self.of)
        self._place_before_readers(others, needed)
        for variable, readers in sorted(self.readers.items()):
            self.variables[variable] = min(needed[reader] for reader in readers)
        read = grouped((reader, self.variables[variable]) for variable, readers in self.readers.items() for reader in readers)
        for node in others:
            if node.id in self._of_variable:
                inputs = (self.of[number] for number in _sources(node) if number in self.of)
                self.of[node.id] = max((*inputs, *read.get(node.id, ())))
        self._place_before_readers([node for node in others if node.id not in self.of], self.of)

    def _place_before_readers(self, nodes: Sequence[Node], places: dict[int, int]) -> None:
        """Give nodes the place of their first forward reader, or the last place if there is none."""
        last = len(self.main) - 1
        found: dict[int, int] = {}
        members = {node.id for node in nodes}
        for node in reversed(self.forward):
            if node.id in members:
                places[node.id] = found.get(node.id, last)
            for number in _sources(node):
                found[number] = min(found.get(number, last), places[node.id])

    def _place_gradients(self) -> None:
        first = self.of[self.training.loss.node]
        gradients: set[int] = set()
        for node in self.backward:
            forward = self.training.forward_node(node)
            own = first if forward is None else self.of.get(forward.id, first)
            inputs = (self.of[number] for number in _sources(node) if number in gradients)
            self.of[node.id] = min((*inputs, own))
            if node.op not in CONSTANTS:
                gradients.add(node.id)

    def _place_updates(self) -> None:
        """Place updates, the optimizer's variables, and the nodes between gradients and updates.

        A node that leads to updates of one variable has the variable's place. Any other node has the place of its gradient, or
        if it needs several gradients, the first place among the variables.
        """
        nodes, graph = self._graph.nodes, self._graph
        targets: dict[int, set[int]] = {}
        for update in self.training.updates:
            place = self.variables.setdefault(update.variable, 0)
            targets[update.node] = {place}
            for position in nodes[update.node].signature.tied_inputs:
                self.variables.setdefault(find_origin(graph, nodes[update.node].input_nodes[position]).id, place)
        sources = {node.id: {self.of[node.id]} for node in self.backward}
        for node in self._order:
            found = set().union(*(sources[number] for number in node.input_nodes if number in sources))
            if found and node.id not in self.of:
                sources[node.id] = found
        for node in reversed(self._order):
            for number in node.input_nodes if node.id in targets else ():
                if number in sources and number not in self.of:
                    targets.setdefault(number, set()).update(targets[node.id])
        for number, found in targets.items():
            own = sources[number]
            self.of[number] = min(own if len(found) > 1 and len(own) == 1 else found)
        for node in nodes:
            written = find_written_variable(graph, node)
            variable = find_origin(graph, node.id).id if written is None else written
            if node.id not in self.of and variable in self.variables:
                self.of[node.id] = self.variables[variable]


def _sources(node: Node) -> Iterable[int]:
    return (*node.input_nodes, *node.control_inputs)
