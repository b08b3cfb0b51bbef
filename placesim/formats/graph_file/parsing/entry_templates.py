"""Fast reading of entries that differ from an earlier one only in name, inputs and value.

An example is `{op: Add, name: b, inputs: [a, a]}`. The slow path creates the first node of a kind for given input types; later
nodes are copies of it. Unusual entries always take the slow path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.formats.graph_file.entries.scoped_names import ScopedNames
from placesim.formats.graph_file.parsing.entry_kinds import EntryKind, EntryKinds, NodeTemplate, is_plain_name
from placesim.formats.graph_file.parsing.yaml_tree import PLAIN_WORDS
from placesim.formats.problems import FileProblems, InvalidValue
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import COLUMNS, Node, split_tensor_name
from placesim.ops.attributes import Attrs


class AlikeEntries:
    """A maker of nodes from root entries of known kinds, which also learns new kinds."""

    def __init__(
        self, builder: ScopedGraphBuilder, problems: FileProblems, names: ScopedNames, take: Callable[[Any, int], None]
    ) -> None:
        self._builder = builder
        self._problems = problems
        self._names = names
        self._take = take
        self._kinds = EntryKinds()
        self._has_plain_names = True
        self._checked_names = 0

    def is_known(self, text: str) -> bool:
        """Whether the kind of an entry is known, so that the parser is probably not needed."""
        return self._kinds.find(text) is not None

    def take_texts(self, texts: list[str], first: int, line: int) -> tuple[int, int]:
        """Make nodes of entries from text `first` on, as far as possible.

        This text begins in `line` (from 0). Returns the index and the line of the first text that needs the slow path.
        """
        builder, names = self._builder, self._names
        graph, in_use, variables = builder.graph, builder.names_in_use, builder.variables
        nodes, ids, bound, find = graph.nodes, graph.ids, names.bound, self._kinds.find
        is_plain = self._check_names() and names.is_flat
        if not builder.is_bare or not (is_plain or not names.has_any(PLAIN_WORDS)):
            return first, line
        look_up: Any = ids.get if names.is_flat else names.resolve_plain_node
        start, index, position = len(nodes), first, line * COLUMNS
        for index in range(first, len(texts)):
            found = find(texts[index], is_plain)
            if found is None:
                break
            kind, name, given = found
            lowered = name.lower()
            if lowered in in_use or name in PLAIN_WORDS or name in bound:
                break
            inputs: tuple[int, ...] = ()
            attrs: Attrs
            if kind.constant is not None:
                try:
                    tensor = kind.tensor(given)
                except InvalidValue:
                    break
                made = kind.made.get(tensor[0])
                if made is None:
                    break
                attrs = {"dtype": tensor[0], "value": tensor}
            else:
                try:
                    if given:
                        inputs = tuple(map(look_up, given.split(kind.parts.separator)))
                    made = kind.made.get(tuple([nodes[i].signature for i in inputs]))
                except TypeError:  # an unknown name, or one with a slot
                    inputs, made = self._further_outputs(kind, given, look_up)
                if made is None:
                    break
                attrs = made.attrs
            if variables and not variables.keys().isdisjoint(inputs):
                break
            node_id = len(nodes)
            nodes.append(
                Node(node_id, name, made.signature, attrs, inputs, made.slots, (), made.device, position + kind.offset)
            )
            ids[name] = node_id
            in_use[name if lowered == name else lowered] = 1
            position += kind.lines or (texts[index].count("\n") + 1) * COLUMNS
        else:
            index = len(texts)
        names.mark_all_named(start)
        self._checked_names = len(nodes)
        return index, position // COLUMNS

    def _check_names(self) -> bool:
        """Whether all nodes have names that mean the same with and without quotes."""
        for node in self._builder.graph.nodes[self._checked_names :]:
            if node.name in PLAIN_WORDS or not is_plain_name(node.name):
                self._has_plain_names = False
        self._checked_names = len(self._builder.graph)
        return self._has_plain_names

    def _further_outputs(
        self, kind: EntryKind, given: str, look_up: Callable[[str], int | None]
    ) -> tuple[tuple[int, ...], NodeTemplate | None]:
        """Return the nodes of inputs such as `a:1`, and the template for them; no nodes and None if a node is missing."""
        nodes, parts = self._builder.graph.nodes, list(map(split_tensor_name, given.split(kind.parts.separator)))
        inputs = [look_up(name) for name, _ in parts]
        if None in inputs:
            return (), None
        found = tuple([i for i in inputs if i is not None])
        return found, kind.made.get((tuple([nodes[i].signature for i in found]), tuple([slot for _, slot in parts])))

    def take_example(self, text: str, entry: Any, position: int, indent: int) -> None:
        """Read an entry by the slow path. Its node becomes a template, unless the entry is the first of its kind."""
        found = self._kinds.learn(text, indent)
        graph, problems = self._builder.graph, self._problems
        expected = len(graph) + 1, problems.said
        self._take(entry, position)
        if found is not None and expected == (len(graph), problems.said):
            kind, name = found
            kind.learn(graph, name)
