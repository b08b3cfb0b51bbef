"""Fast parsing of an entry on one line, such as `{op: Add, name: b, inputs: [a, a]}`, and of a scope with such entries.

The form of a line is its text without scalars. A file with a million lines has only a few forms. The parser reads one line of
each form; the trees of other lines follow from it.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, NamedTuple

from placesim.formats.graph_file.parsing.entry_trees import collections, read_entries
from placesim.formats.graph_file.parsing.yaml_tree import (
    FIRST_POSITION,
    MAX_CACHED,
    MAX_DEPTH,
    Mapping,
    Sequence,
    resolve_plain,
)
from placesim.graph.graph import COLUMNS

_SCALAR = re.compile(
    r"""('[ -&(-~]*'|"[ !#-\[\]-~]*"|-?[A-Za-z0-9_./^][A-Za-z0-9_./^+=-]*(?::[A-Za-z0-9_][A-Za-z0-9_./^+=-]*)*)"""
)
"""Scalars that mean the same anywhere in a flow collection: without escapes and YAML indicators."""
_PLACE = "_"
"""Placeholder of a scalar in a line's form; the rest of a line never contains it."""
_is_flow = re.compile(rf"\{{[\[\]{{}}:, {_PLACE}]*\}} *").fullmatch
_pair = re.compile(rf"([a-z_]+): {_SCALAR.pattern}").fullmatch
_NODES = "nodes:\n"
_MAX_FORMS = 1 << 12
_MAX_LINE = 1 << 10
"""Maximum length of a line; longer lines are left to the parser, because a key has a limited length."""


class _Form(NamedTuple):
    """The form of a line. `pairs` is the number of pairs in its mapping; -1 if only the parser can read the line.

    `nested` has the nested collections in the order in which they open. Each has the index of its first scalar, its number of
    direct keys, values and entries, and whether it is a mapping.
    """

    pairs: int = -1
    nested: tuple[tuple[int, int, bool], ...] = ()


class _Marks:
    """The positions in a collection of a line. The parser computes them when an error needs them.

    `which` is the index of the collection among those of the line, in the order in which they open; 0 is the entry.
    """

    __slots__ = ("_found", "_indent", "_number", "_text", "_which")

    def __init__(self, text: str, number: int, indent: int, which: int) -> None:
        self._text = text
        self._number = number
        self._indent = indent
        self._which = which
        self._found: Any = None

    def __getitem__(self, index: int) -> int:
        if not index and not self._which:
            return self._number * COLUMNS + self._indent + 2 + FIRST_POSITION
        if self._found is None:
            entries = read_entries([self._text], [0], self._number, self._indent)
            assert entries is not None, "the parser reads a line whose form it has read"
            self._found = list(collections(entries[0]))[self._which].marks
        return int(self._found[index])


class _Scalars(dict[str, Any]):
    """The values of scalars, by their text in the file."""

    def __missing__(self, text: str) -> Any:
        if len(self) > MAX_CACHED:
            self.clear()
        value = self[text] = text[1:-1] if text[0] in "'\"" else resolve_plain(text)
        return value


