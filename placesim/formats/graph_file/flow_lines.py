"""Entries that stand one on a line, as `- {op: Add, name: b, inputs: [a, a]}`, in a fraction of the time that the parser takes.

A line without its scalars is its form, of which a file of a million lines has a handful; how a form becomes a mapping is worked
out once.  Any other line goes to the parser: alone where it is an entry by itself, else with all that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from placesim.errors import GraphFileError
from placesim.formats.graph_file.yaml_tree import (
    FIRST_POSITION,
    MAX_CACHED,
    Mapping,
    Sequence,
    packed,
    read_tree,
    resolve_plain,
)
from placesim.graph.graph import COLUMNS

_SCALAR = re.compile(r"""('[ -&(-~]*'|"[ !#-\[\]-~]*"|-?[A-Za-z0-9_./^][A-Za-z0-9_./^-]*(?::[A-Za-z0-9_][A-Za-z0-9_./^-]*)*)""")
"""Scalars that mean the same wherever they stand in a flow: no escapes, no indicators of YAML's."""
_PLACE = "_"
"""Stands in a form for a scalar: what is left of a line without its scalars has none."""
_CHUNK_LETTERS = 1 << 18
_FEWEST_LINES = 16
"""With fewer of them it is not worth while to begin the parser anew behind them."""
_MAX_FORMS = 1 << 12
_MAX_LINE = 1 << 10
"""A key may be so long; of a longer line nothing is known without looking at each."""
_MAX_DEPTH = 8
_NO_ENTRY = re.compile(r" *(?:#[ -~]*)?").fullmatch
_BREAKS = "\r\t\x85\u2028\u2029"
"""Line breaks of YAML's that are not ours, and what may not indent."""


class _Form(NamedTuple):
    """A line's form: its indentation, how many scalars and pairs it has, and what is nested in its mapping.

    Each of `nested`, in the order in which they open: where its first scalar stands, how many keys, values or entries it has
    itself, and whether it is a mapping.  `pairs` is -1 for what is no such line.
    """

    scalars: int
    indent: int = 0
    pairs: int = -1
    nested: tuple[tuple[int, int, bool], ...] = ()


class _Marks:
    """The marks of a collection in a line, which only errors ask for: the parser is asked for them then.

    `which` of the line's collections it is, in the order in which they open; the first is the entry.
    """

    __slots__ = ("_found", "_line", "_number", "_position", "_which")

    def __init__(self, position: int, line: str, number: int, which: int) -> None:
        self._position = position
        self._line = line
        self._number = number
        self._which = which
        self._found: Any = None

    def __getitem__(self, index: int) -> int:
        if not index and not self._which:
            return self._position
        if self._found is None:
            self._found = list(_collections(_read_alone(self._line, self._number)))[self._which].marks
        return int(self._found[index])


class _Scalars(dict[str, Any]):
    """What each scalar means, by its text as it stands."""

    def __missing__(self, text: str) -> Any:
        if len(self) > MAX_CACHED:
            self.clear()
        value = self[text] = text[1:-1] if text[0] in "'\"" else resolve_plain(text)
        return value


def take_lines(text: str, start: int, number: int) -> Iterator[tuple[list[Any], int, int]]:
    """The entries of a block sequence that begins at `start`, in the line of that `number` from 0, as far as they are lines.

    Gives some of them at a time, and behind them the start and the number of the line where the parser would go on: always that
    of an entry, so that the sequence does not end before it.
    """
    line_start = text.rfind("\n", 0, start) + 1
    indent = start - line_start
    if text[start : start + 3] != "- {" or text[line_start:start].strip(" "):
        return
    forms: dict[str, _Form] = {}
    recall = _Scalars().__getitem__
    last: Any = None  # what is in the line that `goes_on` names
    goes_on = (line_start, number)
    end = 0
    while end >= 0:
        end = text.find("\n", line_start + _CHUNK_LETTERS)
        chunk = text[line_start : len(text) if end < 0 else end]
        if any(letter in chunk for letter in _BREAKS) or (last is None and not _has_many(chunk, forms, indent)):
            return
        parts = _SCALAR.split(chunk)
        scalars = list(map(recall, parts[1::2]))
        first = 0
        entries: list[Any] = []
        for line, skeleton in zip(chunk.split("\n"), _PLACE.join(parts[::2]).split("\n"), strict=True):
            form = forms.get(skeleton) or _learn(forms, skeleton)
            after = first + form.scalars
            entry = None
            if form.pairs >= 0 and form.indent == indent and len(line) <= _MAX_LINE:
                entry = _entry(form, scalars[first:after], line, number)
            is_entry = entry is not None or not _NO_ENTRY(line)
            if is_entry and entry is None:
                entry = _odd_entry(line, number, indent)
            if is_entry:
                if entry is None:
                    yield entries, *goes_on
                    return
                if last is not None:
                    entries.append(last)
                last, goes_on = entry, (line_start, number)
            first = after
            line_start += len(line) + 1
            number += 1
        yield entries, *goes_on


