"""The entries of `nodes`, one after the other, as builder calls: nodes, variables, scopes, initializers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from placesim.formats.graph_file.loops import Loops
from placesim.formats.graph_file.node_entries import NODE_KEYS, NodeEntries
from placesim.formats.graph_file.raw_nodes import RawNodes
from placesim.formats.graph_file.references import References
from placesim.formats.graph_file.scope_entries import SCOPE_KEYS, ScopeEntries
from placesim.formats.graph_file.scoped_names import Broken, ScopedNames, slot_of
from placesim.formats.graph_file.training_entries import GRADIENTS_KEYS, TRAIN_KEYS, TrainingEntries
from placesim.formats.graph_file.variable_entries import INITIALIZER_KEYS, VARIABLE_KEYS, VariableEntries
from placesim.formats.problems import Problems, own_position, shown, value_position
from placesim.graph.builder import GraphBuilder
from placesim.graph.graph import split_tensor_name

_KINDS = "op, variable, initializer, gradients, train or nodes"
_FIRST_WORDS = ("variable", "initializer", "gradients", "train", "scope", "nodes")
ENTRY_KEYS: Mapping[str, Collection[str]] = {
    "op": NODE_KEYS,
    "nodes": SCOPE_KEYS,
    "variable": VARIABLE_KEYS,
    "initializer": INITIALIZER_KEYS,
    "gradients": GRADIENTS_KEYS,
    "train": TRAIN_KEYS,
}
"""Each kind of entry by the key that tells it, the first that an entry has, with all of its keys."""


class Entries:
    """Takes entries; `finish` reports what only the whole list shows."""

    def __init__(self, builder: GraphBuilder, problems: Problems) -> None:
        self._builder = builder
        self._problems = problems
        self._names = ScopedNames(builder, problems)
        self._references = References(builder, problems, self._names)
        self._loops = Loops(builder, problems, self._names, self._references)
        self._nodes = NodeEntries(builder, problems, self._names, self._references, self._loops)
        self._scopes = ScopeEntries(builder, problems, self._names, self._references, self.take_all)
        self._variables = VariableEntries(builder, problems, self._names, self._scopes)
        self._raw = RawNodes(builder.graph, problems, is_marked=True)
        self._training = TrainingEntries(builder, problems, self._names, self._references, self._scopes)

    def take_all(self, entries: Any, position: int = 0) -> None:
        """A list of entries."""
        for index, entry in enumerate(self._problems.sequence(entries, position, "'nodes'")):
            self.take(entry, position if isinstance(entry, dict) else value_position(entries, index))

    def take(self, entry: Any, position: int = 0) -> None:
        """One entry of any kind; what is wrong with it is reported, never raised."""
        if self._names.is_copy and not self._scopes.count_copy(entry):
            return
        if not isinstance(entry, dict):
            message = (
                f"wrong type of an entry of 'nodes': got {shown(entry)}, expected a mapping with op, variable, scope or nodes"
            )
            self._problems.add(position, message)
            return
        try:
            if "op" in entry and entry.get("raw", False) is not False:
                self._take_raw(entry)
            elif "op" in entry:
                self._nodes.take(entry)
            elif "nodes" in entry:
                self._scopes.take(entry)
            elif "variable" in entry:
                self._variables.take_variable(entry)
            elif "initializer" in entry:
                self._training.note_initializer()
                self._variables.take_initializer(entry)
            elif "gradients" in entry:
                self._training.take_gradients(entry)
            elif "train" in entry:
                self._training.take_train(entry)
            else:
                self._take_unknown(entry)
        except Broken:
            pass

    def _take_raw(self, entry: dict[Any, Any]) -> None:
        """A NodeDef among the entries: as it stands, whatever the scopes around it."""
        if entry["raw"] is not True:
            message = f"wrong type of 'raw': got {shown(entry['raw'])}, expected true or false"
            self._problems.add(value_position(entry, "raw"), message)
        name = entry.get("name")
        if isinstance(name, str):
            self._builder.note_name(name)
        self._raw.take(entry)

    def _take_unknown(self, entry: dict[Any, Any]) -> None:
        if not self._problems.unknown_keys(entry, (*NODE_KEYS, *_FIRST_WORDS), "a node"):
            message = f"no kind of entry: got {', '.join(map(str, entry)) or 'nothing'}, expected {_KINDS}"
            self._problems.add(own_position(entry), message)
        name = entry.get("name")
        if isinstance(name, str):
            self._names.mark_broken(entry, self._builder.prefix + name, own_position(entry))

    def finish(self) -> None:
        """Close the loops, and report names that stand for nothing, for later nodes, or for a cycle."""
        self._raw.finish()
        self._loops.close()
        self._references.settle()
        self._training.finish()
        graph = self._builder.graph
        graph.handles, graph.tensors = self._names.handles(), self._names.tensors()
        variables = self._builder.variables.items()
        graph.values = {
            graph.nodes[node_id].name: graph.nodes[variable.value].name
            for node_id, variable in variables
            if variable.kind == "resource"
        }

    def tensor_names(self, text: str) -> list[str] | None:
        """The tensors or nodes that a fetch or feed names, in full; None where it names nothing."""
        name, _ = split_tensor_name(text)
        found = self._names.resolve(name)
        if found is None:
            return None
        names = []
        for node_id in found:
            variable = None if node_id is None else self._builder.variables.get(node_id)
            if variable is not None and variable.kind == "resource" and name == text:
                node_id = variable.value
            full = name if node_id is None else self._builder.graph.nodes[node_id].name
            slot = 0 if node_id is None or name != text else slot_of(node_id)
            names.append(f"{full}:{slot}" if slot else full + text[len(name) :])
        return names
