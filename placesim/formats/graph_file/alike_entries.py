"""Entries written as one before them but for name, inputs and value, `{op: Add, name: b, inputs: [a, a]}` -> nodes like its.

An entry's text without these three is its kind.  What a kind makes of inputs of some types is seen from the node that the long
way makes of the first such entry, and holds for all that follow; whatever is in any way odd goes the long way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count, islice
from typing import Any, NamedTuple

from placesim.formats.graph_file.entry_trees import read_entries
from placesim.formats.graph_file.plain_values import constant_value
from placesim.formats.graph_file.scoped_names import ScopedNames
from placesim.formats.graph_file.yaml_tree import PLAIN_WORDS, Mapping, own_position, resolve_plain
from placesim.formats.problems import Problems, Wrong
from placesim.graph.builder import GraphBuilder
from placesim.graph.graph import COLUMNS, Graph, Node, Signature, split_tensor_name
from placesim.ops.attributes import Attrs, TensorValue

_NAME = "[A-Za-z][A-Za-z0-9_./-]*(?<![./-])"
"""Names that mean the same with quotes and without, at the end of a line too, and that are no scope's."""
_QUOTE = "['\"]?"
_TENSOR = f"{_NAME}(?::[0-9]+)?"
_TENSORS = rf"({_TENSOR}(?:({_QUOTE}(?:,[ \n] *|\n *- ){_QUOTE}){_TENSOR}(?:\SEPARATOR{_TENSOR})*)?)"
_NAMED = rf"\bname{_QUOTE}: {_QUOTE}"
_GIVEN = rf"\b(?:inputs{_QUOTE}:(?: \[|\n *- ){_QUOTE}|value{_QUOTE}: )"
_NUMBER = r"([-+]?[0-9]+(?:\.[0-9]*)?)"


def _order(pattern: str, separator: int) -> Callable[[str], re.Match[str] | None]:
    return re.compile(pattern.replace("SEPARATOR", str(separator)), re.DOTALL).fullmatch


_name_first = _order(f"(.*?{_NAMED})({_NAME})(?:(.*?{_GIVEN})(?:{_TENSORS}|{_NUMBER}))?(.*)", 5)
_name_last = _order(f"(.*?{_GIVEN})(?:{_TENSORS}|{_NUMBER})(.*?{_NAMED})({_NAME})(.*)", 3)
_MAX_KINDS = 1 << 12
_KEYS = {"op", "name", "inputs", "device", "attrs", "value", "dtype", "shape"}
"""What an entry says with others binds names, or depends on more than its text and its inputs' types."""


class _Text(NamedTuple):
    """The text of an entry: its kind, and what it says beside it.  `tensors` are parted by the third part of the kind."""

    kind: tuple[str, str | None, str | None, str]
    name: str
    tensors: str | None
    number: str | None
    is_turned: bool = False


class _Made(NamedTuple):
    """What the nodes of a kind have in common whose inputs are of the same types."""

    signature: Signature
    attrs: Attrs
    device: str
    slots: tuple[int, ...]


class _Kind:
    """Entries of one kind.

    `lines` is how many each has, 0 where they differ in that, and `offset` where in them their mapping begins, both packed.
    `made` goes by the signatures of the inputs, by these and their slots where some are not the first, or by a constant's type.
    """

    __slots__ = ("constant", "lines", "made", "offset")

    def __init__(self, text: str, separator: str | None, entry: Mapping) -> None:
        self.lines = 0 if "\n" in (separator or "") else (text.count("\n") + 1) * COLUMNS
        self.offset = own_position(entry)
        self.constant = (entry.get("value"), entry.get("dtype"), entry.get("shape")) if entry["op"] == "Const" else None
        self.made: dict[Any, _Made] = {}

    def learn(self, graph: Graph, text: _Text) -> None:
        """Note what the last node, which is of this kind, has in common with those that will be."""
        node = graph.nodes[-1]
        signature, attrs = node.signature, node.attrs
        if node.name != text.name or node.control_inputs or True in signature.input_is_ref:
            return
        made = _Made(signature, attrs, node.device, node.input_slots)
        if self.constant is not None:
            if list(attrs) == ["dtype", "value"]:
                self.made[attrs["dtype"]] = made
        elif not any(isinstance(value, TensorValue) for value in attrs.values()):
            types = tuple([graph.nodes[i].signature for i in node.input_nodes])
            self.made[(types, node.input_slots) if any(node.input_slots) else types] = made

    def tensor(self, number: str | None) -> TensorValue:
        """The value of a constant.  Raises Wrong."""
        value, dtype, shape = self.constant or (None, None, None)
        if number is not None:
            value = float(number) if "." in number else resolve_plain(number)
        return constant_value(value, dtype, shape)


