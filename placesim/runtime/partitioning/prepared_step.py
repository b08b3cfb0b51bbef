"""A step's request, the prepared step (the part of the placed graph that the request needs, partitioned), and its results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from placesim.core.dtypes import DataType
from placesim.graph.graph import Graph, TensorRef
from placesim.placement.input_checks import missing_output
from placesim.placement.placer import Placement
from placesim.runtime.partitioning.partition import Partitions
from placesim.runtime.partitioning.pruning import ClientGraph
from placesim.runtime.partitioning.step_requests import RequestedName


class FetchedValue(NamedTuple):
    """One fetched tensor: the name used in the fetch, its type, and its value."""

    name: str
    dtype: DataType
    value: Any


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step: fetched tensors in the order of the fetches, and the names of targets."""

    values: tuple[FetchedValue, ...]
    targets: tuple[str, ...] = ()


class StepRequest(NamedTuple):
    """The tensors that a step feeds and fetches, and its targets (nodes that it only runs); all ids are of one graph."""

    feeds: tuple[TensorRef, ...]
    fetches: tuple[TensorRef, ...]
    targets: tuple[int, ...]

    def in_graph(self, own: Graph, other: Graph) -> StepRequest:
        """Return the request with the ids of `other`, where nodes have the same names as in `own`.

        Raises OutOfRangeError for an output that a node of `other` lacks.
        """

        def renumber(node_id: int) -> int:
            return other.ids[own.nodes[node_id].name]

        def renumbered_tensor(ref: TensorRef) -> TensorRef:
            node = other.nodes[renumber(ref.node)]
            count = len(node.signature.output_dtypes)
            if ref.slot >= count:
                raise missing_output(node.name, node.op, count, ref.slot)
            return TensorRef(node.id, ref.slot)

        def renumbered(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
            return tuple(map(renumbered_tensor, refs))

        return StepRequest(renumbered(self.feeds), renumbered(self.fetches), tuple(map(renumber, self.targets)))


def make_step_request(feeds: Iterable[TensorRef], fetched: Iterable[RequestedName]) -> StepRequest:
    """Return the request for resolved feeds and fetches; a fetch without a tensor is a target."""
    listed = list(fetched)
    tensors = tuple(f.tensor for f in listed if f.tensor is not None)
    return StepRequest(tuple(feeds), tensors, tuple(f.node for f in listed if f.tensor is None))


class PreparedStep(NamedTuple):
    """The part of the graph that a step runs, and its partitions."""

    client: ClientGraph
    partitions: Partitions
    placement: Placement
