"""Reader of the entries of `nodes`, one after another: nodes, variables, scopes, initializers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from placesim.formats.graph_file.entries.control_flow_entries import (
    CONDITIONAL_KEYS,
    LOOP_KEYS,
    OP_ITSELF,
    BodyEntries,
    Level,
    Surroundings,
)
from placesim.formats.graph_file.entries.limits import NO_LIMITS, EntryLimits
from placesim.formats.graph_file.entries.loop_back_edges import Loops
from placesim.formats.graph_file.entries.node_entries import NODE_KEYS, NodeEntries
from placesim.formats.graph_file.entries.node_makers import FunctionMaker
from placesim.formats.graph_file.entries.raw_nodes import RawNodes
from placesim.formats.graph_file.entries.references import EntryContext, References
from placesim.formats.graph_file.entries.scope_entries import SCOPE_KEYS, ScopeEntries
from placesim.formats.graph_file.entries.scoped_names import EntryBreak, ScopedNames, UnresolvedName, slot_of
from placesim.formats.graph_file.entries.training_entries import GRADIENTS_KEYS, TRAIN_KEYS, TrainingEntries
from placesim.formats.graph_file.entries.variable_entries import INITIALIZER_KEYS, VARIABLE_KEYS, VariableEntries
from placesim.formats.problems import WRONG, FileProblems, key_position, own_position, spell, value_position
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef, split_tensor_name

if TYPE_CHECKING:
    from placesim.formats.graph_file.parsing.entry_templates import AlikeEntries

_KINDS = "op, variable, initializer, gradients, train, cond, while or nodes"
_FIRST_WORDS = ("variable", "initializer", "gradients", "train", "cond", "while", "scope", "nodes")
_NOT_IN_BODIES = {
    "variable": "it outside of 'cond' and 'while', where TensorFlow creates variables",
    "raw": "it outside of 'cond' and 'while': a NodeDef refers only to nodes of its own graph",
}
ENTRY_KEYS: Mapping[str, Collection[str]] = {
    "op": NODE_KEYS,
    "nodes": SCOPE_KEYS,
    "variable": VARIABLE_KEYS,
    "initializer": INITIALIZER_KEYS,
    "gradients": GRADIENTS_KEYS,
    "train": TRAIN_KEYS,
    "cond": CONDITIONAL_KEYS,
    "while": LOOP_KEYS,
}
"""Keys of each kind of entry, by the key that identifies the kind. If an entry has several such keys, the first here counts."""


class Entries:
    """A reader of entries. `finish` reports problems that need the whole list."""

    def __init__(
        self,
        builder: ScopedGraphBuilder,
        problems: FileProblems,
        functions: FunctionMaker | None = None,
        around: Level | None = None,
        limits: EntryLimits = NO_LIMITS,
    ) -> None:
        self._builder = builder
        self._limits = limits
        self._problems = problems
        self._names = ScopedNames(builder, problems)
        self._references = References(builder, problems, self._names)
        self._references.is_of_function = builder.is_of_function
        context = EntryContext(builder, problems, self._names, self._references)
        self._loops = Loops(context)
        self._nodes = NodeEntries(context, self._loops, limits)
        self._scopes = ScopeEntries(context, self.take_all)
        self._variables = VariableEntries(builder, problems, self._names, self._scopes)
        self._raw = RawNodes(builder.graph, problems, is_marked=True)
        self._training = TrainingEntries(context, self._scopes)
        self._bodies = BodyEntries(context, self._scopes, self._open_body, functions, around)
        self._around = around
        self._counter = self._scopes
        self.last: list[TensorRef] = []
        if functions is not None and around is not None:
            self._references.outside = Surroundings(functions, around)
            self._names.is_copy = around.names.is_copy
            self._counter = around.counter

    @cached_property
    def alike(self) -> AlikeEntries:
        """The fast reader of entries that differ little from earlier ones, imported when a file is long enough."""
        from placesim.formats.graph_file.parsing.entry_templates import AlikeEntries

        return AlikeEntries(self._builder, self._problems, self._names, self.take)

    def take_all(self, entries: Any, position: int = 0) -> None:
        """Read a list of entries."""
        for index, entry in enumerate(self._problems.sequence(entries, position, "'nodes'")):
            self.take(entry, position if isinstance(entry, dict) else value_position(entries, index))

    def take(self, entry: Any, position: int = 0) -> None:
        """Read one entry of any kind; problems are reported, never raised."""
        if self._names.is_copy and not self._counter.count_copy(entry):
            return
        if not isinstance(entry, dict):
            expected = "expected a mapping with op, variable, scope or nodes"
            self._problems.add(position, f"wrong type of an entry of 'nodes': got {spell(entry)}, {expected}")
            return
        try:
            if self._limits.refused and self._refuse(entry):
                return
            if "op" in entry and entry.get("raw", False) is not False:
                self._take_raw(entry)
            elif "op" in entry:
                self._nodes.take(entry)
                self._note_last()
            elif "nodes" in entry:
                self._scopes.take(entry)
            elif "variable" in entry:
                self._variables.take_variable(entry)
            elif "initializer" in entry and self._around is not None:
                node = self._variables.take_initializer(entry, self._bodies.add_initializer)
                self.last = [TensorRef(node, OP_ITSELF)]
            elif "initializer" in entry:
                self._training.note_initializer()
                self._variables.take_initializer(entry, self._variables.add_initializer)
            elif "gradients" in entry:
                self.last = self._training.take_gradients(entry)
            elif "train" in entry:
                self.last = [TensorRef(self._training.take_train(entry), OP_ITSELF)]
            elif "cond" in entry or "while" in entry:
                self.last = self._bodies.take(entry)
            else:
                self._take_unknown(entry)
        except EntryBreak:
            pass

    def _take_raw(self, entry: dict[Any, Any]) -> None:
        """Read an entry that is a NodeDef. Scopes do not affect it."""
        if entry["raw"] is not True:
            message = f"wrong type of 'raw': got {spell(entry['raw'])}, expected true or false"
            self._problems.add(value_position(entry, "raw"), message)
        name = entry.get("name")
        if isinstance(name, str):
            self._builder.note_name(name)
        self._raw.take(entry)

    def _take_unknown(self, entry: dict[Any, Any]) -> None:
        if not self._problems.unknown_keys(entry, (*NODE_KEYS, *_FIRST_WORDS), "a node"):
            message = f"unknown kind of entry: got {', '.join(map(str, entry)) or 'nothing'}, expected {_KINDS}"
            self._problems.add(own_position(entry), message)
        name = entry.get("name")
        if isinstance(name, str):
            self._names.mark_broken(entry, self._builder.prefix + name, own_position(entry))

    # --- bodies -----------------------------------------------------------------------------------------------------

    def _open_body(self, functions: FunctionMaker, around: Level) -> Entries:
        limits = self._limits._replace(refused={**_NOT_IN_BODIES, **self._limits.refused})
        return Entries(functions.builder, self._problems, functions, around, limits)

    def _refuse(self, entry: dict[Any, Any]) -> bool:
        """Report an entry of a kind that is not allowed here. Returns whether the entry was refused."""
        kinds = [key for key in self._limits.refused if key in entry and entry[key] is not False]
        for kind in kinds:
            message = f"wrong entry of a body: got one with '{kind}', expected {self._limits.refused[kind]}"
            self._problems.add(key_position(entry, kind), message)
        return bool(kinds)

    def _note_last(self) -> None:
        nodes = self._builder.graph.nodes
        if nodes:
            self.last = [TensorRef(len(nodes) - 1, 0 if nodes[-1].signature.output_dtypes else OP_ITSELF)]

    def take_body(self, entries: Any, position: int, arguments: Mapping[str, int]) -> None:
        """Read the entries of a body, a list or a single one; `arguments` maps names to their nodes."""
        self._names.bind_arguments(arguments)
        if isinstance(entries, dict):
            self.take(entries)
        else:
            self.take_all(entries, position)

    def result(self, body: str, tree: Any, key: Any, text: str) -> Any:
        """Return the tensor or variable that is a result of `body`, such as 'then'; WRONG, after a report, if there is none."""
        waits: list[UnresolvedName] = []
        found = self._references.tensors(tree, key, text, "", waits)
        if len(found) == 1 and not isinstance(found[0], UnresolvedName):
            return found[0]
        self._references.forget(waits)
        if waits:
            name = split_tensor_name(text)[0]
            if self._names.is_broken(name):
                return WRONG
            around = ", or around it" if self._around is not None else ""
            near = "" if around else self._problems.did_you_mean(name, self._names.all_names())
            message = f"unknown output of '{body}': got '{text}', expected the name or id of a node of it{around}{near}"
        else:
            message = f"more than one tensor: got {spell(text)}, expected the name of one"
        self._problems.add(value_position(tree, key), message)
        return WRONG

    def note_argument(self, node: int) -> None:
        """Record that the node of a function's argument has its name from the file."""
        self._names.mark_named(node)

    def note_broken(self, name: Any) -> None:
        """Record an invalid argument, so that uses of its name are not reported too."""
        if isinstance(name, str):
            self._names.bind(name, (None,))

    def awaited(self, tree: Any, key: Any) -> dict[str, int]:
        """Return the nodes named by a text or list of texts under a key, by full name."""
        nodes = self._builder.graph.nodes
        return {nodes[i].name: i for i in self._references.nodes(tree, key, "", [])}

    def finish(self) -> None:
        """Connect the loops, and report unknown names, forward references and cycles."""
        self._raw.finish()
        self._loops.close()
        self._references.settle()
        self._training.finish()
        graph = self._builder.graph
        graph.handles, graph.tensors = self._names.handles(), self._names.tensors()
        resources = {node: variable.value for node, variable in self._builder.variables.items() if variable.kind == "resource"}
        graph.values = {graph.nodes[node].name: graph.nodes[value].name for node, value in resources.items()}

    def tensor_names(self, text: str) -> list[str] | None:
        """Return the full names of the tensors or nodes that a fetch or feed names; None for an unknown name."""
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
