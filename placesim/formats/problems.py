"""Problems of a file, collected so that all of them are reported together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from placesim.core.errors import GraphFileError, Location, PlacesimError, Problem, UsageError
from placesim.core.escaping import escape_line
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.parsing.yaml_tree import key_position, own_position, value_position
from placesim.graph.graph import COLUMNS

WRONG: Any = object()
"""Marker of an invalid value that has been reported."""
ACYCLIC = "expected no cycle, except from a NextIteration to a Merge"
"""End of the message about a cycle of nodes."""
_MAX_SEARCHES = 50
_MAX_MESSAGE_CHARACTERS = 20_000


class InvalidValue(Exception):  # it never leaves the readers, which make it a Problem
    """An invalid value. The message lacks only the location."""


class FileProblems:
    """The problems of one file so far. Reading ends at `most` problems. At most `searches` suggestions are searched."""

    def __init__(self, file: str, most: int | None = None, searches: int = _MAX_SEARCHES) -> None:
        self.file = file
        self._most = most
        self._searches = searches
        self._found: list[tuple[int, Problem]] = []
        self._suggested: dict[Any, str] = {}
        self._doubts: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, position: int, message: str, error: str = "") -> None:
        """Report a problem at a packed position (`yaml_tree.pack_mark`). Raises GraphFileError if there are too many."""
        self._append(position, self.location(position), message, error)

    def _append(self, position: int, location: Location, message: str, error: str) -> None:
        self._found.append((position, Problem(location, shorten_message(message), error)))
        if self._most is not None and len(self._found) >= self._most:
            self.raise_if_any()

    def add_error(self, position: int, error: PlacesimError) -> None:
        """Report an error of the graph builder with the error's TensorFlow type, and at the error's own place if it has one.

        Raises GraphFileError like `add`.
        """
        self._append(position, error.location or self.location(position), error.message, error.type_name)

    def doubt(self, position: int, message: str) -> None:
        """Warn about something valid but probably unintended."""
        self._doubts.append(f"{self.location(position)}: {shorten_message(message)}")

    @property
    def said(self) -> int:
        """Return the number of problems and warnings so far."""
        return len(self._found) + len(self._doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the warnings in order of discovery."""
        return tuple(dict.fromkeys(self._doubts))

    def location(self, position: int) -> Location:
        """Return the line and column of a packed position."""
        return Location(self.file, *divmod(position, COLUMNS))

    def raise_if_any(self) -> None:
        """Raise GraphFileError with all problems in file order, if there are any."""
        if self._found:
            self._found.sort(key=lambda found: found[0])
            raise GraphFileError(tuple(dict.fromkeys(problem for _, problem in self._found)))

    def raise_usage_error(self) -> None:
        """Raise UsageError with the messages of all problems, without locations, if there are any."""
        try:
            self.raise_if_any()
        except GraphFileError as error:
            raise UsageError("; ".join(problem.message for problem in error.problems)) from None

    def did_you_mean(self, word: Any, words: Iterable[str]) -> str:
        """Return a suggestion like the function `did_you_mean`; empty after the last allowed search."""
        return self._suggest(word, word, words)

    def _suggest(self, key: Any, word: Any, words: Iterable[str]) -> str:
        """Return the suggestion for a word, cached under a key."""
        if key not in self._suggested:
            if len(self._suggested) >= self._searches:
                return ""
            self._suggested[key] = did_you_mean(word, words)
        return self._suggested[key]

    def unknown_keys(self, tree: dict[Any, Any], known: Collection[str], where: str) -> bool:
        """Report unknown keys of a mapping. Returns whether there are any."""
        unknown = [key for key in tree if key not in known]
        for key in unknown:
            message = f"unknown key in {where}: got '{escape_line(str(key))}', expected {one_of(known)}"
            self.add(key_position(tree, key), message + self._suggest((where, key), key, known))
        return bool(unknown)

    def read(self, tree: dict[Any, Any], key: str, read: Callable[[Any], Any], default: Any) -> Any:
        """Return the value of a key, converted by `read`; `default` if the key is missing.

        If `read` raises InvalidValue, reports the problem and returns WRONG.
        """
        if key not in tree:
            return default
        try:
            return read(tree[key])
        except InvalidValue as wrong:
            self.add(value_position(tree, key), str(wrong))
            return WRONG

    def read_or_default(self, tree: dict[Any, Any], key: str, read: Callable[[Any], Any], default: Any) -> Any:
        """Return the value of a key like `read`, but `default` for an invalid value too."""
        found = self.read(tree, key, read, default)
        return default if found is WRONG else found

    def mapping(self, tree: Any, position: int, what: str) -> dict[Any, Any]:
        """Return the tree if it is a mapping; else report a problem, and return an empty mapping."""
        if isinstance(tree, dict):
            return tree
        self.add(position, f"wrong type of {what}: got {spell(tree)}, expected a mapping")
        return {}

    def mapping_at(self, tree: Any, key: str) -> dict[Any, Any]:
        """Return the mapping under a key of a mapping; if it is none, report a problem, and return an empty mapping."""
        value = tree[key]
        return value if isinstance(value, dict) else self.mapping(value, value_position(tree, key), f"'{key}'")

    def sequence(self, tree: Any, position: int, what: str) -> list[Any]:
        """Return the tree if it is a list; else report a problem, and return an empty list."""
        if isinstance(tree, list | tuple):
            return tree  # type: ignore[return-value]
        self.add(position, f"wrong type of {what}: got {spell(tree)}, expected a list")
        return []

    def sequence_at(self, tree: Any, key: str) -> list[Any]:
        """Return the list under a key of a mapping; if it is none, report a problem, and return an empty list."""
        value = tree[key]
        return value if isinstance(value, list) else self.sequence(value, value_position(tree, key), f"'{key}'")


def one_of(words: Iterable[str]) -> str:
    """Join words as `a, b or c`; no words give `none`."""
    listed = list(words) or ["none"]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} or {listed[-1]}"


def part_position(tree: Any, *path: Any) -> int:
    """Return the position of the value at a path of keys; if a key is missing, that of the innermost part that exists."""
    position = own_position(tree)
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            break
        position = value_position(tree, key)
        tree = tree[key]
    return position


def shorten_message(message: str) -> str:
    """Cut the middle of a message that contains an extremely long name."""
    if len(message) <= _MAX_MESSAGE_CHARACTERS:
        return message
    half = _MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]}...{message[-half:]}"


def spell(value: Any) -> str:
    """Return a value as messages show it: `'text'`, `3`, `a list`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{escape_line(value if len(value) <= 80 else f'{value[:77]}...')}'"
    if isinstance(value, int | float):
        return str(value) if not isinstance(value, int) or value.bit_length() < 1000 else "a very large number"
    return (
        "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
    )


__all__ = ["WRONG", "FileProblems", "InvalidValue", "key_position", "one_of", "own_position", "spell", "value_position"]
