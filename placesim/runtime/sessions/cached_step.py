"""A prepared step and its executor, kept for all steps with the same feeds and fetches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placesim.core.dtypes import DataType
from placesim.graph.graph import Graph, TensorRef
from placesim.runtime.executors.executor_choice import AnyExecutor
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.partitioning.prepared_step import FetchedValue, PreparedStep, StepResult
from placesim.runtime.partitioning.step_requests import RequestedName
from placesim.runtime.sessions.shared_variable_memory import Buffers, shared_buffers, show_ends


@dataclass(slots=True)
class CachedStep:
    """A prepared step and its executor, which its first run creates. Steps with the same feeds and fetches share it.

    `step_resources` is emptied before each run.

    The other fields serve memory accounting and hold shapes of fed values. With `fitting`, the step fits into memory in any
    order of nodes. With `settled`, the fed shapes also determine all other shapes, so further steps with them need no
    accounting. With `open` they do not, so every step needs it.
    """

    step: PreparedStep
    executor: AnyExecutor | None = None
    fitting: tuple[tuple[int, ...], ...] | None = None
    settled: tuple[tuple[int, ...], ...] | None = None
    open: tuple[tuple[int, ...], ...] | None = None
    step_resources: dict[str, Any] = field(default_factory=dict)
    buffers: Buffers | None = None

    def shown(self, results: dict[int, Any], states: Mapping[str, DeviceState]) -> dict[int, Any]:
        """Return the values by `_Retval` index, with current values for fetches that alias variables."""
        if self.buffers is None:
            self.buffers = shared_buffers(self.step.client)
        show_ends(results, self.buffers, states)
        return results

    def arguments(self, graph: Graph, feeds: Mapping[TensorRef, Any]) -> dict[int, Any]:
        """Return the fed values by `_Arg` index. `feeds` is keyed by tensors of the session's graph."""
        by_name = {graph.tensor_name_full(ref): value for ref, value in feeds.items()}
        return {index: by_name[name] for index, name in enumerate(self.step.client.feeds)}

    def collect(self, graph: Graph, fetched: Sequence[RequestedName], results: Mapping[int, Any]) -> StepResult:
        """Return the values of the `_Retval` nodes in the order of the fetches."""
        by_name = {name: results[index] for index, name in enumerate(self.step.client.fetches)}
        values = tuple(
            FetchedValue(f.name, self._dtype(graph, f.tensor), by_name[graph.tensor_name_full(f.tensor)])
            for f in fetched
            if f.tensor is not None
        )
        return StepResult(values, tuple(f.name for f in fetched if f.tensor is None))

    def _dtype(self, graph: Graph, tensor: TensorRef) -> DataType:
        """Return the type of a placed tensor. A lowered op has the types of its functions, not the declared ones."""
        node, placed = graph.nodes[tensor.node], self.step.placement.graph
        if node.name in placed.ids:  # else it is fed
            node = placed.node(node.name)
        return node.signature.output_dtypes[tensor.slot]
