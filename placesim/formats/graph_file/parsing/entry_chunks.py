"""Fast reading of many entries at once: a chunk of text in which every entry is of a known kind.

One pattern of all kinds finds the names and contents, and the nodes of each kind are made together. Any other chunk must be
read entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from operator import lt
from typing import Any, NamedTuple, TypeVar

from placesim.formats.graph_file.parsing.entry_kinds import EntryKind, NodeTemplate
from placesim.formats.graph_file.parsing.yaml_tree import PLAIN_WORDS
from placesim.formats.problems import InvalidValue
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import COLUMNS, Node, Signature
from placesim.ops.attributes import Attrs

Item = TypeVar("Item")
_MAX_KINDS = 16
_MAX_REFUSED = 4
"""Number of refused chunks after which no more are tried."""


class _KindRows(NamedTuple):
    """The entries of one kind in a chunk: their indices in the chunk, names and contents."""

    kind: EntryKind
    rows: list[int]
    names: list[str]
    contents: list[str]


class _Pattern:
    """A pattern of the entries of some kinds; the text of each begins with `dash`."""

    def __init__(self, kinds: Sequence[EntryKind], dash: str) -> None:
        self.kinds = kinds
        self._opening = "\n" + dash
        opening, alternatives = re.escape(self._opening), "|".join(kind.pattern for kind in kinds)
        self._find_all = re.compile(rf"{opening}(?:{alternatives})(?={opening}|\Z)").findall

    def read(self, chunk: str) -> list[_KindRows]:
        """Return the entries of a chunk by kind; an empty list if an entry is of no kind."""
        text = "\n" + chunk
        found = self._find_all(text)
        if len(found) < text.count(self._opening):
            return []
        columns = list(zip(*found, strict=True))  # two for each kind
        read = []
        for index, kind in enumerate(self.kinds):
            names, contents = columns[2 * index : 2 * index + 2][:: 1 if kind.parts.is_name_first else -1]
            rows = [row for row, name in enumerate(names) if name]
            if rows:
                read.append(_KindRows(kind, rows, [names[row] for row in rows], [contents[row] for row in rows]))
        return read


class EntryChunks:
    """A maker of the nodes of chunks. It gives up if too many chunks are refused."""

    def __init__(self, builder: ScopedGraphBuilder) -> None:
        self._builder = builder
        self._signatures: list[Signature] = []
        self._pattern: _Pattern | None = None
        self._refused = 0

    def take(self, chunk: str, dash: str, kinds: Sequence[EntryKind], line: int) -> int:
        """Make the nodes of a chunk that begins in `line` (from 0). Returns its number of lines; 0 for a refused chunk.

        All names in the graph must mean the same with and without quotes, and lead to nodes other than variables.
        """
        if not 0 < len(kinds) <= _MAX_KINDS or self._refused >= _MAX_REFUSED:
            return 0
        if self._pattern is None or self._pattern.kinds != kinds:
            self._pattern = _Pattern(kinds, dash)
        read = self._pattern.read(chunk)
        lines = self._take(read, line) if read else 0
        self._refused += not lines
        return lines

    def _take(self, read: list[_KindRows], line: int) -> int:
        names, lines = _in_order(read, [part.names for part in read]), _in_order(read, [repeat(p.kind.lines) for p in read])
        commons = [common for part in read if (common := _common(part)) is not None]
        joined = "\n".join(names)
        # names that differ only in case are in each other's way, which is simple to see only in lower case
        if joined != joined.lower() or not PLAIN_WORDS.isdisjoint(names) or 0 in lines or len(commons) < len(read):
            return 0
        graph, builder, signatures = self._builder.graph, self._builder, self._signatures
        signatures += [node.signature for node in graph.nodes[len(signatures) :]]
        first = len(signatures)
        ids = list(range(first, first + len(names)))
        if not builder.claim_free_names(names, ids):
            return 0
        signatures += _in_order(read, [repeat(common.template.signature) for common in commons])
        inputs = [found for part in read if (found := self._inputs(part, ids)) is not None]
        if len(inputs) < len(read):
            builder.release_names()
            del signatures[first:]
            return 0
        starts = list(accumulate(lines, initial=line * COLUMNS))
        made = []
        for part, common, sources in zip(read, commons, inputs, strict=True):
            signature, _, device, slots = common.template
            own = [ids[row] for row in part.rows]
            positions = [starts[row] + part.kind.offset for row in part.rows]
            columns = (own, part.names, repeat(signature), common.attrs, sources, repeat(slots), repeat(()), repeat(device))
            made.append(map(Node, *columns, positions))
        graph.nodes += _in_order(read, made)
        return starts[-1] // COLUMNS - line

    def _inputs(self, part: _KindRows, ids: list[int]) -> list[tuple[int, ...]] | None:
        """Return the inputs of a kind's entries; None unless all are nodes above, of types that the kind's templates have."""
        kind, contents, separator = part.kind, part.contents, part.kind.parts.separator
        if not kind.parts.gives_tensors:
            return [()] * len(contents)
        texts = contents if separator is None else separator.join(contents).split(separator)
        count, rest = divmod(len(texts), len(contents))
        if rest or (separator is not None and {content.count(separator) for content in contents} != {count - 1}):
            return None
        sources = list(map(self._builder.graph.ids.get, texts))
        if None in sources:
            return None
        inputs = list(zip(*[iter(sources)] * count, strict=True))
        columns, own = list(zip(*inputs, strict=True)), [ids[row] for row in part.rows]
        if not all(all(map(lt, column, own)) for column in columns):
            return None
        signature_of = self._signatures.__getitem__
        types = set(zip(*(map(signature_of, column) for column in columns), strict=True))
        return inputs if types <= kind.made.keys() else None


class _Common(NamedTuple):
    """The template of a kind's entries, and the attrs of each."""

    template: NodeTemplate
    attrs: Iterable[Attrs]


def _common(part: _KindRows) -> _Common | None:
    """Return the common part of the nodes of a kind's entries; None if they differ in more than name, inputs and value."""
    kind = part.kind
    if kind.constant is not None:
        try:
            tensors = [kind.tensor(content) for content in part.contents]
        except InvalidValue:
            return None
        template = kind.made.get(tensors[0].dtype)
        if template is None or any(tensor.dtype is not tensors[0].dtype for tensor in tensors):
            return None
        return _Common(template, [{"dtype": tensor.dtype, "value": tensor} for tensor in tensors])
    templates = list(kind.made.values())
    if not templates or any(template != templates[0] for template in templates):
        return None
    return _Common(templates[0], repeat(templates[0].attrs))


def _in_order(read: list[_KindRows], columns: Sequence[Iterable[Item]]) -> list[Item]:
    """Return the items of all kinds in the order of the entries; `columns` has the items of each kind."""
    found: list[Any] = [None] * sum(len(part.rows) for part in read)
    for part, column in zip(read, columns, strict=True):
        for row, item in zip(part.rows, column, strict=False):
            found[row] = item
    return found
