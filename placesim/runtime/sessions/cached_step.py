"""A prepared step with its executor, kept for all steps with the same feeds and fetches."""

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
    """A prepared step and, after its first run, its executor; shared by steps with the same feeds and fetches.

    `step_resources` are emptied before each run.  Where memory is accounted for, `fitting` are the shapes of what was fed when
    it turned out that the step fits whatever its order, and `settled` those with which all others follow from them too: nothing
    is accounted for in further steps of these shapes.  With `open` they do not, so that each step is another.
    """

    step: PreparedStep
    executor: AnyExecutor | None = None
    fitting: tuple[tuple[int, ...], ...] | None = None
    settled: tuple[tuple[int, ...], ...] | None = None
    open: tuple[tuple[int, ...], ...] | None = None
    step_resources: dict[str, Any] = field(default_factory=dict)
    buffers: Buffers | None = None

    def shown(self, results: dict[int, Any], states: Mapping[str, DeviceState]) -> dict[int, Any]:
        """Values by `_Retval` index, with current values for aliases of variables."""
        if self.buffers is None:
            self.buffers = shared_buffers(self.step.client)
        show_ends(results, self.buffers, states)
        return results

    def arguments(self, graph: Graph, feeds: Mapping[TensorRef, Any]) -> dict[int, Any]:
        """The fed values by `_Arg` index; `feeds` are by the ids of the session's graph."""
        by_name = {graph.tensor_name_full(ref): value for ref, value in feeds.items()}
        return {index: by_name[name] for index, name in enumerate(self.step.client.feeds)}

    def collect(self, graph: Graph, fetched: Sequence[RequestedName], results: Mapping[int, Any]) -> StepResult:
        """Order the values of `_Retval` nodes by the fetches."""
        by_name = {name: results[index] for index, name in enumerate(self.step.client.fetches)}
        values = tuple(
            FetchedValue(f.name, self._dtype(graph, f.tensor), by_name[graph.tensor_name_full(f.tensor)])
            for f in fetched
            if f.tensor is not None
        )
        return StepResult(values, tuple(f.name for f in fetched if f.tensor is None))

    def _dtype(self, graph: Graph, tensor: TensorRef) -> DataType:
        """Type of a placed tensor; a lowered op has the types of its functions, not the declared ones."""
        node, placed = graph.nodes[tensor.node], self.step.placement.graph
        if node.name in placed.ids:  # else it is fed
            node = placed.node(node.name)
        return node.signature.output_dtypes[tensor.slot]
