"""A graph that is being rewritten: nodes that know their inputs and readers, numbered like those of TensorFlow's runtime.

A new node gets the next number, and a removed node leaves a gap.  The finished graph has the nodes in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placesim.core.errors import Location
from placesim.graph.graph import Graph, Origin
from placesim.ops.attributes import Attrs
from placesim.placement.editable_node import EditableNode
from placesim.placement.input_checks import check_edges, check_new_inputs


class EditableGraph:
    """A graph that can be changed: its nodes, in the order of their runtime ids.

    `origin` is the origin that new nodes get (`Graph.origins`).
    """

    def __init__(self, graph: Graph) -> None:
        self.base = graph
        self.nodes: list[EditableNode] = []
        self.origin: Origin | None = None
        self._name_count = 0
        made: dict[int, EditableNode] = {}
        for node_id in graph.runtime_order():
            node = graph.nodes[node_id]
            made[node_id] = self._append(node.name, node.op, node.attrs, node.device, node.location)
        for node_id, copy in made.items():
            node = graph.nodes[node_id]
            for i, slot in zip(node.input_nodes, node.input_slots, strict=True):
                self.connect(made[i], slot, copy)
            for i in node.control_inputs:
                self.control(made[i], copy)

    def _append(self, name: str, op: str, attrs: Attrs, device: str, location: int) -> EditableNode:
        # ids 0 and 1 are source and sink (6.5.1)
        node = EditableNode(name, op, attrs, device, self.base.signatures.signature(op, attrs), len(self.nodes) + 2)
        node.location = location
        node.origin = self.origin
        self.nodes.append(node)
        return node

    def copy(self, name: str, op: str, attrs: Attrs, device: str, location: int) -> EditableNode:
        """Append a node without edges."""
        return self._append(name, op, attrs, device, location)

    def move_to_end(self, nodes: Sequence[EditableNode]) -> None:
        """Renumber these nodes, the most recent ones, as if they had been added last."""
        first = min(node.runtime_id for node in nodes) - 2
        moved = set(map(id, nodes))
        self.nodes[first:] = [*(node for node in self.nodes[first:] if id(node) not in moved), *nodes]
        for index, node in enumerate(self.nodes[first:], first):
            node.runtime_id = index + 2

    def new_name(self, prefix: str) -> str:
        """Return a new name with this prefix and a number; all new names of the graph are numbered consecutively."""
        name = f"{prefix}/_{self._name_count}"
        # TensorFlow's `Graph::NewName` has one counter for all prefixes
        self._name_count += 1
        return name

    def add(
        self,
        name: str,
        op: str,
        attrs: Attrs,
        device: str,
        data: Sequence[tuple[EditableNode, int]] = (),
        control: Iterable[EditableNode] = (),
        location: int = 0,
    ) -> EditableNode:
        """Append a node that reads these outputs.  Raises InvalidArgumentError if it cannot read them."""
        node = self._append(name, op, attrs, device, location)
        check_new_inputs(self.base, name, node.signature, data)
        for source, slot in data:
            self.connect(source, slot, node)
        for source in control:
            self.control(source, node)
        return node

    def connect(self, source: EditableNode, slot: int, node: EditableNode) -> None:
        source.readers.append((node, len(node.data)))
        node.data.append((source, slot))

    def control(self, source: EditableNode, node: EditableNode) -> None:
        """Add a control edge unless it exists."""
        # TensorFlow's `AddControlEdge` also refuses a second control edge between two nodes
        if source not in node.control:
            node.control[source] = None
            source.readers.append((node, -1))

    def reconnect(self, node: EditableNode, position: int, source: EditableNode, slot: int) -> None:
        """Make an input of a node read another output."""
        old, _ = node.data[position]
        old.readers.remove((node, position))
        node.data[position] = (source, slot)
        source.readers.append((node, position))

    def location(self, node: EditableNode) -> Location | None:
        """Return the location in a file of a node, or of the node that it was made from."""
        return self.base.located(node.location)

    def data_readers(self, node: EditableNode) -> list[tuple[EditableNode, int]]:
        return [(reader, position) for reader, position in node.readers if position >= 0]

    def control_readers(self, node: EditableNode) -> list[EditableNode]:
        return [reader for reader, position in node.readers if position < 0]

    def replace(self, node: EditableNode, outputs: Sequence[tuple[EditableNode, int]], executed: EditableNode) -> None:
        """Let the readers of a node read these outputs, and its control readers wait for `executed`. Remove the node."""
        for reader, position in self.data_readers(node):
            self.reconnect(reader, position, *outputs[reader.data[position][1]])
        for reader in self.control_readers(node):
            self.control(executed, reader)
        self.remove(node)

    def remove(self, node: EditableNode) -> None:
        """Remove a node with its edges; its outgoing data edges must be removed first."""
        for source in (*(source for source, _ in node.data), *node.control):
            source.readers = [(n, p) for n, p in source.readers if n is not node]
        for reader in self.control_readers(node):
            del reader.control[node]
        node.removed = True

    def finish(self) -> Graph:
        """Return the rewritten graph; its nodes are in the order of their runtime ids.

        Raises InvalidArgumentError if a node reads a tensor of a wrong type.
        """
        kept = [node for node in self.nodes if not node.removed]
        check_edges(kept)
        ids = {id(node): i for i, node in enumerate(kept)}
        graph = self.base.emptied()
        for node in kept:
            graph.add(
                node.name,
                node.op,
                node.attrs,
                tuple(ids[id(source)] for source, _ in node.data),
                tuple(slot for _, slot in node.data),
                tuple(ids[id(source)] for source in node.control),
                node.device,
                node.location,
            )
        # removed nodes leave gaps, and error texts show these ids (5.3d)
        graph.runtime_ids = [node.runtime_id for node in kept]
        graph.origins = {node.name: node.origin for node in kept if node.origin and node.origin.path != f"{node.name}/"}
        return graph
