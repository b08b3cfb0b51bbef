"""Calls of functions: a body is placed for the caller's device, partitioned and compiled, and kept for later calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError
from placesim.graph.functions import argument_types, find_function
from placesim.graph.graph import Graph
from placesim.machine.inventory import DeviceSet
from placesim.ops.attributes import FunctionName
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.functional import ArgumentCountError, other_types
from placesim.placement.function_bodies import Instantiation, place_body
from placesim.placement.placer import Placement
from placesim.runtime.executors.executor_choice import AnyExecutor, build_executor
from placesim.runtime.executors.observers import StepObserver
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.partitioning.partition import Partition, partition
from placesim.runtime.partitioning.pruning import prune


class PlacedFunction(NamedTuple):
    """The placement and the executor of a called function."""

    placement: Placement
    executor: AnyExecutor
    result_count: int


class FunctionCalls:
    """The functions that a session has called, by name, attrs and device.

    If a function is called while it runs (recursion), it gets a second executor. `log` is called with the first placement of
    each body, except for functions that run entirely on the caller's device: TensorFlow logs nothing for them.
    """

    def __init__(
        self,
        graph: Graph,
        device_set: DeviceSet,
        soft: bool,
        states: Mapping[str, DeviceState],
        step_resources: dict[str, Any],
        log: Callable[[Placement], None],
        observer: StepObserver | None = None,
    ) -> None:
        self._log = log
        self._observer = observer
        self._graph = graph
        self._device_set = device_set
        self._soft = soft
        self._states = states
        self._step_resources = step_resources
        self._argument_types: dict[FunctionName, tuple[DataType, ...]] = {}
        self._idle: dict[tuple[Any, ...], list[PlacedFunction]] = {}

    def call(self, how: Instantiation, function: FunctionName, inputs: Sequence[Any], device: str) -> Sequence[Any]:
        """Call a function from a node on a device, and return its results.

        Raises InvalidArgumentError for an unknown function or unsuitable arguments, and the errors of its nodes.
        """
        self._check_arguments(function, inputs)
        # a resource stays where it is, and its device is part of the key of a body (9.8)
        homes = tuple(value.device if isinstance(value, ResourceHandle) else device for value in inputs)
        key = (function.key, how, device, homes)
        is_first = key not in self._idle
        idle = self._idle.setdefault(key, [])
        # a running executor cannot run again: a recursive function gets one for each level
        found = idle.pop() if idle else self._place(how, function, device, homes)
        # a second executor for a recursive call is no new instantiation, so it is not logged (9.8)
        if is_first and how is not Instantiation.SINGLE_DEVICE:
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
        """Raise an error for a body that cannot run in this process; here every body can, as all devices are local."""

    def _place(self, how: Instantiation, function: FunctionName, device: str, homes: Sequence[str]) -> PlacedFunction:
        body = place_body(self._graph, function, how, device, homes, self._device_set, self._soft)
        placement = body.placement
        if placement.error is not None:
            raise placement.error
        partitions = partition(prune(placement, targets=body.targets), self._device_set)
        self._admit(function, partitions.parts)
        executor = build_executor(
            partitions.parts, self._states, self._step_resources, self.call, observer=self._observer, is_body=True
        )
        return PlacedFunction(placement, executor, len(body.written.results))
