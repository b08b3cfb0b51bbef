"""Variables without influence on the loss: a later op ignores everything that they add, so their exact gradient is zero.

A softmax ignores a number that is added to all its inputs, such as the product of a query and the bias of keys. Batch
normalization ignores a bias of its channels. What a variable adds to a tensor is followed through linear ops, with the
dimensions along which it is constant; at any other op, the variable counts as having an influence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from math import prod
from typing import NamedTuple

from placesim.graph.graph import Node, TensorRef
from placesim.inspection.memory_categories import find_origin
from placesim.planning.strategies.training_graph import TrainingGraph
from placesim.runtime.shapes.graph_shapes import GraphShapes

Axes = frozenset[int]
_ADDITIONS = ("Add", "AddV2", "Sub", "BiasAdd")
_SAME = ("Identity", "Neg", "Snapshot")
_PRODUCTS = {"MatMul": ("transpose_a", "transpose_b")} | dict.fromkeys(
    ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), ("adj_x", "adj_y")
)
_SOFTMAX = ("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")


class _InfluenceError(Exception):
    """Raised at an op that may pass on what a variable adds."""


class IgnoredVariable(NamedTuple):
    """A variable without influence on the loss, and an op that ignores what it adds."""

    variable: Node
    by: Node


def find_ignored_variables(training: TrainingGraph, shapes: GraphShapes) -> Iterator[IgnoredVariable]:
    """Yield the updated variables without influence on the loss. Some are not found, but each that is found has none."""
    graph, forward = training.graph, frozenset(training.forward)
    consumers = graph.consumers()
    order = [number for number in graph.runtime_order() if number in forward]
    places = {number: place for place, number in enumerate(order)}
    readers: dict[int, set[int]] = {}
    for number in order:
        for source in graph.nodes[number].input_nodes:
            if source not in forward:
                readers.setdefault(find_origin(graph, source).id, set()).add(places[number])
    for variable in training.variables:
        added, waiting = _Added(training, shapes, variable), sorted(readers.get(variable, ()))
        seen = {*waiting}
        try:
            while waiting:
                number = order[heappop(waiting)]
                if added.follow(graph.nodes[number]):
                    new = {places[reader] for reader in consumers[number] if reader in forward} - seen
                    seen |= new
                    for place in new:
                        heappush(waiting, place)
        except _InfluenceError:
            continue
        if added.ignoring is not None:
            yield IgnoredVariable(graph.nodes[variable], added.ignoring)


class _Added:
    """The dimensions along which that part of each tensor is constant that a variable adds."""

    def __init__(self, training: TrainingGraph, shapes: GraphShapes, variable: int) -> None:
        self._training, self._graph, self._shapes, self._variable = training, training.graph, shapes, variable
        self._forward = frozenset(training.forward)
        self._axes: dict[TensorRef, Axes] = {}
        self.ignoring: Node | None = None

    def _given(self, ref: TensorRef) -> Axes | None:
        """Return the dimensions for an input, none of them for the variable itself; None if the variable adds nothing."""
        if ref.node not in self._forward:
            return frozenset() if find_origin(self._graph, ref.node).id == self._variable else None
        return self._axes.get(ref)

    def follow(self, node: Node) -> bool:
        """Enter the outputs of a node, and return whether there are any that depend on the variable.

        Raises _InfluenceError if they may depend on it in any other way.
        """
        refs = [*node.inputs]
        given = {place: axes for place, ref in enumerate(refs) if (axes := self._given(ref)) is not None}
        if not given:
            return False
        if node.id == self._training.loss.node or node.op not in _RULES:
            raise _InfluenceError
        output = TensorRef(node.id, 0)
        found = _RULES[node.op](self, node, refs, given)
        if found is not None:
            self._axes[output] = found
            return True
        self.ignoring = node
        for slot in range(1, len(node.signature.output_dtypes) if node.op in _NORMS else 1):
            self._axes[TensorRef(node.id, slot)] = frozenset()  # the statistics still depend on it
        return node.op in _NORMS

    def _dims(self, ref: TensorRef) -> tuple[int, ...]:
        dims = self._shapes.shape(ref)
        if dims is None:
            raise _InfluenceError
        return tuple(dims)

    def _same(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        return given[0]

    def _sum(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        rank = len(self._dims(TensorRef(node.id, 0)))
        found = frozenset(range(rank))
        for place, axes in given.items():
            if node.op == "BiasAdd" and place:
                found -= {_channel(self._graph.full_attrs(node)["data_format"], rank)}
            else:
                found &= _broadcast(axes, self._dims(refs[place]), rank)
        return found

    def _scaled(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        ((place, axes),) = given.items() if len(given) == 1 else ((-1, frozenset[int]()),)
        if place < 0 or (node.op != "Mul" and place):
            raise _InfluenceError
        rank = len(self._dims(TensorRef(node.id, 0)))
        factor = self._dims(refs[1 - place])
        return _broadcast(axes, self._dims(refs[place]), rank) & _broadcast(frozenset(), factor, rank)

    def _product(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        if len(given) != 1:
            raise _InfluenceError
        ((place, axes),) = given.items()
        is_transposed = self._graph.full_attrs(node)[_PRODUCTS[node.op][place]]
        own = len(self._dims(refs[place])) - (1 if bool(place) != bool(is_transposed) else 2)
        rank = len(self._dims(TensorRef(node.id, 0)))
        return frozenset({rank - (1 if place else 2)}) if own in axes else frozenset()

    def _transposed(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        order = self._shapes.value(refs[1])
        if order is None or 1 in given:
            raise _InfluenceError
        return frozenset(place for place, source in enumerate(order.tolist()) if source in given[0])

    def _reshaped(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        old, new = self._dims(refs[0]), self._dims(TensorRef(node.id, 0))
        if min((*old, *new), default=0) <= 0:
            raise _InfluenceError
        found: set[int] = set()
        for (first, start), (end, stop) in pairwise(_common_cuts(old, new)):
            if given[0].issuperset(range(first, end)):
                found.update(range(start, stop))
        return frozenset(found)

    def _softmax(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes | None:
        if set(given) != {0} or len(self._dims(refs[0])) - 1 not in given[0]:
            raise _InfluenceError
        return None

    def _normalized(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes | None:
        attrs, rank = self._graph.full_attrs(node), len(self._dims(refs[0]))
        others = set(range(rank)) - {_channel(attrs["data_format"], rank)}
        if set(given) != {0} or attrs["is_training"] is not True or not given[0].issuperset(others):
            raise _InfluenceError
        return None


_RULES: Mapping[str, Callable[[_Added, Node, Sequence[TensorRef], Mapping[int, Axes]], Axes | None]] = {
    **dict.fromkeys(_SAME, _Added._same),
    **dict.fromkeys(_ADDITIONS, _Added._sum),
    **dict.fromkeys(("Mul", "RealDiv"), _Added._scaled),
    **dict.fromkeys(_PRODUCTS, _Added._product),
    **dict.fromkeys(_SOFTMAX, _Added._softmax),
    **dict.fromkeys(_NORMS, _Added._normalized),
    "Transpose": _Added._transposed,
    "Reshape": _Added._reshaped,
}
"""Rules that return the dimensions for an op's first output, or None if the op ignores what is added."""


def _channel(data_format: object, rank: int) -> int:
    return 1 if str(data_format).startswith("NC") else rank - 1


def _broadcast(axes: Axes, dims: Sequence[int], rank: int) -> Axes:
    """Return the dimensions along which a tensor is constant once it is broadcast to a rank."""
    first = rank - len(dims)
    return frozenset((*range(first), *(first + i for i, size in enumerate(dims) if i in axes or size == 1)))


def _common_cuts(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the places at which both shapes can be cut into blocks with the same elements."""
    first = start = 0
    while first < len(old) or start < len(new):
        yield first, start
        end, stop = min(first + 1, len(old)), min(start + 1, len(new))
        while (one := prod(old[first:end])) != (other := prod(new[start:stop])) or (end == first and stop == start):
            if one < other or stop == len(new):
                end += 1
            else:
                stop += 1
        first, start = end, stop
    yield len(old), len(new)