def _has_many(chunk: str, forms: dict[str, _Form], indent: int) -> bool:
    """Whether the first lines are of that kind."""
    lines = chunk[: _FEWEST_LINES * _MAX_LINE].split("\n")[:_FEWEST_LINES]
    found = (forms.get(skeleton) or _learn(forms, skeleton) for skeleton in (_SCALAR.sub(_PLACE, line) for line in lines))
    return len(lines) == _FEWEST_LINES and sum(form.pairs >= 0 and form.indent == indent for form in found) > len(lines) // 2


def _entry(form: _Form, values: list[Any], line: str, number: int) -> Mapping | None:
    """The mapping of a line; None where a key is there twice."""
    for which in range(len(form.nested) - 1, -1, -1):  # what opens last holds nothing that is not made yet
        start, count, is_map = form.nested[which]
        held = values[start : start + count]
        inner: Any = Mapping(zip(held[::2], held[1::2], strict=True)) if is_map else Sequence(held)
        if is_map and 2 * len(inner) < count:
            return None
        inner.marks = _Marks(0, line, number, which + 1)
        values[start : start + count] = (inner,)
    entry = Mapping(zip(values[::2], values[1::2], strict=True))
    if len(entry) < form.pairs:
        return None
    entry.marks = _Marks(number * COLUMNS + form.indent + 2 + FIRST_POSITION, line, number, 0)
    return entry


def _odd_entry(line: str, number: int, indent: int) -> Any:
    """What the parser makes of a line that is an entry by itself; None for any other."""
    if not line.startswith(" " * indent + "- {") or not line.rstrip(" ").endswith("}") or "&" in line:
        return None
    try:
        return _read_alone(line, number)
    except GraphFileError:
        return None  # the parser will say so in its place


def _read_alone(line: str, number: int) -> Any:
    """The entry of a line, by the parser; its marks are those of the line in its file."""
    (entry,) = read_tree(f"nodes:\n{line}", "")["nodes"]
    for tree in _collections(entry):
        tree.marks = [packed(mark) + (number - 1) * COLUMNS for mark in tree.marks]
    return entry


def _collections(tree: Any) -> Iterator[Any]:
    """A collection and all that it holds, in the order in which they open."""
    yield tree
    for value in tree.values() if tree.__class__ is Mapping else tree:
        if value.__class__ is Mapping or value.__class__ is Sequence:
            yield from _collections(value)


# --- forms ----------------------------------------------------------------------------------------------------------


def _learn(forms: dict[str, _Form], skeleton: str) -> _Form:
    if len(forms) >= _MAX_FORMS:
        forms.clear()
    form = forms[skeleton] = _form(skeleton)
    return form


def _form(skeleton: str) -> _Form:
    """The form of a line, given without its scalars."""
    scalars = skeleton.count(_PLACE)
    rest = skeleton.lstrip(" ")
    if not rest.startswith("- {"):
        return _Form(scalars)
    nested: list[tuple[int, int, bool]] = []
    try:
        end, _ = _collection(rest, 2, 0, nested, 0)
    except (IndexError, ValueError):
        return _Form(scalars)
    if rest[end:].strip(" "):
        return _Form(scalars)
    (_, count, _), *inner = nested
    return _Form(scalars, len(skeleton) - len(rest), count // 2, tuple(inner))


def _collection(text: str, position: int, scalar: int, found: list[tuple[int, int, bool]], depth: int) -> tuple[int, int]:
    """Note the collection that opens at a position, and what is in it; `scalar` is the number of its first scalar.

    Returns the position and the number of the scalar behind it.  Raises ValueError or IndexError where it is none that we know.
    """
    is_map, which, first, count = text[position] == "{", len(found), scalar, 0
    found.append((first, 0, is_map))
    closing = "}" if is_map else "]"
    position = _skip(text, position + 1)
    while text[position] != closing:
        if is_map:
            if text[position : position + 3] != f"{_PLACE}: ":
                raise ValueError(text)
            position, scalar, count = _skip(text, position + 3), scalar + 1, count + 1
        if text[position] in "[{":
            if depth >= _MAX_DEPTH:
                raise ValueError(text)
            position, scalar = _collection(text, position, scalar, found, depth + 1)
        elif text[position] == _PLACE:
            position, scalar = position + 1, scalar + 1
        else:
            raise ValueError(text)
        count += 1
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
            if text[position] == closing:
                raise ValueError(text)
        elif text[position] != closing:
            raise ValueError(text)
    found[which] = (first, count, is_map)
    return position + 1, scalar


def _skip(text: str, position: int) -> int:
    while text[position] == " ":
        position += 1
    return position
