"""Runs function bodies: each is placed, partitioned and compiled for a caller's device, and then kept for further calls.

A body's nodes without a device of their own go to the caller's, where it has a kernel for them; its arguments sit where the
caller's inputs come from (9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from placesim.devices.inventory import DeviceSet
from placesim.dtypes import DType
from placesim.errors import InvalidArgumentError
from placesim.graph.functions import argument_types, find_function, instantiate
from placesim.graph.graph import Graph
from placesim.ops.attributes import FunctionName
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.executors import AnyExecutor, build_executor
from placesim.runtime.kernels.functional import ArgumentCountError, other_types
from placesim.runtime.partition import Partition, partition
from placesim.runtime.program import DeviceState
from placesim.runtime.pruning import prune
from placesim.runtime.resources import ResourceHandle


class PlacedFunction(NamedTuple):
    """A function that was called: its placement, and what runs it."""

    placement: Placement
    executor: AnyExecutor
    result_count: int


class FunctionCalls:
    """The functions that a session has called, by name, attrs and device.

    A function that is called while it runs (recursion) gets a second executor.  `log` is told of each body's first placement.
    """

    def __init__(
        self,
        graph: Graph,
        device_set: DeviceSet,
        soft: bool,
        states: Mapping[str, DeviceState],
        step_resources: dict[str, Any],
        log: Callable[[Placement], None],
        ledger: Ledger | None = None,
    ) -> None:
        self._log = log
        self._ledger = ledger
        self._graph = graph
        self._device_set = device_set
        self._soft = soft
        self._states = states
        self._step_resources = step_resources
        self._argument_types: dict[FunctionName, tuple[DType, ...]] = {}
        self._idle: dict[tuple[Any, ...], list[PlacedFunction]] = {}

    def call(self, function: FunctionName, inputs: Sequence[Any], device: str) -> Sequence[Any]:
        """The function's results.

        Raises InvalidArgumentError for an unknown function and for arguments that it does not take, and what its nodes raise.
        """
        self._check_arguments(function, inputs)
        homes = tuple(value.device if isinstance(value, ResourceHandle) else device for value in inputs)
        key = (function.key, device, homes)
        is_first = key not in self._idle
        idle = self._idle.setdefault(key, [])
        found = idle.pop() if idle else self._place(function, device, homes)
        if is_first:
            self._log(found.placement)
        try:
            results = found.executor.run(dict(enumerate(inputs)))
        finally:
            idle.append(found)
        return [results[index] for index in range(found.result_count)]

    def _check_arguments(self, function: FunctionName, inputs: Sequence[Any]) -> None:
        wanted = self._argument_types.get(function)
        if wanted is None:
            found = find_function(self._graph, function.name)
            wanted = self._argument_types[function] = argument_types(found, dict(function.attrs))
        if len(inputs) != len(wanted):
            counts = (len(wanted), len(inputs))
            raise ArgumentCountError(f"Expects {len(wanted)} arguments, but {len(inputs)} is provided", counts=counts)
        for index, given, dtype in other_types(inputs, wanted):
            raise InvalidArgumentError(f"Expects arg[{index}] to be {dtype.name} but {given} is provided")

    def _admit(self, function: FunctionName, parts: Sequence[Partition]) -> None:
        """Refuse a body that cannot run in this process: none, where all devices are here."""

    def _place(self, function: FunctionName, device: str, homes: Sequence[str]) -> PlacedFunction:
        body = instantiate(self._graph, find_function(self._graph, function.name), dict(function.attrs))
        names = [node.name for node in body.graph.nodes]
        assigned = {names[node_id]: home for node_id, home in zip(body.args, homes, strict=True)}
        placement = SessionPlacer(self._device_set, self._soft, device).place(body.graph, assigned)
        if placement.error is not None:
            raise placement.error
        targets = [placement.graph.ids[names[node_id]] for node_id in (*body.results, *body.control_results)]
        partitions = partition(prune(placement, targets=targets), self._device_set)
        self._admit(function, partitions.parts)
        executor = build_executor(
            partitions.parts, self._states, self._step_resources, self.call, ledger=self._ledger, is_body=True
        )
        return PlacedFunction(placement, executor, len(body.results))
