"""Purposes of buffers, as in TensorBoard's memory profile: parameters, optimizer, activations, gradients and temporaries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph, Node
from placesim.graph.node_patterns import is_gradient_name
from placesim.inspection.memory_requirements import CONSTANT, SCRATCH, VARIABLE, kind_of, name_of
from placesim.ops.categories import ASSIGNMENTS, CONSTANTS, VARIABLE_READS, VARIABLES
from placesim.ops.kernels import cost_of
from placesim.runtime.accounting.usage import Holder

PARAMETERS, OPTIMIZER, ACTIVATIONS, GRADIENTS, TEMPORARIES = CATEGORIES = (
    *("parameters", "optimizer", "activations", "gradients", "temporaries"),
)
_PASSED_ON = ("dispatch", "view")
"""Kinds of work of ops whose output is the value of their input."""
_COPY = re.compile(r"/_\d+$")
"""End of the name of a copy on another device."""


class MemoryCategories:
    """The purposes of the buffers of a graph's steps.

    - parameters: variables that no optimizer owns, constants, and copies of these on other devices.
    - optimizer: variables that an optimizer's update reads or writes beside the updated variable.
    - gradients: tensors of nodes in a scope of `tf.gradients`, and of nodes that read these.
    - temporaries: scratch memory, memory that one kernel uses while it runs, and initial values on the way to a variable.
    - activations: all other tensors of a step, with the feeds.
    """

    def __init__(self, graph: Graph) -> None:
        self._owned = frozenset(_optimizer_variables(graph))
        self._backward = frozenset(_backward_nodes(graph))
        self._read = frozenset(
            node.name for node in graph.nodes if node.input_nodes and find_origin(graph, node.id).op in (*VARIABLES, *CONSTANTS)
        )
        self._assigning = frozenset(node.name for node in graph.nodes if node.op in ASSIGNMENTS)

    def of(self, holder: Holder) -> str:
        """Return the category of a buffer."""
        kind = kind_of(holder)
        if kind == VARIABLE:
            return OPTIMIZER if name_of(holder) in self._owned else PARAMETERS
        if kind == CONSTANT:
            return PARAMETERS
        if kind == SCRATCH or holder.until == holder.since or holder.until in self._assigning:
            return TEMPORARIES
        if _COPY.sub("", holder.node) in self._read:
            return PARAMETERS
        return GRADIENTS if self.is_backward(holder.node) else ACTIVATIONS

    def is_backward(self, name: str) -> bool:
        """Whether a node, or the node whose tensor it copies to another device, computes gradients."""
        return is_gradient_name(name) or _COPY.sub("", name) in self._backward

    def sizes(self, holders: Sequence[Holder]) -> dict[str, int]:
        """Return the bytes of each category, in the order of CATEGORIES."""
        found = dict.fromkeys(CATEGORIES, 0)
        for holder in holders:
            found[self.of(holder)] += holder.size
        return found


def _optimizer_variables(graph: Graph) -> Iterator[str]:
    """Yield the names of the variables that optimizers own, as nodes and as resources.

    An update of a variable is an optimizer's op, or an op that writes a value computed from gradients. The optimizer owns the
    other variables from which this value is computed, unless gradients or an optimizer's op make them trained variables.
    """
    backward = frozenset(node.id for node in graph.nodes if is_gradient_name(node.name))
    from_gradients, updates = set(backward), {}
    trained, order = _sources(graph, backward), graph.runtime_order()
    for number in order:
        node = graph.nodes[number]
        variable = None
        before = node.control_inputs if node.op in VARIABLE_READS else ()  # a resource is read after its update
        if node.input_nodes and cost_of(node.op).kind == "optimizer":
            variable = find_origin(graph, node.input_nodes[0]).id
            trained.add(variable)
        elif number not in backward and not from_gradients.isdisjoint((*node.input_nodes, *before)):
            from_gradients.add(number)
            variable = find_written_variable(graph, node)
        if variable is not None:
            updates[number] = variable
    read = _sources(graph, {source for number in updates for source in graph.nodes[number].input_nodes[1:]}, backward)
    reached: dict[int, frozenset[int]] = {}
    owned: set[int] = set()
    for number in order:
        node = graph.nodes[number]
        if number in updates:
            owned |= frozenset().union(*(reached.get(source, ()) for source in node.input_nodes[1:])) - {updates[number]}
        if number in read:
            own = {number} if node.op in VARIABLES else ()
            reached[number] = frozenset(own).union(*(reached.get(source, ()) for source in node.input_nodes))
    for number in sorted(owned - trained):
        node = graph.nodes[number]
        yield node.name
        yield str(node.attrs.get("shared_name") or node.name)


def _sources(graph: Graph, numbers: Iterable[int], stops: Collection[int] = ()) -> set[int]:
    """Return the nodes from whose outputs these nodes' outputs are computed, with these, but none beyond `stops`."""
    found, left = set(), list(numbers)
    while left:
        number = left.pop()
        if number not in found and number not in stops:
            found.add(number)
            left += graph.nodes[number].input_nodes
    return found


def find_origin(graph: Graph, number: int) -> Node:
    """Follow ops that pass their input on; return the node that computed the value."""
    node = graph.nodes[number]
    while len(node.input_nodes) == 1 and cost_of(node.op).kind in _PASSED_ON:
        node = graph.nodes[node.input_nodes[0]]
    return node


def find_written_variable(graph: Graph, node: Node) -> int | None:
    """Return the variable that a node writes: its first input is a reference or handle, followed by others.

    None if it writes none. A node with a value as output, such as a ResourceGather, only reads the variable.
    """
    gives_value = bool(node.signature.output_is_ref) and not node.signature.output_is_ref[0]
    if len(node.input_nodes) < 2 or 0 not in node.signature.tied_inputs or gives_value:
        return None
    origin = find_origin(graph, node.input_nodes[0])
    return origin.id if origin.op in VARIABLES else None


def _backward_nodes(graph: Graph) -> Iterator[str]:
    """Yield the nodes that gradients reach, starting with the nodes in scopes of `tf.gradients`."""
    found = [node for node in graph.nodes if is_gradient_name(node.name)]
    seen = {node.id for node in found}
    readers = grouped((source, node) for node in graph.nodes for source in node.input_nodes)
    while found:
        node = found.pop()
        yield node.name
        new = [reader for reader in readers.get(node.id, ()) if reader.id not in seen]
        seen.update(reader.id for reader in new)
        found += new
