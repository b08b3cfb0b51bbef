"""Variables without influence on the loss: a later op ignores everything that they add, so their exact gradient is zero.

A softmax ignores a number that is added to all its inputs, such as the product of a query and the bias of keys. Batch
normalization ignores a bias of its channels. What a variable adds to a tensor is followed through linear ops, with the
dimensions along which it is constant; at any other op, the variable counts as having an influence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import pairwise
from math import prod
from typing import NamedTuple

from placesim.graph.graph import Node, TensorRef
from placesim.inspection.memory_categories import find_origin
from placesim.ops.kernels import cost_of, has_trait
from placesim.ops.kernels.cost_model import CostKind
from placesim.ops.kernels.kernel import Trait
from placesim.planning.strategies.training_graph import TrainingGraph
from placesim.runtime.shapes.graph_shapes import GraphShapes

Axes = frozenset[int]


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
        added, waiting = _Added(training, shapes, forward, variable), sorted(readers.get(variable, ()))
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

    def __init__(self, training: TrainingGraph, shapes: GraphShapes, forward: Set[int], variable: int) -> None:
        self._graph, self._loss, self._shapes = training.graph, training.loss.node, shapes
        self._forward, self._variable = forward, variable
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
        rule = None if node.id == self._loss else _rule(node.op)
        if rule is None:
            raise _InfluenceError
        found = rule(self, node, refs, given)
        if found is not None:
            self._axes[TensorRef(node.id, 0)] = found
            return True
        self.ignoring = node
        others = [TensorRef(node.id, slot) for slot in range(1, len(node.signature.output_dtypes))]
        self._axes |= dict.fromkeys(others, frozenset())  # statistics still depend on it
        return bool(others)

    def _dims(self, ref: TensorRef) -> tuple[int, ...]:
        dims = self._shapes.shape(ref)
        if dims is None:
            raise _InfluenceError
        return tuple(dims)

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
        if place < 0 or (place and has_trait(node.op, Trait.DIVIDES)):
            raise _InfluenceError
        rank = len(self._dims(TensorRef(node.id, 0)))
        factor = self._dims(refs[1 - place])
        return _broadcast(axes, self._dims(refs[place]), rank) & _broadcast(frozenset(), factor, rank)

    def _product(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        if len(given) != 1:
            raise _InfluenceError
        ((place, axes),) = given.items()
        attrs = self._graph.full_attrs(node)
        is_transposed = attrs[(("transpose_a", "transpose_b") if "transpose_a" in attrs else ("adj_x", "adj_y"))[place]]
        own = len(self._dims(refs[place])) - (1 if bool(place) != bool(is_transposed) else 2)
        rank = len(self._dims(TensorRef(node.id, 0)))
        return frozenset({rank - (1 if place else 2)}) if own in axes else frozenset()

    def _transposed(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        axes, order = _of_first(given), self._shapes.value(refs[1])
        if order is None:
            raise _InfluenceError
        return frozenset(place for place, source in enumerate(order.tolist()) if source in axes)

    def _reshaped(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes:
        axes, old, new = _of_first(given), self._dims(refs[0]), self._dims(TensorRef(node.id, 0))
        if old == new:
            return axes
        if min((*old, *new), default=0) <= 0:
            raise _InfluenceError
        found: set[int] = set()
        for (first, start), (end, stop) in pairwise(_common_cuts(old, new)):
            if axes.issuperset(range(first, end)):
                found.update(range(start, stop))
        return frozenset(found)

    def _softmax(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes | None:
        if len(self._dims(refs[0])) - 1 not in _of_first(given):
            raise _InfluenceError
        return None

    def _normalized(self, node: Node, refs: Sequence[TensorRef], given: Mapping[int, Axes]) -> Axes | None:
        attrs, rank = self._graph.full_attrs(node), len(self._dims(refs[0]))
        others = set(range(rank)) - {_channel(attrs["data_format"], rank)}
        if attrs["is_training"] is not True or not _of_first(given).issuperset(others):
            raise _InfluenceError
        return None


_Rule = Callable[[_Added, Node, Sequence[TensorRef], Mapping[int, Axes]], Axes | None]
"""A rule that returns the dimensions for an op's first output, or None if the op ignores what is added."""

_BY_TRAIT: Mapping[Trait, _Rule] = {
    Trait.ADDS: _Added._sum,
    Trait.MULTIPLIES: _Added._scaled,
    Trait.DIVIDES: _Added._scaled,
    Trait.SHARES_MEMORY: _Added._reshaped,
}
_BY_KIND: Mapping[CostKind, _Rule] = {
    "matmul": _Added._product,
    "batch matmul": _Added._product,
    "transpose": _Added._transposed,
    "softmax": _Added._softmax,
    "cross entropy": _Added._softmax,
    "batch normalization": _Added._normalized,
}
_BY_OP: Mapping[str, _Rule] = {"BiasAdd": _Added._sum, "Neg": _Added._reshaped, "Snapshot": _Added._reshaped}


def _rule(op: str) -> _Rule | None:
    by_trait = (rule for trait, rule in _BY_TRAIT.items() if has_trait(op, trait))
    return next(by_trait, None) or _BY_KIND.get(cost_of(op).kind) or _BY_OP.get(op)


def _of_first(given: Mapping[int, Axes]) -> Axes:
    """Return the dimensions for the first input. Raises _InfluenceError if another input depends on the variable, too."""
    if set(given) != {0}:
        raise _InfluenceError
    return given[0]


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
