"""Reader of a block sequence, whose text is split into its entries, so that most entries need no parser.

An entry like one before it becomes a node directly (`entry_templates`). A line in a known form becomes a tree
(`flow_mappings`). The parser reads the other entries, several at once (`entry_trees`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from placesim.core.process.ahead import can_compute_ahead, computed_ahead
from placesim.formats.graph_file.parsing.entry_templates import AlikeEntries
from placesim.formats.graph_file.parsing.entry_trees import read_entries
from placesim.formats.graph_file.parsing.flow_mappings import FlowLines

_FIRST_LETTERS, _CHUNK_LETTERS = 1 << 14, 1 << 18
_MANY_LETTERS = 1 << 24
"""Length of text from which a second processor is worthwhile."""
_MOST_TURNS = 4
"""Maximum number of times that a second processor begins to recognize entries; it ends at an entry of an unknown kind."""
_FEWEST_LINES = 16
"""Minimum number of lines for which restarting the parser after them is worthwhile."""
_MANY_STRANGERS = 128
"""Maximum number of consecutive entries of unknown kinds; after them, the rest of the chunk is not compared."""
_BREAKS = "\r\t\x85\u2028\u2029"
"""Line breaks of YAML other than `\\n`, and characters that may not indent."""


class EntryTaker(Protocol):
    """Protocol of a sequence that passes its entries on. `alike`, if any, makes nodes directly from texts."""

    marks: Any

    @property
    def alike(self) -> AlikeEntries | None: ...

    def append(self, entry: Any) -> None: ...


def take_pieces(text: str, start: int, number: int, taker: EntryTaker) -> Iterator[tuple[int, int]]:
    """Read the entries of a block sequence without the parser, as long as that is faster.

    The sequence begins at index `start` of the text, in line `number` (from 0). After each chunk, yields the place
    where the parser would continue, the start of an entry's line: its index in the text, and the line's number.
    """
    line_start = text.rfind("\n", 0, start) + 1
    dash = " " * (start - line_start) + "- "
    if not text.startswith(dash, line_start) or "%TAG" in text[:line_start]:
        return
    reader = _Pieces(taker, start - line_start)
    letters = _FIRST_LETTERS
    end, turns = 0, _MOST_TURNS
    while end >= 0:
        texts, end = _chunk(text, line_start, dash, letters)
        if letters == _FIRST_LETTERS and sum(entry.count("\n") + 1 for entry in texts) <= _FEWEST_LINES:
            return
        if end < 0:
            texts = texts[:-1]  # the text may go on after the last entry, with other keys
        count, number = reader.take(texts, number)
        line_start += sum(map(len, texts[:count])) + count * (len(dash) + 1)
        letters = _CHUNK_LETTERS
        yield line_start, number
        if count < len(texts) or not texts or reader.is_slow:
            return
        if turns and len(text) - line_start > _MANY_LETTERS and can_compute_ahead():
            turns -= 1
            for place in reader.take_ahead(text, line_start, dash, number):
                line_start, number = place
                yield place


def _chunk(text: str, line_start: int, dash: str, letters: int) -> tuple[list[str], int]:
    """Return the texts of the next entries, and the index after them; none for a text that the parser must read.

    The index is -1 if the last of these entries is the last of the sequence.
    """
    end = text.find("\n" + dash, line_start + letters)
    chunk = text[line_start : len(text) if end < 0 else end]
    return [] if any(letter in chunk for letter in _BREAKS) else chunk[len(dash) :].split("\n" + dash), end


def _whole_chunks(text: str, line_start: int, dash: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the texts of the next entries in chunks, each with the index after its line, except for the last chunk."""
    end = 0
    while end >= 0:
        texts, end = _chunk(text, line_start, dash, _CHUNK_LETTERS)
        if not texts or end < 0:
            return
        line_start = end + 1
        yield line_start, texts


class _Pieces:
    """A reader of the texts of a sequence's entries. `is_slow` says that the parser alone would be as fast."""

    def __init__(self, taker: EntryTaker, indent: int) -> None:
        self._taker = taker
        self._alike = taker.alike
        self._indent = indent
        self._lines = FlowLines(indent)
        self.is_slow = False

    def take(self, texts: list[str], number: int) -> tuple[int, int]:
        """Read entries, the first of which begins in line `number`. Returns their count and the next line."""
        alike, strangers = self._alike, 0
        trees: dict[int, tuple[Any, int]] = {}
        parsed, index = 0, 0
        while True:
            if alike is not None:
                first = index
                index, number = alike.take_texts(texts, first, number)
                strangers = strangers + 1 if index == first else 0
                if strangers > _MANY_STRANGERS:
                    alike = None
            if index == len(texts):
                break
            if index not in trees:
                trees |= self._lines_at(texts, index, number, 1 if alike is not None else len(texts))
            if index not in trees:
                trees |= self._parsed(texts, index, number, is_alone=parsed > 0)
            if index not in trees:
                break
            entry, mark = trees.pop(index)
            parsed += mark > 0
            if alike is None:
                self._taker.marks.append(mark)
                self._taker.append(entry)
            else:
                alike.take_example(texts[index], entry, mark, self._indent)
            number += texts[index].count("\n") + 1
            index += 1
        self.is_slow = 2 * parsed > len(texts)
        return index, number

    def take_ahead(self, text: str, line_start: int, dash: str, number: int) -> Iterator[tuple[int, int]]:
        """Read entries of known kinds, which a second processor recognizes. Yields places like `take_pieces`."""
        alike = self._alike
        columns = None if alike is None else alike.found_columns(_whole_chunks(text, line_start, dash))
        if alike is None or columns is None:
            return
        with computed_ahead(columns) as ready:
            for end, found in ready:
                count, number = alike.take_columns(found, number)
                is_whole = count == len(found[0])
                if not is_whole:
                    texts, _ = _chunk(text, line_start, dash, _CHUNK_LETTERS)
                    end = line_start + sum(map(len, texts[:count])) + count * (len(dash) + 1)
                line_start = end
                yield line_start, number
                if not is_whole:
                    return

    def _lines_at(self, texts: list[str], first: int, number: int, most: int) -> dict[int, tuple[Any, int]]:
        """Return the trees of entry `first` and of the entries after it that need no parser, at most `most`."""
        found: dict[int, tuple[Any, int]] = {}
        for index, text in enumerate(texts[first : first + most], first):
            entry = self._lines.read(text, number)
            if entry is None:
                break
            found[index] = entry, 0
            number += text.count("\n") + 1
        return found

    def _parsed(self, texts: list[str], first: int, number: int, is_alone: bool) -> dict[int, tuple[Any, int]]:
        """Return the trees and positions of entry `first` and of later entries that also need the parser."""
        chosen = [first]
        for index in range(first + 1, first + 1 if is_alone else len(texts)):
            if "&" in texts[index]:
                break
            if not (self._alike is not None and self._alike.is_known(texts[index])) and not self._lines.is_known(texts[index]):
                chosen.append(index)
        entries = read_entries(texts, chosen, number, self._indent)
        return {} if entries is None else dict(zip(chosen, zip(entries, entries.marks[1:], strict=True), strict=True))
