"""Problems of a file, collected so that all of them are reported together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from placesim.core.errors import GraphFileError, Location, PlacesimError, Problem
from placesim.core.escaping import escape_line
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.parsing.yaml_tree import key_position, own_position, value_position
from placesim.graph.graph import COLUMNS

WRONG: Any = object()
"""Marks an invalid value that has been reported."""
_MAX_SEARCHES = 50
_MAX_MESSAGE_CHARACTERS = 20_000


class InvalidValue(Exception):  # never seen outside: it becomes a Problem
    """An invalid value; the message lacks only the place."""


class FileProblems:
    """The problems of one file so far; a file with `most` of them is not read to its end.

    Only the first `searches` unknown words of a file are worth looking for a word that was meant.
    """

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
        """Report a problem at `position` (from `yaml_tree.packed`).  Raises GraphFileError if there are too many."""
        self._found.append((position, Problem(self.location(position), shorten_message(message), error)))
        if self._most is not None and len(self._found) >= self._most:
            self.raise_if_any()

    def add_error(self, position: int, error: PlacesimError) -> None:
        """Report a rejection by TensorFlow, or by the builder in its place. Raises as `add`."""
        self.add(position, error.message, error.type_name)

    def doubt(self, position: int, message: str) -> None:
        """Warn about something valid but probably unintended."""
        self._doubts.append(f"{self.location(position)}: {shorten_message(message)}")

    @property
    def said(self) -> int:
        """Number of problems and doubts so far."""
        return len(self._found) + len(self._doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Warnings in order of discovery."""
        return tuple(dict.fromkeys(self._doubts))

    def location(self, position: int) -> Location:
        """A packed position as line and column of the file."""
        return Location(self.file, *divmod(position, COLUMNS))

    def raise_if_any(self) -> None:
        """Raises GraphFileError with all of them in file order."""
        if self._found:
            self._found.sort(key=lambda found: found[0])
            raise GraphFileError(tuple(dict.fromkeys(problem for _, problem in self._found)))

    def did_you_mean(self, word: Any, words: Iterable[str]) -> str:
        """Like the function, with a limited number of searches over many words."""
        return self._suggest(word, word, words)

    def _suggest(self, asked: Any, word: Any, words: Iterable[str]) -> str:
        """Suggestion for a word, cached."""
        if asked not in self._suggested:
            if len(self._suggested) >= self._searches:
                return ""
            self._suggested[asked] = did_you_mean(word, words)
        return self._suggested[asked]

    def unknown_keys(self, tree: dict[Any, Any], known: Collection[str], where: str) -> bool:
        """Report the keys of a mapping that mean nothing there."""
        unknown = [key for key in tree if key not in known]
        for key in unknown:
            message = f"unknown key in {where}: got '{escape_line(str(key))}', expected {one_of(known)}"
            self.add(key_position(tree, key), message + self._suggest((where, key), key, known))
        return bool(unknown)

    def read(self, tree: dict[Any, Any], key: str, read: Callable[[Any], Any], default: Any) -> Any:
        """Value of a key as converted by `read`; WRONG, and a problem, if that raises InvalidValue."""
        if key not in tree:
            return default
        try:
            return read(tree[key])
        except InvalidValue as wrong:
            self.add(value_position(tree, key), str(wrong))
            return WRONG

    def mapping(self, tree: Any, position: int, what: str) -> dict[Any, Any]:
        """The tree if it is a mapping; else an empty one, with a problem reported."""
        if isinstance(tree, dict):
            return tree
        self.add(position, f"wrong type of {what}: got {spell(tree)}, expected a mapping")
        return {}

    def sequence(self, tree: Any, position: int, what: str) -> list[Any]:
        """The tree if it is a list; else an empty one, with a problem reported."""
        if isinstance(tree, list | tuple):
            return tree  # type: ignore[return-value]
        self.add(position, f"wrong type of {what}: got {spell(tree)}, expected a list")
        return []


def one_of(words: Iterable[str]) -> str:
    """`a, b or c`; `none` for no words."""
    listed = list(words) or ["none"]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} or {listed[-1]}"


def part_position(tree: Any, *path: Any) -> int:
    """Position of a part of an entry, by its keys; of a missing part, the position of the surrounding one."""
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
    """A value of a file as a message names it."""
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
