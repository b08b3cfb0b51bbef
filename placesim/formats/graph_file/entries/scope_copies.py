"""Replacement of `{i}` in the entries of a repeated scope by the number of the copy, counted from 0."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from placesim.formats.graph_file.parsing.yaml_tree import Mapping, Sequence

_NUMBER = re.compile(r"\{\{i\}\}|\{i\}")
_ALONE = "{i}"
_UNQUOTED = {"i": None}
"""The value of an unquoted `{i}` in YAML."""
_NAMING_KEYS = frozenset(("op", "name", "id", "scope", "variable", "initializer", "device", "colocate_with", "control_inputs"))
"""Keys in whose values `{i}` becomes a text; elsewhere it becomes a number."""


def numbered_scope(entry: dict[Any, Any], number: int) -> dict[Any, Any]:
    """Return copy `number` of a repeated scope; the same object if it contains no `{i}`.

    A repeated scope inside keeps its own `{i}`, except in its list of devices.
    """
    return _Numbering(number).mapping(entry, [key for key in entry if key != "device"])


class _Numbering:
    """A replacement of `{i}` by one number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def mapping(self, tree: dict[Any, Any], keys: Iterable[Any]) -> dict[Any, Any]:
        """Return a copy with the number filled into the values of these keys."""
        found = {key: self._of(tree[key], key in _NAMING_KEYS) for key in keys}
        if all(new is tree[key] for key, new in found.items()):
            return tree
        changed: dict[Any, Any] = _marked(Mapping({**tree, **found}), tree)
        return changed

    def _of(self, tree: Any, names: bool = False) -> Any:
        """Return a copy with the number filled in; with `names`, a lone `{i}` becomes a text."""
        if tree.__class__ is str:
            return self._text(tree, names) if "{i}" in tree else tree
        if isinstance(tree, dict):
            if tree == _UNQUOTED:
                return self._text(_ALONE, names)
            return self.mapping(tree, ("device",) if _is_repeated(tree) else tree)
        if isinstance(tree, list | tuple):
            found = [self._of(entry, names) for entry in tree]
            if all(new is old for new, old in zip(found, tree, strict=True)):
                return tree
            return _marked(Sequence(found), tree)
        return tree

    def _text(self, text: str, names: bool) -> str | int:
        if text == _ALONE and not names:
            return self._number
        return _NUMBER.sub(lambda match: _ALONE if len(match[0]) > len(_ALONE) else str(self._number), text)


def _is_repeated(entry: dict[Any, Any]) -> bool:
    return "nodes" in entry and isinstance(entry.get("device"), list | tuple)


def _marked(tree: Any, original: Any) -> Any:
    """Return a copy with the positions of `original`; a plain dict or list if `original` was made in Python and has none."""
    if hasattr(original, "marks"):
        tree.marks = original.marks
        return tree
    return dict(tree) if isinstance(tree, dict) else list(tree)
