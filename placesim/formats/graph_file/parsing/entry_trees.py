"""Parser of entries whose texts were cut out of a sequence; their trees have the original positions."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Listed
from typing import Any

from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.parsing.yaml_tree import Mapping, Sequence, pack_mark, read_tree
from placesim.graph.graph import COLUMNS


def read_entries(texts: Listed[str], chosen: Listed[int], number: int, indent: int) -> Sequence | None:
    """Parse the `chosen` entries of a sequence, whose `texts` have no dashes.

    `number` (from 0) is the line of the first chosen entry, and `indent` the column of the dashes. Returns None if the parser
    refuses an entry, or if a text is not exactly one entry or has an anchor.
    """
    parts, ends, line = ["nodes:"], [], 1
    is_chosen = set(chosen)
    for index in range(chosen[0], chosen[-1] + 1):
        text = texts[index]
        lines = text.count("\n") + 1
        line += lines
        if index not in is_chosen:
            parts.append("\n" * (lines - 1))
        elif "&" in text:  # an anchor, to which later entries may refer
            return None
        else:
            parts.append(f"{' ' * indent}- {text}")
            ends.append(line)
    try:
        root = read_tree("\n".join(parts), "")
    except GraphFileError:
        return None
    entries = root["nodes"]
    if len(root) > 1 or entries.__class__ is not Sequence or len(entries) != len(ends):
        return None
    if any(pack_mark(mark) // COLUMNS > end for mark, end in zip(entries.marks[1:], ends, strict=True)):
        return None
    for tree in collections(entries):
        tree.marks = [pack_mark(mark) + (number - 1) * COLUMNS for mark in tree.marks]
    return entries


def collections(tree: Any) -> Iterator[Any]:
    """Yield a collection and all nested ones in document order."""
    yield tree
    for value in tree.values() if tree.__class__ is Mapping else tree:
        if value.__class__ is Mapping or value.__class__ is Sequence:
            yield from collections(value)
