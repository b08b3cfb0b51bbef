"""Kinds of entries. Entries of one kind have equal texts, except for name, inputs and value.

The second entry of a kind shows where these three parts seem to be, and the parser verifies it. Later entries of the kind are
recognized by comparing texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count, islice
from typing import Any, NamedTuple

from placesim.formats.graph_file.parsing.entry_trees import read_entries
from placesim.formats.graph_file.parsing.yaml_tree import EXPONENT, Mapping, own_position, resolve_plain
from placesim.formats.graph_file.plain_values import constant_value
from placesim.graph.graph import COLUMNS, Graph, Signature
from placesim.ops.attributes import Attrs, TensorValue

_NAME = "[A-Za-z][A-Za-z0-9_./-]*(?<![./-])"
"""Names that mean the same with and without quotes, also at the end of a line, and that contain no scope."""
is_plain_name = re.compile(_NAME).fullmatch
_QUOTE = "['\"]?"
_TENSOR = f"{_NAME}(?::[0-9]+)?"
_TENSORS = rf"({_TENSOR}(?:({_QUOTE}(?:,[ \n] *|\n *- ){_QUOTE}){_TENSOR}(?:\SEPARATOR{_TENSOR})*)?)"
_NUMBER = rf"([-+]?[0-9]+(?:\.[0-9]*)?(?:{EXPONENT})?)"
_NAMED = rf"(.*?)(\bname{_QUOTE}: {_QUOTE})"
_GIVEN = rf"(.*?)(\b(?:inputs{_QUOTE}:(?: \[|\n *- ){_QUOTE}|value{_QUOTE}: ))(?:{_TENSORS}|{_NUMBER})"
_name_first = re.compile(f"{_NAMED}({_NAME})(?:{_GIVEN})?(.*)".replace("SEPARATOR", "7"), re.DOTALL).fullmatch
_name_last = re.compile(f"{_GIVEN}{_NAMED}({_NAME})(.*)".replace("SEPARATOR", "4"), re.DOTALL).fullmatch
_MAX_KINDS = 1 << 12
_MAX_COMPARED = 16
"""Maximum number of kinds with the same beginning that are compared with an entry; further kinds are looked up by the parts."""
_KEYS = {"op", "name", "inputs", "device", "attrs", "value", "dtype", "shape"}
"""Keys of plain entries. An entry with other keys binds names, or depends on more than its text and its inputs' types."""
_NOTHING = "\0"
"""Separator between a name and a missing part; YAML can't contain it."""


class _SharedText(NamedTuple):
    """The text that all entries of a kind share, around two parts: the name, and the content (inputs or a value).

    A whole text is `before`, `opening`, the first part, `between`, the second part, `after`. `separator` divides the inputs.
    `gives_tensors` says that the content is inputs.
    """

    before: str
    opening: str
    between: str
    separator: str | None
    after: str
    is_name_first: bool
    gives_tensors: bool


class NodeTemplate(NamedTuple):
    """The common part of the nodes of a kind with inputs of the same types."""

    signature: Signature
    attrs: Attrs
    device: str
    slots: tuple[int, ...]


class EntryKind:
    """The entries of one kind.

    `lines` is the packed number of lines of an entry, 0 if the number varies. `offset` is the packed position of the mapping
    in the entry. `made` has the templates, by the signatures of inputs (and their slots, if one is not 0) or by a constant's
    type. `fits` matches a valid content. `fits_plain` is enough if all nodes have plain names, because inputs are looked up
    anyway.
    """

    __slots__ = ("constant", "fits", "fits_plain", "lines", "made", "offset", "parts")

    def __init__(self, parts: _SharedText, text: str, entry: Mapping) -> None:
        self.parts = parts
        separator = parts.separator
        self.lines = 0 if "\n" in (separator or "") else (text.count("\n") + 1) * COLUMNS
        self.offset = own_position(entry)
        self.constant = (entry.get("value"), entry.get("dtype"), entry.get("shape")) if entry["op"] == "Const" else None
        self.made: dict[Any, NodeTemplate] = {}
        more = "" if separator is None else f"(?:{re.escape(separator)}{_TENSOR})*"
        given = _TENSOR + more if parts.gives_tensors else "" if parts.between == _NOTHING else _NUMBER
        self.fits: Callable[[str], Any] = re.compile(given).fullmatch
        self.fits_plain = self.fits if separator is None and given else None

    def learn(self, graph: Graph, name: str) -> None:
        """Record the common parts of the last node, if the entry of this name made it."""
        node = graph.nodes[-1]
        signature, attrs = node.signature, node.attrs
        if node.name != name or node.control_inputs or True in signature.input_is_ref:
            return
        made = NodeTemplate(signature, attrs, node.device, node.input_slots)
        if self.constant is not None:
            if list(attrs) == ["dtype", "value"]:
                self.made[attrs["dtype"]] = made
        elif not any(isinstance(value, TensorValue) for value in attrs.values()):
            types = tuple([graph.nodes[i].signature for i in node.input_nodes])
            self.made[(types, node.input_slots) if any(node.input_slots) else types] = made

    def content(self, text: str) -> Any:
        """Return the content of an entry from its text: the texts of inputs, or a constant's number, None if it has none."""
        if self.constant is None:
            return text.split(self.parts.separator) if text else ()
        return resolve_plain(text) if text else None

    def tensor(self, number: Any) -> TensorValue:
        """Return the value of a constant with this content. Raises InvalidValue."""
        value, dtype, shape = self.constant or (None, None, None)
        return constant_value(value if number is None else number, dtype, shape)


