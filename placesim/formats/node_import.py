"""Importer of NodeDefs from any source, with the checks and messages of TensorFlow's `import_graph_def`."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, repeat
from string import ascii_letters, digits
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.formats.node_checks import NodeChecks, node_text
from placesim.formats.node_columns import ImportedNodes, NodeBlock, NodeColumns, first_outputs
from placesim.formats.problems import ACYCLIC, FileProblems, part_position, value_position
from placesim.graph.graph import Graph, Integers, Node, NodeClass, NodeDef, Signature, split_tensor_name
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import CONSTANTS
from placesim.ops.definitions import format_op_def

_NODE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\-/>]*").fullmatch
_NAME_BYTES = f"{ascii_letters}{digits}_.-/>".encode()
_BEGINNINGS = ("\n\n", "\n-", "\n/", "\n>")
"""Beginnings of names that are empty or invalid, in a text with a name in each line."""
_FIELD_BITS = 20
_MOST_FIELD = (1 << _FIELD_BITS) - 1
"""Maximum number of signatures, and of inputs of a node, up to which the types of many nodes are compared at once."""
_MAX_CYCLE_NAMES = 20
_Booleans = np.ndarray[Any, np.dtype[np.bool_]]


class NodeImport:
    """An importer of nodes in any order. `finish` connects inputs that came later. Problems are recorded, never raised."""

    def __init__(self, graph: Graph, problems: FileProblems) -> None:
        self._graph = graph
        self._problems = problems
        self._checks = NodeChecks(graph.registry, graph.functions, problems)
        self._silent_checks = NodeChecks(graph.registry, graph.functions, FileProblems(problems.file, searches=0))
        self._has_forward_edges = False
        self._pending: list[tuple[Node, tuple[str, ...], Any]] = []
        self._broken: dict[str, int] = {}
        self._signatures: dict[Any, tuple[Signature, Attrs]] = {}
        self._classes: list[NodeClass] = []
        self._class_numbers: dict[NodeClass, int] = {}
        self._ids: list[int] = []
        self._types: dict[Signature, int] = {}
        self._type_numbers = array("q")
        self._fitting: set[int] = set()
        self._unmade = ImportedNodes(self._ids, self._classes)
        graph.hold(self._unmade)

    def add_all(self, node_defs: Iterable[NodeDef], tree: Any = None) -> None:
        """Add nodes. For a single node, `tree` is the mapping from which it was read, and errors are reported there."""
        ids, nodes = self._graph.ids, self._graph.nodes
        broken, signatures = self._broken, self._signatures
        for node_def in node_defs:
            name, op, inputs, device, attrs, location = node_def
            node_id = len(nodes)
            if not name or name in broken or ids.setdefault(name, node_id) != node_id:
                self._report_name(node_def, tree)
                continue
            found = signatures.get(id(attrs))
            signature = found[0] if found is not None and found[0].op == op else self._signature(node_def, self._checks, tree)
            if not _NODE_NAME(name):
                self._report(part_position(tree, "name"), f"Node '{name}': Node name contains invalid characters")
                signature = None
            if signature is None:
                del ids[name]
                broken[name] = location
                continue
            node = Node(node_id, name, signature, attrs, (), (), (), device, location)
            nodes.append(node)
            self._tie_or_wait(node, inputs, None if tree is None else tree.get("inputs"))

    def add_columns(self, columns: NodeColumns) -> None:
        """Add nodes of a GraphDef, as `add_all` does, but all together, so that most of them need no call.

        Nodes with a problem, and all after them, go to `add_all`, which reports the problems in order.
        """
        numbers = None if self._problems else self._numbers_of(columns)
        ids = None if numbers is None else self._name_all(columns.names)
        if numbers is None or ids is None:
            self.add_all(columns.node_defs())
            return
        graph, first = self._graph, len(self._graph)
        far = np.fromiter(map(graph.ids.get, columns.far, repeat(-1)), np.int64, len(columns.far))
        sources = columns.near + first
        sources[columns.near < 0] = far
        block = NodeBlock(columns.names, numbers[0], columns.counts, sources, columns.attrs)
        for node in graph.nodes[len(self._ids) : first] if len(self._ids) < first else ():  # added by themselves
            self._ids.append(node.id)
            self._type_numbers.append(self._type_number(node.signature))
        self._ids += ids
        self._type_numbers.frombytes(numbers[1].tobytes())
        if graph.unmade is self._unmade:
            self._unmade.append(block)
        else:
            graph.nodes.extend(block.make(first, self._ids, self._classes))
        # most inputs are first outputs of earlier nodes, whose types have been checked for the same signatures
        readers = np.repeat(np.arange(len(ids)), columns.counts)
        is_other = (sources < 0) | (sources >= readers + first)
        others = {*readers[is_other].tolist(), *self._unfit(block, numbers[1], readers, is_other)}
        rows = sorted(others)
        for row, inputs in zip(rows, columns.inputs(rows) if rows else (), strict=True):
            node = graph.nodes[first + row]
            node.input_nodes = node.input_slots = ()
            self._tie_or_wait(node, inputs)

    def _type_number(self, signature: Signature) -> int:
        return self._types.setdefault(signature, len(self._types))

    def _class_number(self, found: NodeClass) -> int:
        number = self._class_numbers.setdefault(found, len(self._classes))
        if number == len(self._classes):
            self._classes.append(found)
        return number

    def _unfit(self, block: NodeBlock, types: Integers, readers: Integers, is_other: _Booleans) -> Iterator[int]:
        """Yield the rows of nodes whose inputs differ in number or types from those of their ops.

        `types` has the number of each node's signature, and `readers` the row of each input. Nodes with an input in `is_other`
        are left out.
        """
        counts = block.counts
        if len(self._types) > _MOST_FIELD or counts.max() >= _MOST_FIELD:
            yield from range(len(counts))
            return
        ends = np.cumsum(counts)
        read = np.frombuffer(self._type_numbers, np.int64)[block.sources]
        places = np.arange(len(readers)) - (ends - counts)[readers]
        of_nodes = types << 2 * _FIELD_BITS | _MOST_FIELD << _FIELD_BITS | counts
        of_inputs = types[readers] << 2 * _FIELD_BITS | places << _FIELD_BITS | read
        fitting, known = self._fitting, np.array(list(self._fitting), np.int64)
        new = {*np.flatnonzero(np.isin(of_nodes, known, invert=True)).tolist()}
        new |= {*readers[np.isin(of_inputs, known, invert=True)].tolist()}
        signatures = list(self._types) if new else []
        for row in sorted(new.difference(readers[is_other].tolist())):
            inputs = slice(ends[row] - counts[row], ends[row])
            found = {int(of_nodes[row]), *of_inputs[inputs].tolist()}
            if not found <= fitting:
                wanted = signatures[types[row]]
                given = [(signatures[number], 0) for number in read[inputs].tolist()]
                if len(given) == len(wanted.input_dtypes) and not _misfits(wanted, given):
                    fitting |= found
                else:
                    yield row

    def _numbers_of(self, columns: NodeColumns) -> tuple[Integers, Integers] | None:
        """Return the numbers of the nodes' classes and types; None if a node is invalid, which is not reported."""
        known, numbers = self._signatures, []
        for kind, row in zip(columns.kinds, columns.first_rows(), strict=True):
            if row < 0:  # a kind without nodes
                numbers.append((-1, -1))
                continue
            found = known.get(id(kind.shared))
            if found is None:
                signature = self._signature(columns.node_def(row, kind), self._silent_checks)
                if signature is None:
                    return None
                found = known[id(kind.shared)] = signature, kind.shared
            of_class = self._class_number((found[0], kind.device, kind.is_labelled))
            numbers.append((of_class, self._type_number(found[0])))
        classes, types = np.array(numbers, np.int64)[columns.rows].T
        return classes, types

    def _name_all(self, names: Sequence[str]) -> list[int] | None:
        """Give the next ids to names; returns these ids, or None, and gives none, if a name is invalid or in use."""
        text = "\n".join(("", *names, ""))
        if not text.isascii() or any(beginning in text for beginning in _BEGINNINGS):
            return None
        if len(text.encode().translate(None, _NAME_BYTES)) > len(names) + 1:
            return None
        ids, first = self._graph.ids, len(self._graph)
        known = len(ids)
        given = list(map(ids.setdefault, names, count(first)))
        if len(ids) == known + len(names):
            return given
        for name in set(names):
            if ids[name] >= first:
                del ids[name]
        return None

    def _tie_or_wait(self, node: Node, inputs: tuple[str, ...], places: Any = None) -> None:
        """Connect a node's inputs; if an input is no earlier node, `finish` connects them."""
        if not self._tie(node, inputs, places, False):
            self._has_forward_edges = True
            self._pending.append((node, inputs, places))

    def mark_broken(self, name: str, location: int) -> None:
        """Record an invalid node whose problems have all been reported."""
        if name not in self._graph.ids:
            self._broken.setdefault(name, location)

    def is_named(self, name: str) -> bool:
        """Whether there is a node of that name, even an invalid one."""
        return name in self._graph.ids or name in self._broken

    def _report(self, position: int, message: str) -> None:
        self._problems.add(position, message, "ValueError")

    def _report_name(self, node_def: NodeDef, tree: Any) -> None:
        name = node_def.name
        if not name:
            self._report(part_position(tree, "name"), f"a node of op '{node_def.op}' without a name")
            return
        node_id = self._graph.ids.get(name)
        first = self._broken[name] if node_id is None else self._graph.nodes[node_id].location
        where = f" (the first is at {self._problems.location(first)})" if first else ""
        self._report(part_position(tree, "name"), f"Node '{name}' is not unique{where}")

    def _signature(self, node_def: NodeDef, checks: NodeChecks, tree: Any = None) -> Signature | None:
        """Return a node's signature, which is cached by its attrs object or by a constant's type; None for an invalid node."""
        op, attrs = node_def.op, node_def.attrs
        is_constant = op in CONSTANTS and len(attrs) == 2 and attrs.get("value").__class__ is TensorValue
        key = attrs.get("dtype") if is_constant else id(attrs)
        found = self._signatures.get(key)
        if found is not None and found[0].op == op:
            return found[0]
        if not checks.check(node_def, tree):
            return None
        signature = self._graph.signatures.signature(op, attrs)
        if is_constant or op not in CONSTANTS:
            self._signatures[key] = (signature, attrs)
        return signature

    # --- edges ------------------------------------------------------------------------------------------------------

    def _tie(self, node: Node, inputs: tuple[str, ...], places: Any, is_last: bool) -> bool:
        """Connect a node's inputs. Returns False if an input is unknown and more nodes may follow."""
        ids = self._graph.ids
        nodes: list[int] = []
        slots: list[int] | None = None
        controls: list[int] = []
        is_good = True
        for index, text in enumerate(inputs):
            source, slot = ids.get(text), 0
            if source is None:
                if text[:1] == "^":
                    source, slot = ids.get(text[1:]), -1
                elif ":" in text:
                    name, slot = split_tensor_name(text)
                    source = ids.get(name)
                if source is None:
                    if not is_last:
                        return False
                    self._report_unknown(node, text, _input_position(node, places, index))
                    is_good = False
                    continue
            if source > node.id and not is_last:
                return False
            if slot < 0:
                controls.append(source)
                continue
            if controls:
                message = f"Node '{node.name}': Control dependencies must come after regular dependencies"
                self._report(_input_position(node, places, index), message)
                return True
            nodes.append(source)
            if slots is not None:
                slots.append(slot)
            elif slot:
                slots = [*[0] * (len(nodes) - 1), slot]
        node.input_nodes, node.control_inputs = tuple(nodes), tuple(controls)
        node.input_slots = first_outputs(len(nodes)) if slots is None else tuple(slots)
        if node.id in nodes or node.id in controls:
            self._has_forward_edges = True
        if is_good:
            self._check_types(node, places)
        return True

    def _report_unknown(self, node: Node, text: str, position: int) -> None:
        name = split_tensor_name(text.removeprefix("^"))[0]
        if name not in self._broken:
            near = self._problems.did_you_mean(name, self._graph.ids)
            self._report(position, f"Node '{node.name}': Unknown input node '{text}'{near}")

    def _check_types(self, node: Node, places: Any) -> None:
        signature, all_nodes = node.signature, self._graph.nodes
        wanted = signature.input_dtypes
        if len(node.input_nodes) != len(wanted):
            expected = ", ".join(dtype.name for dtype in wanted[:100])
            shape = f"; {format_op_def(signature.definition)}" if signature.definition is not None else ""
            message = f"NodeDef expected inputs '{expected}' do not match {len(node.input_nodes)} inputs specified"
            self._report(node.location, f"{message}{shape}{node_text(node.name)}")
            return
        sources = [all_nodes[source_id] for source_id in node.input_nodes]
        given = [(source.signature, slot) for source, slot in zip(sources, node.input_slots, strict=True)]
        for index in _misfits(signature, given):
            message = _conflict(node, sources[index], index, node.input_slots[index])
            self._report(_input_position(node, places, index), message)

    def finish(self) -> None:
        """Connect inputs to later nodes. Reports unknown inputs, and the first cycle without Merge."""
        pending, self._pending = self._pending, []
        for node, inputs, places in pending:
            self._tie(node, inputs, places, True)
        cycle = self._graph.find_cycle() if self._has_forward_edges else None
        self._has_forward_edges = False
        if cycle is not None:
            start = min(range(len(cycle) - 1), key=lambda i: self._graph.ids[cycle[i]])
            names = [*cycle[start:-1], *cycle[:start], cycle[start]]
            half = _MAX_CYCLE_NAMES // 2
            shown = names if len(names) <= _MAX_CYCLE_NAMES else [*names[:half], "...", *names[-half:]]
            self._problems.add(self._graph.node(names[0]).location, f"cycle: got {' -> '.join(shown)}, {ACYCLIC}")


