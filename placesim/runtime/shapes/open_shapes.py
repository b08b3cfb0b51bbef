"""Choice of facts, such as the shape of a feed, that together determine as many unknown shapes of a graph as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from placesim.graph.graph import Graph
from placesim.ops.kernels.shapes import Dims, is_fully_defined
from placesim.runtime.shapes.graph_shapes import GraphShapes

MAX_PASSES = 16
"""Maximum number of passes over a graph with loops; shapes that are then still undetermined stay unknown."""

Cause = TypeVar("Cause")
Act = TypeVar("Act")


class SettlementCount(NamedTuple):
    """Number of tensors whose shapes an act would determine, in addition to those that earlier acts determine.

    `touched` is the number of tensors that need this act, alone or together with other acts.
    """

    tensors: int
    touched: int


def choose_settlements(causes: Sequence[frozenset[Cause]], acts: Mapping[Act, Collection[Cause]]) -> list[tuple[Act, int]]:
    """Choose acts that settle (determine) tensors, best first, each with the number of tensors that it settles in addition.

    `causes` has for each tensor the causes that leave it unknown; `acts` maps each act to the causes that it removes. A tensor
    is settled when all of its causes are removed. The next act is always the act that settles the most tensors. If no
    act alone settles a tensor, it is the act that the most tensors need. Ties follow the order of `acts`. Acts that no tensor
    needs are left out.
    """
    open_sets = [(set(some), count) for some, count in Counter(causes).items() if some]
    left = {act: set(removed) for act, removed in acts.items()}
    found: list[tuple[Act, int]] = []
    while open_sets and left:
        gains = {act: _gain(open_sets, removed) for act, removed in left.items()}
        best = max(gains, key=lambda act: gains[act])
        most = gains[best]
        if not most.touched:
            break
        removed = left.pop(best)
        open_sets = [(some - removed, count) for some, count in open_sets if some - removed]
        found.append((best, most.tensors))
    return found


def _gain(open_sets: Sequence[tuple[set[Cause], int]], removed: set[Cause]) -> SettlementCount:
    return SettlementCount(
        sum(count for some, count in open_sets if some <= removed), sum(count for some, count in open_sets if some & removed)
    )


def find_open_causes(
    graph: Graph, needed: Collection[int], settled: Mapping[int, Dims], missing: Collection[int]
) -> list[frozenset[int]]:
    """For each tensor with an unknown shape, return the nodes among `missing` that leave it unknown.

    Only outputs of the `needed` nodes are considered. `settled` has the shapes of fed tensors, by node. A tensor whose shape is
    unknown for other reasons is left out.
    """
    shapes = GraphShapes(graph)
    for node_id, dims in settled.items():
        shapes.settle(node_id, dims)
    bits = {node_id: 1 << position for position, node_id in enumerate(missing)}
    masks = dict(bits)
    order = sorted(needed)
    is_open = {node_id: [not is_fully_defined(dims) for dims in shapes.outputs(node_id)] for node_id in order}
    for _ in range(MAX_PASSES):
        is_at_rest = True
        for node_id in order:
            if node_id in bits or True not in is_open[node_id]:
                continue
            node = graph.nodes[node_id]
            mask = 0
            for source, slot in zip(node.input_nodes, node.input_slots, strict=True):
                if source in is_open and is_open[source][slot]:
                    mask |= masks.get(source, 0)
            if mask != masks.get(node_id, 0):
                masks[node_id] = mask
                is_at_rest = False
        if is_at_rest:
            break
    names = {bit: node_id for node_id, bit in bits.items()}
    sets: dict[int, frozenset[int]] = {}
    found = []
    for node_id in order:
        mask = masks.get(node_id, 0)
        if mask:
            if mask not in sets:
                sets[mask] = frozenset(node_id for bit, node_id in names.items() if mask & bit)
            found += [sets[mask]] * is_open[node_id].count(True)
    return found
