"""NodeDefs in blocks of columns, and the nodes of a graph that are made of them when they are first needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress, count, repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from placesim.core.grouped import in_tuples
from placesim.core.process.gc_pause import collector_paused
from placesim.graph.graph import Integers, Node, NodeClass, NodeClasses, NodeDef
from placesim.ops.attributes import Attrs


class NodeKind(NamedTuple):
    """The op and device of nodes, an object that only nodes of equal ops and types share, and whether they have `_class`."""

    op: str
    device: str
    shared: Attrs
    is_labelled: bool


class NodeColumns(NamedTuple):
    """NodeDefs without locations. `rows` has the index of each node's kind.

    `counts` are the numbers of inputs. For each input, `near` has the index of the node that it names, or -1, and `far` has the
    texts of the inputs with -1. `attrs` returns the attrs of the nodes at these indices.
    """

    names: list[str]
    counts: Integers
    near: Integers
    far: Sequence[str]
    kinds: Sequence[NodeKind]
    rows: Integers
    attrs: Callable[[Integers], Sequence[Attrs]]

    def inputs(self) -> list[tuple[str, ...]]:
        """Return the inputs of each node as texts."""
        return input_texts(self.names, self.counts, self.near, self.far)

    def node_defs(self) -> Iterator[NodeDef]:
        kinds = list(map(self.kinds.__getitem__, self.rows.tolist()))
        ops, devices = map(attrgetter("op"), kinds), map(attrgetter("device"), kinds)
        return map(NodeDef, self.names, ops, self.inputs(), devices, self.attrs(np.arange(len(kinds))))

    def node_def(self, row: int) -> NodeDef:
        """Return one of the NodeDefs, without its inputs."""
        kind = self.kinds[self.rows[row]]
        return NodeDef(self.names[row], kind.op, (), kind.device, self.attrs(np.array([row]))[0])


def input_texts(names: Sequence[str], counts: Integers, near: Integers, far: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the texts of inputs given as in `NodeColumns`."""
    rest = iter(far)
    return in_tuples([names[row] if row >= 0 else next(rest) for row in near.tolist()], counts.tolist())


def find_near(names: Iterable[tuple[str, int]], inputs: Sequence[str]) -> tuple[Integers, list[str]]:
    """Return `near` and `far` of inputs, for names with their indices."""
    near = np.fromiter(map(dict(names).get, inputs, repeat(-1)), np.int64, len(inputs))
    return near, list(compress(inputs, (near < 0).tolist()))


class NodeBlock(NamedTuple):
    """Nodes of a graph: `numbers` has the indices of their classes, and `sources` the ids of all their inputs."""

    names: Sequence[str]
    numbers: Integers
    counts: Integers
    sources: Integers
    attrs: Callable[[Integers], Sequence[Attrs]]

    def make(self, first: int, classes: Sequence[NodeClass]) -> Iterator[Node]:
        """Return the nodes; the id of the first one is given."""
        counts = self.counts.tolist()
        found = list(map(classes.__getitem__, self.numbers.tolist()))
        signatures, devices = map(attrgetter("signature"), found), map(attrgetter("device"), found)
        slots, tied = map(first_outputs, counts), in_tuples(self.sources.tolist(), counts)
        attrs = self.attrs(np.arange(len(counts)))
        return map(Node, count(first), self.names, signatures, attrs, tied, slots, repeat(()), devices)

    def only(self, row: int) -> NodeBlock:
        """Return a block with one of the nodes."""
        start = int(self.counts[:row].sum())
        sources = self.sources[start : start + int(self.counts[row])]
        some = slice(row, row + 1)
        return NodeBlock(self.names[some], self.numbers[some], self.counts[some], sources, lambda rows: self.attrs(rows + row))


class ImportedNodes:
    """The nodes of a graph in blocks. `classes` gives the classes of nodes their consecutive numbers, and may still grow."""

    def __init__(self, classes: dict[NodeClass, int]) -> None:
        self._classes = classes
        self._blocks: list[NodeBlock] = []
        self._firsts = [0]

    def append(self, block: NodeBlock) -> None:
        """Append the nodes of a block."""
        self._blocks.append(block)
        self._firsts.append(len(self) + len(block.names))

    def __len__(self) -> int:
        return self._firsts[-1]

    def make(self) -> list[Node]:
        """Return the nodes as objects; then there are none here."""
        classes, nodes = list(self._classes), list[Node]()
        blocks, self._blocks, self._firsts = self._blocks, [], [0]
        with collector_paused():
            for block in blocks:
                nodes += block.make(len(nodes), classes)
        return nodes

    def node(self, node_id: int) -> Node:
        """Return a copy of a single node."""
        index = bisect_right(self._firsts, node_id) - 1
        return next(self._blocks[index].only(node_id - self._firsts[index]).make(node_id, list(self._classes)))

    def names(self) -> list[str]:
        """Return the names of the nodes."""
        return list(chain.from_iterable(block.names for block in self._blocks))

    def classes(self) -> NodeClasses:
        """Return the classes of the nodes."""
        return NodeClasses(list(self._classes), np.concatenate([np.empty(0, np.int64), *(b.numbers for b in self._blocks)]))

    def edges_from(self, sources: bytearray) -> Iterator[tuple[int, int]]:
        """Yield the source and the reader of each edge from the nodes with a byte other than 0, sorted by reader."""
        is_from = np.frombuffer(sources, np.bool_)
        for first, block in zip(self._firsts, self._blocks, strict=False):
            chosen = is_from[block.sources]
            readers = np.repeat(np.arange(first, first + len(block.names)), block.counts)
            yield from zip(block.sources[chosen].tolist(), readers[chosen].tolist(), strict=True)


@lru_cache
def first_outputs(count: int) -> tuple[int, ...]:
    """Return the slots of inputs that are all first outputs."""
    return (0,) * count
