"""Importer of NodeDefs from any source, with the checks and messages of TensorFlow's `import_graph_def`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, count, repeat
from operator import itemgetter
from string import ascii_letters, digits
from typing import Any

import numpy as np

from placesim.core.grouped import in_tuples
from placesim.formats.node_checks import NodeChecks, node_text
from placesim.formats.problems import ACYCLIC, FileProblems, part_position, value_position
from placesim.graph.graph import Graph, Node, NodeColumns, NodeDef, Signature, split_tensor_name
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import CONSTANTS
from placesim.ops.definitions import format_op_def

_NODE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\-/>]*").fullmatch
_FIRST_LETTERS = frozenset(f"{ascii_letters}{digits}._")
_NAME_BYTES = f"{ascii_letters}{digits}_.-/>".encode()
_first = itemgetter(slice(1))
_MAX_CYCLE_NAMES = 20


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
        self._made: list[Signature] = []
        self._fitting: set[tuple[Signature, tuple[Signature, ...]]] = set()

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
        names, _, inputs, devices, attrs, _ = columns
        signatures = None if self._problems else self._known_signatures(columns)
        new_ids = None if signatures is None else self._name_all(names)
        if signatures is None or new_ids is None:
            self.add_all(columns.node_defs())
            return
        nodes, made = self._graph.nodes, self._made
        first = len(nodes)
        made += [node.signature for node in nodes[len(made) :]]
        made += signatures
        counts = list(map(len, inputs))
        sources = list(map(self._graph.ids.get, chain.from_iterable(inputs), repeat(-1)))
        read = in_tuples(map(made.__getitem__, sources), counts)
        slots = map(_first_outputs, counts)
        tied = in_tuples(sources, counts)
        nodes += map(Node, new_ids, names, signatures, attrs, tied, slots, repeat(()), devices)
        # most inputs are first outputs of earlier nodes, whose types have been checked for the same signatures
        found, own = np.array(sources, np.int64), np.repeat(np.arange(first, len(nodes)), counts)
        others = set((own[(found < 0) | (found >= own)] - first).tolist())
        new: list[int] = []
        kinds, fitting = list(zip(signatures, read, strict=True)), self._fitting
        if not fitting.issuperset(kinds):
            new = [row for row, kind in enumerate(kinds) if kind not in fitting]
        for row in sorted(others.union(new)):
            if row in others or kinds[row] not in fitting:
                node, problems = nodes[first + row], len(self._problems)
                node.input_nodes = node.input_slots = ()
                self._tie_or_wait(node, inputs[row])
                if row not in others and len(self._problems) == problems:
                    fitting.add(kinds[row])

    def _known_signatures(self, columns: NodeColumns) -> list[Signature] | None:
        """Return the signatures of nodes; None if a node is invalid, which is not reported."""
        known = self._signatures
        found = list(map(known.get, map(id, columns.kinds)))
        if None in found:
            for row, (node_def, kind) in enumerate(zip(columns.node_defs(), columns.kinds, strict=True)):
                if found[row] is None and id(kind) not in known:
                    signature = self._signature(node_def, self._silent_checks)
                    if signature is None:
                        return None
                    known[id(kind)] = signature, kind
                found[row] = known[id(kind)]
        return [entry[0] for entry in found if entry is not None]

    def _name_all(self, names: Sequence[str]) -> list[int] | None:
        """Give the next ids to names; returns these ids, or None, and gives none, if a name is invalid or in use."""
        text = "".join(names)
        if (
            not text.isascii()
            or text.encode().translate(None, _NAME_BYTES)
            or not _FIRST_LETTERS.issuperset(map(_first, names))
        ):
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
        node.input_slots = _first_outputs(len(nodes)) if slots is None else tuple(slots)
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
        is_ref = signature.input_is_ref
        for index, (source_id, slot, dtype) in enumerate(zip(node.input_nodes, node.input_slots, wanted, strict=True)):
            source = all_nodes[source_id].signature
            outputs = source.output_dtypes
            if slot >= len(outputs) or outputs[slot] is not dtype or is_ref[index] > source.output_is_ref[slot]:
                message = _conflict(node, all_nodes[source_id], index, slot)
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


@lru_cache
def _first_outputs(count: int) -> tuple[int, ...]:
    """Return the slots of inputs that are all first outputs."""
    return (0,) * count


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