def _misfits(signature: Signature, sources: Sequence[tuple[Signature, int]]) -> list[int]:
    """Return the indices of the inputs that are of another type than the node's op has; as many are given as it has.

    `sources` has the signature and the output of the node of each input.
    """
    wanted = zip(signature.input_dtypes, signature.input_is_ref, sources, strict=True)
    return [index for index, (dtype, is_ref, source) in enumerate(wanted) if not _gives(*source, dtype, is_ref)]


def _gives(source: Signature, slot: int, dtype: DataType, is_ref: bool) -> bool:
    outputs = source.output_dtypes
    return slot < len(outputs) and outputs[slot] is dtype and is_ref <= source.output_is_ref[slot]


def _input_position(node: Node, places: Any, index: int) -> int:
    """Return the position of an input in its list; the position of the node if the input's is unknown."""
    return value_position(places, index) or node.location


def _conflict(node: Node, source: Node, index: int, slot: int) -> str:
    outputs = source.signature.output_dtypes
    if slot >= len(outputs):
        what = f"Connecting to invalid output {slot} of source node {source.name} which has {len(outputs)} outputs."
        return f"Node '{node.name}': {what}"
    got = outputs[slot].name + "_ref" * source.signature.output_is_ref[slot]
    wanted = node.signature.input_dtypes[index].name + "_ref" * node.signature.input_is_ref[index]
    what = f"was passed {got} from {source.name}:{slot} incompatible with expected {wanted}."
    return f"Input {index} of node {node.name} {what}"
