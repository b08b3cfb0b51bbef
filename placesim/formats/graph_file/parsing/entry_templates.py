"""Fast reading of entries that differ from an earlier one only in name, inputs and value.

An example is `{op: Add, name: b, inputs: [a, a]}`. The slow path creates the first node of a kind for given input types; later
nodes are copies of it. Unusual entries always take the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from placesim.formats.graph_file.entries.scoped_names import ScopedNames
from placesim.formats.graph_file.parsing.entry_kinds import EntryKind, EntryKinds, NodeTemplate, is_plain_name
from placesim.formats.graph_file.parsing.yaml_tree import PLAIN_WORDS
from placesim.formats.problems import FileProblems, InvalidValue
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import COLUMNS, Node, split_tensor_name
from placesim.ops.attributes import Attrs

_FoundEntry = tuple[EntryKind, str, Any, int]
"""The kind of an entry, its name, its content, and its packed number of lines."""


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
        self._numbered: list[EntryKind] = []
        self._has_plain_names = True
        self._checked_names = 0

    def is_known(self, text: str) -> bool:
        """Whether the kind of an entry is known, so that the parser is probably not needed."""
        return self._kinds.find(text) is not None

    def take_texts(self, texts: list[str], first: int, line: int) -> tuple[int, int]:
        """Make nodes of entries from text `first` on, as far as possible.

        This text begins in `line` (from 0). Returns the index and the line of the first text that needs the slow path.
        """
        is_plain = self._is_plain()
        if is_plain is None:
            return first, line
        count, line = self._take_found(self._found(map(texts.__getitem__, range(first, len(texts))), is_plain), line)
        return first + count, line

    def _is_plain(self) -> bool | None:
        """Whether inputs need no check of their texts; None if names don't mean the same with and without quotes."""
        is_plain = self._check_names() and self._names.is_flat
        is_usable = self._builder.is_bare and (is_plain or not self._names.has_any(PLAIN_WORDS))
        return is_plain if is_usable else None

    def _found(self, texts: Iterable[str], is_plain: bool) -> Iterator[_FoundEntry]:
        """Yield the kind, name, content and packed number of lines of entries, up to the first of an unknown kind."""
        find = self._kinds.find
        for text in texts:
            found = find(text, is_plain)
            if found is None:
                return
            kind, name, given = found
            yield kind, name, kind.content(given), kind.lines or (text.count("\n") + 1) * COLUMNS

    def found_columns(self, chunks: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[Any]]] | None:
        """Return an iterator over chunks of entries, each with the place where it ends, for `take_columns`.

        It ends at the first chunk with an entry of an unknown kind. Kinds are given by number. None if the fast path is closed.
        """
        is_plain = self._is_plain()
        if is_plain is None:
            return None
        self._numbered = self._kinds.all()
        numbers = {id(kind): number for number, kind in enumerate(self._numbered)}

        def columns() -> Iterator[tuple[int, list[Any]]]:
            for end, texts in chunks:
                found = list(self._found(texts, is_plain))
                if len(found) < len(texts):
                    return
                kinds, names, given, lines = map(list, zip(*found, strict=True))
                yield end, [[numbers[id(kind)] for kind in kinds], names, given, lines]

        return columns()

    def take_columns(self, columns: list[Any], line: int) -> tuple[int, int]:
        """Make nodes of the entries of a chunk, as `take_texts` does; returns their count and the next line."""
        kinds, names, given, lines = columns
        return self._take_found(zip(map(self._numbered.__getitem__, kinds), names, given, lines, strict=True), line)

    def _take_found(self, entries: Iterable[_FoundEntry], line: int) -> tuple[int, int]:
        """Make nodes of entries as far as possible. Returns their count and the line after them."""
        builder, names = self._builder, self._names
        graph, in_use, variables = builder.graph, builder.names_in_use, builder.variables
        nodes, ids, bound = graph.nodes, graph.ids, names.bound
        look_up: Any = ids.get if names.is_flat else names.resolve_plain_node
        start, position = len(nodes), line * COLUMNS
        for kind, name, given, lines in entries:
            lowered = name.lower()
            if lowered in in_use or lowered in ids or name in PLAIN_WORDS or name in bound:
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
                    inputs = tuple(map(look_up, given))
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
            if lowered != name:
                in_use[lowered] = 1
            position += lines
        names.mark_all_named(start)
        builder.use_names_from(start)
        self._checked_names = len(nodes)
        return len(nodes) - start, position // COLUMNS

    def _check_names(self) -> bool:
        """Whether all nodes have names that mean the same with and without quotes."""
        for node in self._builder.graph.nodes[self._checked_names :]:
            if node.name in PLAIN_WORDS or not is_plain_name(node.name):
                self._has_plain_names = False
        self._checked_names = len(self._builder.graph)
        return self._has_plain_names

    def _further_outputs(
        self, kind: EntryKind, given: Sequence[str], look_up: Callable[[str], int | None]
    ) -> tuple[tuple[int, ...], NodeTemplate | None]:
        """Return the nodes of inputs such as `a:1`, and the template for them; no nodes and None if a node is missing."""
        nodes, parts = self._builder.graph.nodes, list(map(split_tensor_name, given))
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