class FlowLines:
    """A reader of the lines of a sequence whose dashes are at column `indent`, within `depth` collections."""

    def __init__(self, indent: int, depth: int = 2) -> None:
        self._indent = indent
        self._depth = depth
        self._forms: dict[str, _Form] = {}
        self._recall = _Scalars().__getitem__
        self._inner: dict[int, FlowLines] = {}

    def is_known(self, text: str) -> bool:
        """Whether `read` can probably read a text without its `- `."""
        return self._form(_SCALAR.split(text)).pairs >= 0

    def read(self, text: str, number: int) -> Mapping | None:
        """Return the entry that begins in a line (from 0), without its `- `; None if only the parser can read it."""
        if _NODES in text:
            return self._read_scope(text, number)
        parts = _SCALAR.split(text) if len(text) <= _MAX_LINE else []
        form = self._form(parts)
        if form.pairs < 0 or self._depth + len(form.nested) >= MAX_DEPTH:
            return None
        values = list(map(self._recall, parts[1::2]))
        for which in range(len(form.nested) - 1, -1, -1):  # inner collections are made before outer ones
            start, count, is_map = form.nested[which]
            held = values[start : start + count]
            inner: Any = Mapping(zip(held[::2], held[1::2], strict=True)) if is_map else Sequence(held)
            if is_map and 2 * len(inner) < count:
                return None
            inner.marks = _Marks(text, number, self._indent, which + 1)
            values[start : start + count] = (inner,)
        entry = Mapping(zip(values[::2], values[1::2], strict=True))
        if len(entry) < form.pairs:
            return None
        entry.marks = _Marks(text, number, self._indent, 0)
        return entry

    def _read_scope(self, text: str, number: int) -> Mapping | None:
        """Return an entry whose keys have a line each, the last of which is `nodes`; None if only the parser can read it."""
        column = self._indent + 2
        head, _, body = text.partition(_NODES)
        *lines, end = head.split("\n" + " " * column)
        pairs = list(map(_pair, lines))
        indent = len(body) - len(body.lstrip(" "))
        if end or None in pairs or indent < column or body[indent : indent + 2] != "- ":
            return None
        scope = Mapping()
        marks = scope.marks = [_position(number, column)]
        for line, pair in enumerate(pairs, number):
            assert pair is not None
            scope[self._recall(pair[1])] = self._recall(pair[2])
            marks += (_position(line, column), _position(line, column + pair.start(2)))
        line = number + len(pairs)
        marks.append(_position(line, column))
        nodes = self._read_nodes(body, line + 1, indent)
        scope["nodes"] = nodes
        if nodes is None or len(scope) <= len(pairs):
            return None
        marks.append(nodes.marks[0])
        return scope

    def _read_nodes(self, body: str, number: int, indent: int) -> Sequence | None:
        """Return the sequence that begins in a line (from 0) with its dashes at column `indent`; None if it is refused."""
        inner = self._inner.get(indent)
        if inner is None:
            inner = self._inner[indent] = FlowLines(indent, self._depth + 2)
            inner._forms, inner._recall = self._forms, self._recall
        nodes = Sequence()
        nodes.marks = [_position(number, indent)]
        for text in body[indent + 2 :].split("\n" + " " * indent + "- "):
            entry: Any = inner.read(text, number)
            mark = _position(number, indent + 2)
            if entry is None:
                entries = read_entries([text], [0], number, indent)
                if entries is None or inner._depth + _height(entries[0]) > MAX_DEPTH:
                    return None
                entry, mark = entries[0], entries.marks[1]
            nodes.append(entry)
            nodes.marks.append(mark)
            number += text.count("\n") + 1
        return nodes

    def _form(self, parts: list[str]) -> _Form:
        skeleton = _PLACE.join(parts[::2])
        found = self._forms.get(skeleton)
        if found is None:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            found = self._forms[skeleton] = _form(skeleton)
        return found


def _position(line: int, column: int) -> int:
    return line * COLUMNS + column + FIRST_POSITION


def _height(tree: Any) -> int:
    """Return the number of collections around the innermost scalar of a tree."""
    if tree.__class__ is not Mapping and tree.__class__ is not Sequence:
        return 0
    return 1 + max(map(_height, tree.values() if tree.__class__ is Mapping else tree), default=0)


def _form(skeleton: str) -> _Form:
    """Return the form of a line from its text without scalars. The parser reads the text with numbered scalars."""
    if not _is_flow(skeleton):
        return _Form()
    texts = skeleton.split(_PLACE)
    numbered = "".join(chain.from_iterable((text, f"s{number}") for number, text in enumerate(texts[:-1]))) + texts[-1]
    entries = read_entries([numbered], [0], 0, 0)
    nested: list[tuple[int, int, bool]] = []
    if entries is None or _scalars(entries[0], 0, nested) != len(texts) - 1:
        return _Form()
    (_, count, _), *inner = nested
    return _Form(count // 2, tuple(inner))


def _scalars(tree: Any, scalar: int, found: list[tuple[int, int, bool]]) -> int:
    """Add a collection and those in it to `found`, as in `_Form.nested`. Its first scalar has the index `scalar`.

    Returns the index after its last scalar; -1 if the scalars are not in order.
    """
    is_map, which, first, count = tree.__class__ is Mapping, len(found), scalar, 0
    found.append((first, 0, is_map))
    for value in chain.from_iterable(tree.items()) if is_map else tree:
        if value.__class__ is Mapping or value.__class__ is Sequence:
            scalar = _scalars(value, scalar, found)
        else:
            scalar = scalar + 1 if value == f"s{scalar}" else -1
        if scalar < 0:
            return -1
        count += 1
    found[which] = (first, count, is_map)
    return scalar