class AlikeEntries:
    """Makes the nodes of entries at the root of a file whose kind is known, and learns the kinds of others."""

    def __init__(self, builder: GraphBuilder, problems: Problems, names: ScopedNames, take: Callable[[Any, int], None]) -> None:
        self._builder = builder
        self._problems = problems
        self._names = names
        self._take = take
        self._kinds: dict[tuple[str, str | None, str | None, str], _Kind | None] = {}
        self._seen: set[tuple[str, str | None, str | None, str]] = set()

    def is_known(self, text: str) -> bool:
        """Whether an entry is of a kind that is known, and so most likely needs no tree."""
        cut = _cut(text)
        return cut is not None and self._kinds.get(cut.kind) is not None

    def take_texts(self, texts: list[str], first: int, line: int) -> tuple[int, int]:
        """Make the nodes of entries, from the text `first` on, which begins in `line` (from 0), as far as that is possible.

        Returns the index and the line of the text where it is not.
        """
        builder, names = self._builder, self._names
        graph, in_use, variables = builder.graph, builder.names_in_use, builder.variables
        ids, bound = graph.ids, names.bound
        if not builder.is_bare or names.has_any(PLAIN_WORDS):
            return first, line
        nodes, known, name_first = graph.nodes, self._kinds.get, _name_first
        look_up: Any = ids.get if names.is_flat else names.resolve_plain_node
        start, index, position = len(nodes), first, line * COLUMNS
        for index in range(first, len(texts)):
            found = name_first(texts[index])
            if found is None:
                break
            head, name, middle, tensors, separator, number, tail = found.groups()
            kind = known((head, middle, separator, tail))
            if kind is None:
                cut = _cut_turned(texts[index]) if middle is None else None
                kind = None if cut is None else known(cut.kind)
                if cut is None or kind is None:
                    break
                (_, _, separator, _), name, tensors, number, _ = cut
            lowered = name.lower()
            if lowered in in_use or name in PLAIN_WORDS or name in bound:
                break
            inputs: tuple[int, ...] = ()
            attrs: Attrs
            if kind.constant is not None:
                try:
                    tensor = kind.tensor(number)
                except Wrong:
                    break
                made = kind.made.get(tensor[0])
                if made is None:
                    break
                attrs = {"dtype": tensor[0], "value": tensor}
            else:
                try:
                    if tensors is not None:
                        inputs = tuple(map(look_up, tensors.split(separator)))
                    made = kind.made.get(tuple([nodes[i].signature for i in inputs]))
                except TypeError:  # a name that stands for nothing, or has a slot
                    inputs, made = self._further_outputs(kind, tensors, separator, look_up)
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
        return index, position // COLUMNS

    def _further_outputs(
        self, kind: _Kind, tensors: str, separator: str | None, look_up: Callable[[str], int | None]
    ) -> tuple[tuple[int, ...], _Made | None]:
        """The nodes of inputs such as `a:1`, and what is made of those; None where some are not there."""
        nodes, parts = self._builder.graph.nodes, list(map(split_tensor_name, tensors.split(separator)))
        inputs = [look_up(name) for name, _ in parts]
        if None in inputs:
            return (), None
        found = tuple([i for i in inputs if i is not None])
        return found, kind.made.get((tuple([nodes[i].signature for i in found]), tuple([slot for _, slot in parts])))

    def take_example(self, text: str, entry: Any, position: int, indent: int) -> None:
        """Take an entry the long way, and learn from what becomes of it if it is not the first of its kind."""
        cut = _cut(text)
        kind = None if cut is None else self._kind_of(cut, indent)
        graph, problems = self._builder.graph, self._problems
        expected = len(graph) + 1, problems.said
        self._take(entry, position)
        if cut is not None and kind is not None and expected == (len(graph), problems.said):
            kind.learn(graph, cut)

    def _kind_of(self, cut: _Text, indent: int) -> _Kind | None:
        """The kind of an entry that is not its first; None where there is no such kind."""
        kinds, seen = self._kinds, self._seen
        if cut.kind not in kinds:
            if len(kinds) + len(seen) > _MAX_KINDS:
                kinds.clear()
                seen.clear()
            if cut.kind not in seen:
                seen.add(cut.kind)
                return None
            seen.remove(cut.kind)
            kinds[cut.kind] = _checked_kind(cut, indent)
        return kinds[cut.kind]


def _cut(text: str) -> _Text | None:
    """The kind of an entry, and the rest; None where its text does not seem to have a name."""
    found = _name_first(text)
    if found is None:
        return None
    head, name, middle, tensors, separator, number, tail = found.groups()
    turned = _cut_turned(text) if middle is None else None
    return turned or _Text((head, middle, separator, tail), name, tensors, number)


def _cut_turned(text: str) -> _Text | None:
    """The same where the inputs, or the value, stand before the name."""
    found = _name_last(text)
    if found is None:
        return None
    head, tensors, separator, number, middle, name, tail = found.groups()
    return _Text((head, middle, separator, tail), name, tensors, number, True)


def _checked_kind(cut: _Text, indent: int) -> _Kind | None:
    """A kind; None for one whose entries have name, inputs or value elsewhere than their texts seem to say.

    The parser reads an entry of it in which words that stand nowhere else take their places.
    """
    head, middle, separator, tail = cut.kind
    fixed = "".join(filter(None, cut.kind))
    name, *given = islice((word for word in map("x{}".format, count()) if word not in fixed), 3 if separator else 2)
    if middle is None:
        text = head + name + tail
    else:
        first, second = name, (separator or "").join(given)
        text = head + (second if cut.is_turned else first) + middle + (first if cut.is_turned else second) + tail
    entries = read_entries([text], [0], 0, indent)
    entry = None if entries is None else entries[0]
    if entry.__class__ is not Mapping or not entry.keys() <= _KEYS or entry.get("name") != name or "op" not in entry:
        return None
    if entry.get("inputs", []) != (given if cut.tensors is not None else []):
        return None
    if cut.number is not None and (entry["op"] != "Const" or entry.get("value") != given[0]):
        return None
    return _Kind(text, separator, entry)
