"""Prepared step with its executor, which a session keeps for all steps with the same feeds and fetches."""

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
    """A prepared step, its executor (made by the first run), and its resources, which are deleted before each run.

    `fitting`, `settled` and `open` are shapes of fed values, or None. They tell whether a further step with these shapes must
    be accounted for:

    - `fitting`: the step with these shapes fits into memory in any order of nodes.
    - `settled`: these shapes also determine all other shapes of the step, so a further step need not be accounted for.
    - `open`: these shapes do not determine all other shapes, so each step must be accounted for.
    """

    step: PreparedStep
    executor: AnyExecutor | None = None
    fitting: tuple[tuple[int, ...], ...] | None = None
    settled: tuple[tuple[int, ...], ...] | None = None
    open: tuple[tuple[int, ...], ...] | None = None
    step_resources: dict[str, Any] = field(default_factory=dict)
    buffers: Buffers | None = None

    def shown(self, results: dict[int, Any], states: Mapping[str, DeviceState]) -> dict[int, Any]:
        """Return the values by `_Retval` index; a fetch that shares a variable's memory has the variable's current value."""
        if self.buffers is None:
            self.buffers = shared_buffers(self.step.client)
        show_ends(results, self.buffers, states)
        return results

    def arguments(self, graph: Graph, feeds: Mapping[TensorRef, Any]) -> dict[int, Any]:
        """Return the fed values by `_Arg` index, from values by tensor of the session's graph."""
        by_name = {graph.tensor_name_full(ref): value for ref, value in feeds.items()}
        return {index: by_name[name] for index, name in enumerate(self.step.client.feeds)}

    def collect(self, graph: Graph, fetched: Sequence[RequestedName], results: Mapping[int, Any]) -> StepResult:
        """Return the result of a run, with values in the order of the fetches, from values by `_Retval` index."""
        by_name = {name: results[index] for index, name in enumerate(self.step.client.fetches)}
        values = tuple(
            FetchedValue(f.name, self._dtype(graph, f.tensor), by_name[graph.tensor_name_full(f.tensor)])
            for f in fetched
            if f.tensor is not None
        )
        return StepResult(values, tuple(f.name for f in fetched if f.tensor is None))

    def _dtype(self, graph: Graph, tensor: TensorRef) -> DataType:
        """Return the type of a fetched tensor; a lowered op has the types of its functions, not those that it declares."""
        node, placed = graph.nodes[tensor.node], self.step.placement.graph
        if node.name in placed.ids:  # a node that a feed replaces may be missing
            # lowering replaces an If or While by an IdentityN whose types may differ
            node = placed.node(node.name)
        return node.signature.output_dtypes[tensor.slot]
