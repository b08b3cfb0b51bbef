"""The places at which a forward pass is cut into stages: given by scopes, or such that the slowest stage is fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from placesim.core.errors import UsageError
from placesim.graph.graph import Node, TensorRef
from placesim.graph.node_patterns import did_you_mean_node
from placesim.ops.categories import CONSTANTS, SHAPE_OPS
from placesim.ops.kernels import has_trait
from placesim.ops.kernels.kernel import Trait
from placesim.planning.strategies.pipelines.costs import PipelineCosts
from placesim.planning.strategies.pipelines.places import ForwardPlaces
from placesim.planning.strategies.pipelines.schedules import GPIPE, Schedule

MAX_CUTS = 512
"""Maximum number of places that the search considers. In a longer pass, these are the places that the fewest bytes cross."""
_ROUNDING = 1 + 1e-9
Array = np.ndarray[Any, Any]


class CutCosts:
    """The costs of a micro-batch's forward and backward pass by place, and the costs of a cut before each place.

    - `forward`, `backward`: seconds of the nodes.
    - `held`: bytes during the whole step: variables, accumulated gradients of updated variables, and those `arriving`, at the
      first place that reads them.
    - `activations`: bytes of the `kept` tensors. A stage keeps its own, and copies of those that it reads from other stages.
    - `working`: bytes of the gradients that the largest gradient node reads and writes.
    - `kept`: the tensors of the forward pass and the batch that gradients read, each with the places of these gradients.
    - `arriving`: bytes of a tensor of the batch for the next micro-batch, and for the current one if no gradient reads it.
    - `batch_readers`: the tensors of the batch, each with the places of the nodes that read it.
    - `crossing`: bytes of the forward tensors that are made before a place, and read at this place or later.
    """

    def __init__(self, places: ForwardPlaces, costs: PipelineCosts, schedule: Schedule) -> None:
        self._places, self._costs, self._count = places, costs, len(places.main)
        self.forward, self.backward = (self._find_seconds(nodes) for nodes in (places.forward, places.backward))
        self.batch_readers = self._find_batch_readers()
        self.kept = self._find_kept()
        self.arriving = {ref: costs.size(ref) * self._extra_parts(ref, schedule) for ref in self.batch_readers}
        self.held = self._find_held()
        self.activations = np.zeros(self._count)
        for ref in self.kept:
            first = min(self.batch_readers[ref]) if ref in self.batch_readers else places.of[ref.node]
            self.activations[first] += costs.size(ref)
        self.working = self._find_working()
        self.crossing = self._find_crossing()
        self.transfer = np.array([costs.transfer_seconds(int(size)) for size in self.crossing])

    def _find_seconds(self, nodes: Sequence[Node]) -> Array:
        found = np.zeros(self._count)
        for node in nodes:
            found[self._places.of[node.id]] += self._costs.seconds(node)
        return found

    def _find_batch_readers(self) -> dict[TensorRef, list[int]]:
        found: dict[TensorRef, list[int]] = {}
        batch = frozenset(self._places.training.batch)
        for node in (*self._places.forward, *self._places.backward):
            for ref in batch.intersection(node.inputs):
                found.setdefault(ref, []).append(self._places.of[node.id])
        return found

    def _extra_parts(self, ref: TensorRef, schedule: Schedule) -> int:
        """Return how many parts of a tensor of the batch a stage has beside those of micro-batches with kept activations."""
        if ref not in self.kept:
            return min(2, schedule.micro_batches)
        return int(schedule.micro_batches > 1 and schedule.name != GPIPE)  # with gpipe, all micro-batches have such

    def _find_held(self) -> Array:
        found = np.zeros(self._count)
        updated = frozenset(self._places.training.variables)
        for variable, place in self._places.variables.items():
            found[place] += self._costs.size(TensorRef(variable, 0)) * (1 + (variable in updated))
        for ref, readers in self.batch_readers.items():
            found[min(readers)] += self.arriving[ref]
        return found

    def _find_working(self) -> Array:
        found = np.zeros(self._count)
        backward = {node.id for node in self._places.backward}
        for node in self._places.backward:
            refs = [ref for ref in node.inputs if ref.node in backward]
            refs += [TensorRef(node.id, slot) for slot in range(len(node.signature.output_dtypes))]
            place = self._places.of[node.id]
            found[place] = max(found[place], sum(map(self._costs.size, refs)))
        return found

    def _find_kept(self) -> dict[TensorRef, list[int]]:
        graph, forward = self._places.training.graph, {node.id for node in self._places.forward}
        found: dict[TensorRef, list[int]] = {}
        for node in self._places.backward:
            for ref in node.inputs if node.op not in SHAPE_OPS else ():
                while ref.node in forward and has_trait(graph.nodes[ref.node].op, Trait.SHARES_MEMORY):
                    ref = next(iter(graph.nodes[ref.node].inputs))
                if ref in self.batch_readers or (ref.node in forward and graph.nodes[ref.node].op not in CONSTANTS):
                    found.setdefault(ref, []).append(self._places.of[node.id])
        return found

    def _find_crossing(self) -> Array:
        of, forward = self._places.of, {node.id for node in self._places.forward}
        last: dict[TensorRef, int] = {}
        for node in self._places.forward:
            for ref in node.inputs:
                if ref.node in forward:  # a variable's value goes to another stage only once a step
                    last[ref] = max(last.get(ref, 0), of[node.id])
        changes = np.zeros(self._count + 1)
        for ref, end in last.items():
            size = self._costs.size(ref)
            changes[of[ref.node] + 1] += size
            changes[end + 1] -= size
        crossing: Array = np.cumsum(changes)[: self._count]
        return crossing


def named_cuts(places: ForwardPlaces, count: int, scopes: Sequence[str]) -> tuple[int, ...]:
    """Return the first places of stages 1, 2, ... of `count`: the places of the first nodes of the scopes.

    If there are as many scopes as stages, everything before the second scope belongs to the first stage.
    """
    found = sorted({_first_place(places, scope) for scope in scopes})
    if len(scopes) == count:
        found = found[1:]
    elif found[0] == 0:
        found = []
    if len(found) != count - 1:
        raise UsageError(
            f"wrong stages: got {', '.join(scopes)} in --stage, expected {count} scopes that begin at different nodes, or "
            f"{count - 1} after the first node"
        )
    return tuple(found)


def _first_place(places: ForwardPlaces, scope: str) -> int:
    name = scope.rstrip("/")
    for place, node in enumerate(places.main):
        if node.name == name or node.name.startswith(f"{name}/"):
            return place
    hint = did_you_mean_node(f"{name}/", (node.name for node in places.main))
    raise UsageError(
        f"no such scope: got '{scope}' in --stage, expected a scope of forward nodes between the batch and the loss{hint}"
    )


def balanced_cuts(costs: CutCosts, schedule: Schedule, room: int) -> tuple[int, ...] | None:
    """Return the first places of stages 1, 2, ..., chosen so that the slowest stage is as fast as possible.

    The time of a stage is the time of its nodes and of the transfers from the previous stage and back. Among cuts with the same
    slowest stage, the cut with the fewest crossing bytes is chosen. Return None if no cut fits `room` bytes per device.
    """
    return _CutSearch(costs, schedule, room).cuts()


class _CutSearch:
    """Dynamic programming over candidates for cuts: first minimize the time of the slowest stage, then the crossing bytes."""

    def __init__(self, costs: CutCosts, schedule: Schedule, room: float) -> None:
        self._schedule = schedule
        self._room = room / schedule.chunks
        count = len(costs.forward)
        self._starts = np.array([0, *_candidates(costs.crossing, schedule.stages)])
        self._ends = np.array([*self._starts[1:], count])
        self._seconds, self._held, self._activations = (
            np.concatenate(([0.0], np.cumsum(values)))
            for values in (costs.forward + costs.backward, costs.held, costs.activations)
        )
        self._transfer = 2 * costs.transfer[self._starts]
        self._bytes = costs.crossing[self._starts]
        self._alive = [
            max(counts[stage] for counts in schedule.alive(stage % schedule.devices)) for stage in range(schedule.stages)
        ]

    def cuts(self) -> tuple[int, ...] | None:
        """Return the best cut; None if none fits."""
        slowest = self._search(np.maximum, np.inf)
        if slowest is None:
            return None
        limit = slowest[0] * _ROUNDING
        found = self._search(lambda before, seconds: before + self._bytes, limit)
        assert found is not None
        return found[1]

    def _search(self, join: Callable[[Array, Array], Array], limit: float) -> tuple[float, tuple[int, ...]] | None:
        """Return the least value, and its cut.

        For each start of the last stage, `join` returns the value of all stages, from the value of the previous stages and the
        seconds of the last stage. A stage may take at most `limit` seconds.
        """
        count = len(self._starts)
        best = np.full(count, np.inf)  # the value of the stages up to the end of a candidate
        chosen: list[Array] = []
        for stage in range(self._schedule.stages):
            before = np.concatenate(([np.inf], best[:-1])) if stage else np.where(np.arange(count) == 0, 0.0, np.inf)
            found, places = np.full(count, np.inf), np.zeros(count, int)
            for end in range(stage, count):
                seconds, fits = self._stage(stage, end)
                values = np.where(fits & (seconds <= limit), join(before, seconds), np.inf)[: end + 1]
                places[end] = int(np.argmin(values))
                found[end] = values[places[end]]
            best = found
            chosen.append(places)
        if best[-1] == np.inf:
            return None
        cuts, end = [], count - 1
        for places in reversed(chosen[1:]):
            cuts.append(int(self._starts[places[end]]))
            end = places[end] - 1
        return float(best[-1]), tuple(reversed(cuts))

    def _stage(self, stage: int, end: int) -> tuple[Array, Array]:
        """For each start of a stage, return the seconds of the stage, and whether it fits in memory."""
        stop = self._ends[end]
        seconds, held, activations = (
            values[stop] - values[self._starts] for values in (self._seconds, self._held, self._activations)
        )
        return seconds + self._transfer, held + activations * self._alive[stage] <= self._room


def _candidates(crossing: Array, stages: int) -> Iterator[int]:
    """Yield the places at which a stage after the first may begin, in order."""
    count = len(crossing)
    windows = min(count - 1, max(MAX_CUTS, stages))
    edges = np.linspace(1, count, windows + 1).astype(int)
    for first, end in pairwise(edges):
        yield int(first + np.argmin(crossing[first:end]))
