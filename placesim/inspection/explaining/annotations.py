"""Annotations in a graph that decide devices: `device` at an entry or a scope, and colocation labels.

An annotation is a line that can be changed. It may apply to many nodes: the device of a scope to all nodes inside, and the
device of a variable to all nodes that the variable expands to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import takewhile

from placesim.core.errors import GraphBuildError, Location
from placesim.core.grouped import grouped
from placesim.core.styled_text import device, fill_template
from placesim.graph.graph import COLUMNS, DeviceScope, Graph, Node
from placesim.machine.device_names import ANY, DeviceName, enclose, parse_python_spec, parse_runtime_name
from placesim.ops.categories import VARIABLE_READS, VARIABLES
from placesim.placement.colocation_labels import class_labels


class AnnotationKind(IntEnum):
    """The kind of an annotation: a label, or a device at a node's entry, at a scope, or at an entry of several nodes."""

    ENTRY = 0
    SCOPE = 1
    LABEL = 2
    VARIABLE = 3


@dataclass(frozen=True, slots=True)
class Annotation:
    """A line that requests a device or colocation. `text` is the device or the label's node; `node` is the first affected node.

    `position` identifies the annotation: its packed location in the file, or without a location, -1 minus the node's id.
    """

    kind: AnnotationKind
    position: int
    text: str
    node: str
    location: Location | None

    def __str__(self) -> str:
        if self.kind == AnnotationKind.LABEL:
            return f"colocation of {self.node} with {self.text}"
        around = "the scope around " if self.kind == AnnotationKind.SCOPE else ""
        return fill_template("device {} of {}{}", device(self.text), around, self.node)


Changes = Mapping[Annotation, str]
"""New text of each changed annotation; an empty text removes the annotation."""