class EntryKinds:
    """The kinds of the entries of one sequence."""

    def __init__(self) -> None:
        self._seen: set[_SharedText] = set()
        self._checked: dict[_SharedText, EntryKind | None] = {}
        self._known: dict[str, dict[str, list[EntryKind]]] = {}
        """Kinds for comparison with texts, by opening and preceding text."""
        self._is_crowded = False

    def all(self) -> list[EntryKind]:
        """Return all kinds."""
        return [kind for kind in self._checked.values() if kind is not None]

    def find(self, text: str, has_plain_names: bool = False) -> tuple[EntryKind, str, str] | None:
        """Return the kind, name and content of an entry's text; None if the kind is unknown.

        With `has_plain_names`, all nodes have plain names, and the text of inputs is not checked.
        """
        for opening, kinds in self._known.items():
            before, _, rest = text.partition(opening)
            for kind in kinds.get(before, ()):
                _, _, between, _, after, is_name_first, _ = kind.parts
                if rest.endswith(after):
                    name, _, given = rest.removesuffix(after).partition(between)
                    if not is_name_first:
                        name, given = given, name
                    fits = kind.fits_plain if has_plain_names else kind.fits
                    if is_plain_name(name) and (fits is None or fits(given)):
                        return kind, name, given
        cut = _cut(text) if self._is_crowded else None
        found = None if cut is None else self._checked.get(cut[0])
        return None if cut is None or found is None else (found, *cut[1:])

    def learn(self, text: str, indent: int) -> tuple[EntryKind, str] | None:
        """Return the kind and name of an entry; None if no entry of its kind came before. `indent` is its dash's column."""
        cut = _cut(text)
        if cut is None:
            return None
        parts, name, _ = cut
        if parts not in self._checked:
            if len(self._checked) + len(self._seen) > _MAX_KINDS:
                for kept in (self._checked, self._seen, self._known):
                    kept.clear()
            if parts not in self._seen:
                self._seen.add(parts)
                return None
            self._seen.remove(parts)
            kind = self._checked[parts] = _checked_kind(parts, indent)
            if kind is not None:
                alike = self._known.setdefault(parts.opening, {}).setdefault(parts.before, [])
                if len(alike) < _MAX_COMPARED:
                    alike.append(kind)
                else:
                    self._is_crowded = True
                alike.sort(key=lambda kind: -len(kind.parts.after))  # of several kinds that fit, the longest ending is right
        kind = self._checked[parts]
        return None if kind is None else (kind, name)


def _cut(text: str) -> tuple[_SharedText, str, str] | None:
    """Return the common text of an entry's apparent kind, its name, and its content; None if it seems to have no name."""
    found = _name_first(text)
    if found is None:
        return None
    before, opening, name, middle, given, tensors, separator, number, after = found.groups()
    if middle is not None:
        shared = _SharedText(before, opening, middle + given, separator, after, True, tensors is not None)
        return shared, name, tensors or number
    found = _name_last(text) if "inputs" in before or "value" in before else None
    if found is None:
        return _SharedText(before, opening, _NOTHING, None, after, True, False), name, ""
    before, opening, tensors, separator, number, middle, named, name, after = found.groups()
    return _SharedText(before, opening, middle + named, separator, after, False, tensors is not None), name, tensors or number


def _checked_kind(parts: _SharedText, indent: int) -> EntryKind | None:
    """Return a kind; None if the parser finds the name or the content elsewhere.

    The parser reads an entry of the kind in which unique words replace these parts.
    """
    before, opening, between, separator, after, is_name_first, gives_tensors = parts
    is_alone = between == _NOTHING
    fixed = before + opening + between + (separator or "") + after
    new_words = (word for word in map("x{}".format, count()) if word not in fixed)
    name, *given = islice(new_words, 1 if is_alone else 2 if separator is None else 3)
    both = [name, (separator or "").join(given)]
    first, second = both if is_name_first else both[::-1]
    text = before + opening + first + ("" if is_alone else between + second) + after
    entries = read_entries([text], [0], 0, indent)
    entry = None if entries is None else entries[0]
    if entry.__class__ is not Mapping or not entry.keys() <= _KEYS or entry.get("name") != name or "op" not in entry:
        return None
    if entry.get("inputs", []) != (given if gives_tensors else []):
        return None
    if not (gives_tensors or is_alone) and (entry["op"] != "Const" or entry.get("value") != given[0]):
        return None
    return EntryKind(parts, text, entry)
