"""NodeDefs in blocks of columns, and the nodes of a graph that are made of them when they are first needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, count, repeat
from operator import attrgetter
from typing import NamedTuple, Protocol

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


class BlockAttrs(Protocol):
    """The attrs of the nodes of a block."""

    def all(self) -> Sequence[Attrs]:
        """Return the attrs of all nodes."""

    def of(self, row: int) -> Attrs:
        """Return the attrs of one of the nodes."""


class NodeColumns(NamedTuple):
    """NodeDefs without locations. `rows` has the index of each node's kind.

    `counts` are the numbers of inputs. For each input, `near` has the index of the node that it names, or -1, and `far` has the
    texts of the inputs with -1.
    """

    names: list[str]
    counts: Integers
    near: Integers
    far: Sequence[str]
    kinds: Sequence[NodeKind]
    rows: Integers
    attrs: BlockAttrs

    def inputs(self, rows: Sequence[int] | None = None) -> list[tuple[str, ...]]:
        """Return the inputs of the nodes as texts: of all, or of those with these indices, which ascend."""
        counts, near, far = self.counts, self.near, iter(self.far)
        if rows is not None:
            is_asked = np.zeros(len(counts), np.bool_)
            is_asked[rows] = True
            is_kept = np.repeat(is_asked, counts)
            far = compress(self.far, is_kept[near < 0].tolist())
            counts, near = counts[rows], near[is_kept]
        return in_tuples([self.names[row] if row >= 0 else next(far) for row in near.tolist()], counts.tolist())

    def with_texts(self, texts: Mapping[int, tuple[str, tuple[str, ...]]]) -> NodeColumns:
        """Return the columns with these names and inputs of some nodes, by their indices, which ascend."""
        rows = list(texts)
        if list(zip(map(self.names.__getitem__, rows), self.inputs(rows), strict=True)) == list(texts.values()):
            return self
        names, inputs = self.names.copy(), self.inputs()
        for row, (name, read) in texts.items():
            names[row], inputs[row] = name, read
        counts, near, far = input_columns(names, inputs)
        return self._replace(names=names, counts=counts, near=near, far=far)

    def first_rows(self) -> list[int]:
        """Return the index of the first node of each kind; -1 for a kind that no node is of."""
        found = np.full(len(self.kinds), -1)
        found[self.rows[::-1]] = np.arange(len(self.rows))[::-1]  # numpy keeps the last of several assignments
        return found.tolist()

    def node_defs(self) -> Iterator[NodeDef]:
        kinds = list(map(self.kinds.__getitem__, self.rows.tolist()))
        ops, devices = map(attrgetter("op"), kinds), map(attrgetter("device"), kinds)
        return map(NodeDef, self.names, ops, self.inputs(), devices, self.attrs.all())

    def node_def(self, row: int, kind: NodeKind) -> NodeDef:
        """Return one of the NodeDefs, which is of this kind, without its inputs."""
        return NodeDef(self.names[row], kind.op, (), kind.device, self.attrs.of(row))


def input_columns(names: Iterable[str], inputs: Sequence[tuple[str, ...]]) -> tuple[Integers, Integers, list[str]]:
    """Return `counts`, `near` and `far` of nodes with these names and inputs."""
    near, far = find_near(zip(names, count()), list(chain.from_iterable(inputs)))
    return np.array(list(map(len, inputs)), np.int64), near, far


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
    attrs: BlockAttrs

    def make(self, first: int, ids: Sequence[int], classes: Sequence[NodeClass]) -> Iterator[Node]:
        """Return the nodes; the id of the first one is given. `ids` has all ids as objects, which the nodes share."""
        counts = self.counts.tolist()
        signatures, devices, _ = zip(*map(classes.__getitem__, self.numbers.tolist()), strict=True)
        slots = map(first_outputs, counts)
        tied = in_tuples(map(ids.__getitem__, self.sources.tolist()), counts)
        own = ids[first : first + len(counts)]
        return map(Node, own, self.names, signatures, self.attrs.all(), tied, slots, repeat(()), devices)

    def only(self, row: int, node_id: int, classes: Sequence[NodeClass]) -> Node:
        """Return one of the nodes."""
        signature, device, _ = classes[self.numbers[row]]
        start, count = int(self.counts[:row].sum()), int(self.counts[row])
        tied = tuple(self.sources[start : start + count].tolist())
        return Node(node_id, self.names[row], signature, self.attrs.of(row), tied, first_outputs(count), (), device)


class ImportedNodes:
    """The nodes of a graph in blocks.

    `ids` are the ids of all nodes, and `classes` are the classes of the graph's nodes. Both may still grow.
    """

    def __init__(self, ids: Sequence[int], classes: Sequence[NodeClass]) -> None:
        self._ids = ids
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
        nodes, blocks = list[Node](), self._blocks[::-1]
        self._blocks, self._firsts = [], [0]
        with collector_paused():
            while blocks:
                nodes += blocks.pop().make(len(nodes), self._ids, self._classes)
        return nodes

    def node(self, node_id: int) -> Node:
        """Return a copy of a single node."""
        index = bisect_right(self._firsts, node_id) - 1
        return self._blocks[index].only(node_id - self._firsts[index], node_id, self._classes)

    def names(self) -> list[str]:
        """Return the names of the nodes."""
        return list(chain.from_iterable(block.names for block in self._blocks))

    def classes(self) -> NodeClasses:
        """Return the classes of the nodes."""
        numbers = (block.numbers for block in self._blocks)
        return NodeClasses(self._classes, np.concatenate([np.empty(0, np.int64), *numbers]))

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