class Annotations:
    """The annotations of a graph as written. `is_raw` says that its nodes come from a GraphDef, each with its own request."""

    def __init__(self, graph: Graph, is_raw: bool = False) -> None:
        self._graph = graph
        self._is_raw = is_raw
        self._known: dict[tuple[AnnotationKind, int, str], Annotation] = {}
        self._of_scopes: dict[DeviceScope, Annotation] = {}

    # --- what there is ----------------------------------------------------------------------------------------------

    def of_node(self, node: Node) -> tuple[Annotation, ...]:
        """Return the device annotations that determine a node's request, innermost first, then its labels."""
        return (*self.origins(node), *self.labels(node))

    def origins(self, node: Node) -> tuple[Annotation, ...]:
        """Return the annotations that determine a node's request.

        If scopes give the complete request, the scopes are returned. Otherwise the result is the node's entry, which has a
        `device` or a `colocate_with`, and the scopes that fill in the job, replica or task.
        """
        requested = parse_runtime_name(node.device) if node.device else None
        if requested is None:
            return (self._entry(node),) if node.device else ()
        holder = self._copied_from.get(node.id)
        if holder is not None:
            return self.origins(self._graph.nodes[holder])
        used = self._contributing(node, requested)
        if used is not None:
            return tuple(self._scope(scope) for scope in used)
        outer = [s for s in self._chain(node.id) if (own := _spec(s).address_space) != ANY and own.matches(requested)]
        return (self._entry(node), *(self._scope(scope) for scope in outer))

    def labels(self, node: Node) -> tuple[Annotation, ...]:
        """Return a node's labels except the one with its own name."""
        value = node.attrs.get("_class")
        return tuple(self._label(node, label) for label in class_labels(value) if label != node.name) if value else ()

    def all(self) -> list[Annotation]:
        """Return every annotation of the graph once, in the order of the first nodes to which they apply."""
        nodes = self._graph.nodes
        return list(dict.fromkeys(found for node in nodes if node.device or node.attrs for found in self.of_node(node)))

    def entry_nodes(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes to which a `device` at a node's entry applies.

        These include its literals, and all nodes of a variable except its initializer. Nodes that read a variable for the entry
        are made outside the entry's device (2.2.1).
        """
        made = self._by_position.get(node.location, ()) if self._key_position(node.location, node.id) > 0 else ()
        nodes = [self._graph.nodes[i] for i in made] or [node]
        reads = () if any(made.op in VARIABLES for made in nodes) else VARIABLE_READS
        kept = tuple(made for made in nodes if "/Initializer/" not in made.name and (len(nodes) == 1 or made.op not in reads))
        return () if node.op in reads and node not in kept else kept or (node,)

    def _contributing(self, node: Node, requested: DeviceName) -> list[DeviceScope] | None:
        """Return the scopes that determine the request, if scopes alone do so; else None."""
        merged, used = ANY, []
        for scope in self._chain(node.id):
            widened = enclose(merged, _spec(scope))
            if widened != merged:
                used.append(scope)
                merged = widened
        return used if merged == requested else None

    def _entry(self, node: Node) -> Annotation:
        return self._annotation(AnnotationKind.ENTRY, node.location, node.device, node)

    def _label(self, node: Node, label: str) -> Annotation:
        return self._annotation(AnnotationKind.LABEL, node.location, label, node)

    def _scope(self, scope: DeviceScope) -> Annotation:
        found = self._of_scopes.get(scope)
        if found is None:
            found = self._of_scopes[scope] = self._read_scope(scope)
        return found

    def _read_scope(self, scope: DeviceScope) -> Annotation:
        inside = self._graph.nodes[scope.first : scope.end]
        first_entry = takewhile(lambda node: node.location == inside[0].location, inside)
        holder = min(first_entry, key=lambda node: len(node.name))
        is_variable = not self._is_raw and 0 < inside[0].location == inside[-1].location < scope.location
        kind = AnnotationKind.VARIABLE if is_variable else AnnotationKind.SCOPE
        return self._annotation_at(kind, _scope_position(scope), scope.location, scope.device or "", holder)

    def _annotation(self, kind: AnnotationKind, location: int, text: str, node: Node) -> Annotation:
        return self._annotation_at(kind, self._key_position(location, node.id), location, text, node)

    def _annotation_at(self, kind: AnnotationKind, position: int, location: int, text: str, node: Node) -> Annotation:
        key = (kind, position, text)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Annotation(kind, position, text, node.name, self._graph.located(location))
        return found

    def _key_position(self, position: int, node_id: int) -> int:
        """Return a unique position of an entry, or a negative number for a single node.

        A node gets a negative number if it has no file, is in a GraphDef, or is so far to the right in a long line that its
        column is unknown.
        """
        return -1 - node_id if self._is_raw else _unique_position(position, node_id)

    def label_copies(self) -> Set[Annotation]:
        """Return the device annotations of nodes whose label names a node with the same request, in a GraphDef too."""
        nodes, ids = self._graph.nodes, self._graph.ids
        labelled = ((node, label) for node in nodes if node.device for label in class_labels(node.attrs.get("_class", ())))
        found = (n for n, label in labelled if label != n.name and label in ids and nodes[ids[label]].device == n.device)
        return {self._entry(node) for node in found}

    # --- scopes -----------------------------------------------------------------------------------------------------

    def _chain(self, node_id: int) -> Iterator[DeviceScope]:
        """Yield the device scopes around a node, innermost first, up to a scope that clears the devices of outer scopes."""
        innermost, parents = self._nesting
        index = innermost[node_id] if node_id < len(innermost) else -1
        while index >= 0:
            scope = self._graph.device_scopes[index]
            if scope.device is None:
                return
            yield scope
            index = parents[index]

    @cached_property
    def _nesting(self) -> tuple[list[int], list[int]]:
        """Return the innermost scope of each node, and the enclosing scope of each scope; -1 for none."""
        scopes = self._graph.device_scopes
        if not scopes:
            return [], []
        innermost, parents = [-1] * len(self._graph), [-1] * len(scopes)
        # a scope is recorded when it ends, so that of two scopes around the same nodes, the outer comes later
        for index in sorted(range(len(scopes)), key=lambda i: (scopes[i].first, -scopes[i].end, -i)):
            first, end = scopes[index].first, scopes[index].end
            if first < end:
                parents[index] = innermost[first]
                innermost[first:end] = [index] * (end - first)
        return innermost, parents

    # --- what changing them gives -----------------------------------------------------------------------------------

    def changed(self, graph: Graph, now: Iterable[Annotation], changes: Changes) -> Graph:
        """Return a copy of `graph` with new requests and labels for the nodes that the annotations in `now` affect.

        `changes` has all changed annotations, old and new. The nodes of `graph` have the same ids as in the written graph.
        """
        made: dict[int, Node] = {}
        for annotation in now:
            for node_id in self._nodes_of(annotation):
                written = self._graph.nodes[node_id]
                node = made.get(node_id) or copy_node(graph.nodes[node_id])
                if annotation.kind == AnnotationKind.LABEL:
                    node.attrs = self._without_labels(written, changes)
                elif node_id in self._copied_from:
                    continue  # it follows the node whose request it copied
                else:
                    node.device = self._device(written, changes)
                made[node_id] = node
        self._follow(graph, made)
        return replace_nodes(graph, made.values())

    def given(self, graph: Graph, names: Iterable[str], device: str) -> Graph:
        """Return a copy of the graph in which `device` is requested by these nodes, which belong to an entry without a device.

        Scopes fill in unset fields of the request.
        """
        made = {node.id: copy_node(node) for node in map(graph.node, names)}
        for node in made.values():
            node.device = str(enclose(parse_python_spec(device), parse_runtime_name(node.device) or ANY))
        self._follow(graph, made)
        return replace_nodes(graph, made.values())

    def _without_labels(self, node: Node, changes: Changes) -> dict[str, object]:
        dropped = {f"loc:@{found.text}" for found in self.labels(node) if found in changes}
        return {**node.attrs, "_class": tuple(label for label in node.attrs["_class"] if label not in dropped)}

    def _device(self, node: Node, changes: Changes) -> str:
        before = around = ANY
        for scope in self._chain(node.id):
            before = enclose(before, _spec(scope))
            around = enclose(around, _parsed(changes.get(self._scope(scope), scope.device or "")))
        entry = next((found for found in self.origins(node) if found.kind == AnnotationKind.ENTRY), None)
        if entry is None:
            return str(around)
        if entry in changes:
            return changes[entry] if self._is_raw else str(enclose(_parsed(changes[entry]), around))
        return node.device if around == before else str(_refilled(_parsed(node.device), before, around))

    def _nodes_of(self, annotation: Annotation) -> Sequence[int]:
        if annotation.kind in (AnnotationKind.SCOPE, AnnotationKind.VARIABLE):
            alike = [
                scope
                for scope in self._graph.device_scopes
                if scope.device == annotation.text and _scope_position(scope) == annotation.position
            ]
            return [i for s in alike for i in range(s.first, s.end) if annotation in self.origins(self._graph.nodes[i])]
        if annotation.position < 0:
            return (-1 - annotation.position,)
        nodes = self._graph.nodes
        return [i for i in self._by_position.get(annotation.position, ()) if annotation in self.of_node(nodes[i])]

    @cached_property
    def _by_position(self) -> dict[int, list[int]]:
        return grouped((node.location, node.id) for node in self._graph.nodes if node.location)

    def _follow(self, graph: Graph, made: dict[int, Node]) -> None:
        """Update the requests that `colocate_with` or `tf.group` copied from a changed node (2.2)."""
        for holder_id in list(made):
            written, new = self._graph.nodes[holder_id], made[holder_id]
            if written.device == new.device:
                continue
            for node_id in self._copies_of.get(holder_id, ()):
                node = made.get(node_id) or copy_node(graph.nodes[node_id])
                if node.device == graph.nodes[node_id].device:
                    node.device = new.device
                    made[node_id] = node

    @cached_property
    def _copies_of(self) -> dict[int, list[int]]:
        """The nodes whose requests were copied from each node, directly or through other copies."""
        return grouped((holder, copy) for copy, holder in self._copied_from.items())

    @cached_property
    def _copied_from(self) -> dict[int, int]:
        """The node from which each copied request comes, which is of another entry.

        `colocate_with` copies the request of the label's node, and hides the scopes around it. A group (`tf.group`) of nodes
        with one request has it too, if scopes do not give it.
        """
        found: dict[int, int] = {}
        if self._is_raw and not self._graph.device_scopes:
            return found
        nodes, ids = self._graph.nodes, self._graph.ids
        for node in nodes:
            if not node.device or ("_class" not in node.attrs and node.op != "NoOp"):
                continue
            labels = class_labels(node.attrs["_class"]) if "_class" in node.attrs else ()
            near = [ids[label] for label in labels if label in ids]
            is_group = node.op == "NoOp" and all(nodes[i].device == node.device for i in node.control_inputs)
            if is_group and self._contributing(node, parse_runtime_name(node.device) or ANY) is None:
                near += node.control_inputs
            source = next((i for i in near if nodes[i].device == node.device and i != node.id), None)
            if source is not None:
                found[node.id] = source
        holders = {copy: _last(found, copy) for copy in found}
        return {copy: i for copy, i in holders.items() if nodes[i].location != nodes[copy].location}


def _last(found: Mapping[int, int], copy: int) -> int:
    """Return the node at the end of a chain of copies."""
    passed = {copy}
    while copy in found and found[copy] not in passed:
        copy = found[copy]
        passed.add(copy)
    return copy


def _refilled(requested: DeviceName, before: DeviceName, around: DeviceName) -> DeviceName:
    """Return a request in which values of job, replica and task inherited from the old scopes (`before`) come from `around`."""
    fields = zip(requested[:3], before[:3], around[:3], strict=True)
    job, replica, task = (new if mine == old else mine for mine, old, new in fields)
    return DeviceName(job, replica, task, requested.type, requested.id)  # type: ignore[arg-type]


def _unique_position(position: int, node_id: int) -> int:
    """Return a packed location that is exact, or a negative number for a node without one."""
    return position if position and position % COLUMNS != COLUMNS - 1 else -1 - node_id


def _scope_position(scope: DeviceScope) -> int:
    return _unique_position(scope.location, scope.first)


def _spec(scope: DeviceScope) -> DeviceName:
    return _parsed(scope.device or "")


def _parsed(device: str) -> DeviceName:
    try:
        return parse_python_spec(device)
    except GraphBuildError:
        return parse_runtime_name(device) or ANY


def copy_node(node: Node) -> Node:
    """Return a copy of a node that shares its attrs and inputs."""
    return Node(
        node.id,
        node.name,
        node.signature,
        node.attrs,
        node.input_nodes,
        node.input_slots,
        node.control_inputs,
        node.device,
        node.location,
    )  # several times as fast as copy.copy, and edits of a scope copy all of its nodes


def replace_nodes(graph: Graph, replaced: Iterable[Node]) -> Graph:
    """Return a copy of a graph with some nodes replaced by nodes with the same ids; everything else is shared."""
    made = graph.emptied()
    made.nodes = list(graph.nodes)
    made.ids = graph.ids
    made.runtime_ids = graph.runtime_ids
    for node in replaced:
        made.nodes[node.id] = node
    return made
