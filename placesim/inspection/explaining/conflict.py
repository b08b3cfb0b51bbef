"""Search for a minimal set of conflicting annotations in a graph that can't be placed.

Annotations are removed, first in halves and then singly, and the graph is placed without them. If the graph still can't be
placed, the removed annotations are not part of the conflict. Each annotation of the result is necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from placesim.graph.graph import Graph
from placesim.inspection.explaining.annotations import Annotation
from placesim.inspection.explaining.trials import Trials
from placesim.placement.placer import Placement


@dataclass(frozen=True, slots=True)
class ConflictSet:
    """Annotations that conflict with each other or with the machine. `is_minimal` is False if the search stopped at the limit
    of trials.

    The set is empty if the graph can't be placed even without annotations.
    """

    annotations: tuple[Annotation, ...]
    is_minimal: bool = True


def find_conflict(trials: Trials) -> ConflictSet:
    """Return the conflict that caused a placement's error."""
    setting, placement = trials.setting, trials.placement
    near = _neighbourhood(placement)
    graph = setting.graph
    distance = dict.fromkeys(setting.annotations.all(), 0)
    for weight, names in ((1, near), (2, [placement.error.node] if placement.error and placement.error.node else [])):
        for name in names:
            if name in graph.ids:
                distance.update(dict.fromkeys(setting.annotations.of_node(graph.node(name)), weight))
    # annotations far from the error are removed first: if there are several conflicts, the conflict behind the error remains
    # and of several annotations with one effect, copies of another are removed first
    copies = setting.annotations.label_copies()
    kept = sorted(distance, key=lambda annotation: (distance[annotation], annotation not in copies))
    return _Deletion(trials).run(kept, sum(not weight for weight in distance.values()))


class _Deletion:
    """The state of the search: the current graph, and the annotations removed so far."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._graph: Graph = trials.setting.graph
        self._dropped: dict[Annotation, str] = {}

    def run(self, kept: Sequence[Annotation], far: int) -> ConflictSet:
        """Reduce `kept` to a minimal conflict.

        `kept` is ordered from farthest to nearest to the error; the first `far` annotations are tried together.
        """
        if not self._drop(kept[:far]):
            kept = kept[far:]
        if kept and not self._drop(kept):
            return ConflictSet(())
        size = max(1, len(kept) // 2)
        while True:
            kept = self._sweep(kept, size)
            if size == 1 or self._trials.remaining <= 0:
                return ConflictSet(tuple(kept), size == 1 and self._trials.remaining > 0)
            size = max(1, min(size // 2, len(kept) // 2))

    def _sweep(self, kept: Sequence[Annotation], size: int) -> list[Annotation]:
        """Remove each block of `size` annotations that the conflict does not need, and return the remaining annotations."""
        left: list[Annotation] = []
        for start in range(0, len(kept), size):
            chunk = kept[start : start + size]
            if self._trials.remaining <= 0 or self._drop(chunk):
                left += chunk
        return left

    def _drop(self, chunk: Sequence[Annotation]) -> bool:
        """Remove annotations if the graph still can't be placed without them. Returns whether the conflict needs them."""
        if not chunk:
            return False
        setting = self._trials.setting
        changes = {**self._dropped, **dict.fromkeys(chunk, "")}
        graph = setting.annotations.changed(self._graph, chunk, changes)
        if self._trials.place(replace(setting, graph=graph)).error is None:
            return True
        self._graph, self._dropped = graph, changes
        return False


def _neighbourhood(placement: Placement) -> list[str]:
    """Return the nodes related to the error.

    They are the members of the groups of the failing node and of its inputs, and nodes that share a label with it.
    """
    error, graph, groups = placement.error, placement.graph, placement.groups
    if error is None or error.node is None or error.node not in graph.ids:
        return []
    node = graph.node(error.node)
    centre = {groups.root(i) for i in (node.id, *node.input_nodes)}
    labels = {label for label in node.attrs.get("_class", ()) if isinstance(label, str)} | {f"loc:@{node.name}"}
    return [
        other.name
        for other in graph.nodes
        if groups.root(other.id) in centre or (other.attrs.get("_class") and not labels.isdisjoint(other.attrs["_class"]))
    ]
