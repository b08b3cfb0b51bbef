"""A session: a graph on an inventory, placed when it is first run, and steps that share variables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.collector import collector_paused
from placesim.devices.inventory import Device, DeviceSet
from placesim.devices.names import ANY, DeviceSpec, parse_runtime_name
from placesim.dtypes import DType
from placesim.errors import DeadlineExceededError, InvalidArgumentError, SessionUsageError
from placesim.graph.graph import Graph, NodeDef, TensorRef
from placesim.graph.steps import Config, Fetch, GraphFile, Step
from placesim.placement.placer import Placement, place_graph
from placesim.placement.rewrites import rewrite
from placesim.runtime.dataflow import DataflowExecutor, is_expensive, needs_dataflow
from placesim.runtime.denormals import flushed_denormals
from placesim.runtime.executor import Executor
from placesim.runtime.function_calls import FunctionCalls
from placesim.runtime.partition import Partitions, partition
from placesim.runtime.program import DeviceState, Program, build_program
from placesim.runtime.pruning import ClientGraph, prune, prune_unplaced
from placesim.runtime.requests import Fetched, resolve_fed_tensor, resolve_feed, resolve_fetch
from placesim.runtime.resources import REF_VARIABLE_TYPE, VARIABLE_TYPE, ResourceHandle, Variable
from placesim.runtime.threads import PROCESS_POOLS, ThreadPools, runs_ops_in_parallel

VARIABLE_OPS = {"VarHandleOp": VARIABLE_TYPE, "VariableV2": REF_VARIABLE_TYPE, "Variable": REF_VARIABLE_TYPE}
"""Ops that make a variable, and the type of the resource that holds it."""


class FetchedValue(NamedTuple):
    """One fetched tensor: the name it was fetched by, its type, and its value."""

    name: str
    dtype: DType
    value: Any


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step gave: the fetched tensors in the order of the fetches, targets left out."""

    values: tuple[FetchedValue, ...]
    targets: tuple[str, ...] = ()


class PreparedStep(NamedTuple):
    """The part of the graph that a step runs, cut by device; kept for all steps that feed and fetch the same."""

    client: ClientGraph
    partitions: Partitions
    placement: Placement


@dataclass(slots=True)
class _Prepared:
    step: PreparedStep
    executor: Executor | DataflowExecutor | None = None
    step_resources: dict[str, Any] = field(default_factory=dict)


class Session:
    """A graph on a set of devices.

    `place` is called by the first `run`, and again after `extend`; what it established is in `placements`.  Variables live on
    the device that they were placed on, until `close`.
    """

    def __init__(
        self,
        graph: Graph,
        devices: Sequence[Device],
        config: Config | None = None,
        *,
        directory: Path = Path(),
        bare_fetch_is_target: bool = False,
        initial_values: Mapping[str, Any] | None = None,
        pools: ThreadPools = PROCESS_POOLS,
    ) -> None:
        self.graph = graph
        self.config = config or Config()
        self.device_set = build_device_set(devices, self.config)
        self.placements: list[Placement] = []
        self.transfers: list[Any] = []
        self.directory = directory
        self._bare_is_target = bare_fetch_is_target
        self._initial_values = dict(initial_values or {})
        self._pools = pools
        self._states = {device.name: DeviceState(device) for device in self.device_set.devices}
        self._stateful: dict[str, str] = {}
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        self._default_fetches: list[Fetched] | None = None
        self._placement: Placement | None = None
        self._closed = False

    # --- placing

    @property
    def placement(self) -> Placement:
        """The newest placement; the graph is placed first where that has not been done."""
        if self._placement is None:
            self._placement = self.place()
        return self._placement

    def place(self) -> Placement:
        """Place the whole graph; stateful ops keep the device of the placement before (9.5).

        The result holds TensorFlow's error where there is one, and what was placed before it.
        """
        graph = rewrite(self.graph)
        assigned = {graph.ids[name]: device for name, device in self._stateful.items() if name in graph.ids}
        placement = place_graph(graph, self.device_set, self.config.allow_soft_placement, assigned)
        self.placements.append(placement)
        if placement.error is None:
            self._remember_stateful(placement)
        return placement

    def _remember_stateful(self, placement: Placement) -> None:
        for node in placement.graph.nodes:
            device = placement.devices[node.id]
            if node.signature.is_stateful and device is not None:
                self._stateful[node.name] = device.name

    def extend(self, node_defs: Sequence[NodeDef]) -> None:
        """Add nodes; the next step places the whole graph anew.  InvalidArgumentError for a name that exists (9.6)."""
        for node_def in node_defs:
            if node_def.name in self.graph.ids:
                raise InvalidArgumentError(
                    f"GraphDef argument to Extend includes node '{node_def.name}', "
                    "which was created by a previous call to Create or Extend in this session."
                )
        self.graph.extend(node_defs)
        self._placement = None if node_defs else self._placement
        self._default_fetches = None
        self._prepared.clear()

    # --- steps

    def run(
        self,
        step: Step,
        check: Callable[[], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> StepResult:
        """Run one step once; raises what TensorFlow raises, with node, device and location."""
        if self._closed:
            raise SessionUsageError("Attempted to use a closed Session.")
        if not len(self.graph):
            raise SessionUsageError("The Session graph is empty. Add operations to the graph before calling run().")
        fetched = self.resolve_fetches(step)
        feeds = dict(resolve_feed(self.graph, feed, self.directory) for feed in step.feeds)
        prepared = self._prepare(fetched, tuple(feeds))
        if prepared.executor is None:
            self._restore_variables(prepared.step.placement)
            prepared.executor = self._build_executor(prepared)
        results = self._execute(prepared, feeds, check, progress)
        return self._collect(fetched, prepared, results)

    def resolve_fetches(self, step: Step) -> list[Fetched]:
        """What a step asks for; with no fetches every output of every sink node (one that nobody reads).

        The sinks of a raw graph are targets, as they are in the recordings; `sink_tensors` names their outputs.
        """
        if step.fetches:
            return [resolve_fetch(self.graph, fetch, self._bare_is_target) for fetch in step.fetches]
        if self._default_fetches is None:
            self._default_fetches = default_fetches(self.graph, self._bare_is_target)
        return self._default_fetches

    def sink_tensors(self) -> tuple[Fetch, ...]:
        """A fetch for every output of every sink node; for a node without outputs, of itself."""
        return tuple(
            Fetch(fetched.name if fetched.tensor is None else self.graph.tensor_name_full(fetched.tensor), label=fetched.name)
            for fetched in default_fetches(self.graph)
        )

    def prepare(self, step: Step) -> PreparedStep:
        """The client graph and partitions of a step, as `run` would use them, without running anything."""
        feeds = [resolve_fed_tensor(self.graph, feed) for feed in step.feeds]
        return self._prepare(self.resolve_fetches(step), tuple(feeds)).step

    def _prepare(self, fetched: Sequence[Fetched], feeds: tuple[TensorRef, ...]) -> _Prepared:
        key = (feeds, tuple((f.node, f.tensor) for f in fetched))
        found = self._prepared.get(key)
        if found is None:
            with collector_paused():
                placement, client = self._cut_out(fetched, feeds)
                partitions = partition(client, self.device_set)
            self.transfers += partitions.transfers
            found = self._prepared[key] = _Prepared(PreparedStep(client, partitions, placement))
        return found

    def _cut_out(self, fetched: Sequence[Fetched], feeds: Sequence[TensorRef]) -> tuple[Placement, ClientGraph]:
        """The part of the placed graph that is needed; with `place_pruned_graph` it is cut out first and placed alone (9.4)."""
        graph = rewrite(self.graph) if self.config.place_pruned_graph else self._placed().graph

        def renumbered(ref: TensorRef) -> TensorRef:
            return TensorRef(graph.ids[self.graph.nodes[ref.node].name], ref.slot)

        wanted = (
            [renumbered(ref) for ref in feeds],
            [renumbered(f.tensor) for f in fetched if f.tensor is not None],
            [graph.ids[self.graph.nodes[f.node].name] for f in fetched if f.tensor is None],
        )
        if not self.config.place_pruned_graph:
            return self._placed(), prune(self._placed(), *wanted)
        unplaced = prune_unplaced(graph, self.device_set, *wanted)
        placement = place_graph(unplaced.graph, self.device_set, self.config.allow_soft_placement, self._assigned_in(unplaced))
        self.placements.append(placement)
        if placement.error is not None:
            raise placement.error
        self._remember_stateful(placement)
        return placement, unplaced.placed(placement)

    def _placed(self) -> Placement:
        if self.placement.error is not None:
            raise self.placement.error
        return self.placement

    def _assigned_in(self, unplaced: ClientGraph) -> dict[int, str]:
        """Arguments and results sit on the client device; stateful ops stay where they were (9.5)."""
        ends = {node.id: self.device_set.client.name for node in unplaced.graph.nodes if node.op in ("_Arg", "_Retval")}
        return ends | {unplaced.graph.ids[name]: d for name, d in self._stateful.items() if name in unplaced.graph.ids}

    def _build_executor(self, prepared: _Prepared) -> Executor | DataflowExecutor:
        from placesim.runtime.kernels import load_kernels

        kernels = load_kernels()
        calls = FunctionCalls(
            self.graph,
            self.device_set,
            self.config.allow_soft_placement,
            self._states,
            kernels,
            prepared.step_resources,
            self.placements.append,
        )
        programs = [
            build_program(part.graph, self._states[part.device.name], kernels, prepared.step_resources, calls.call)
            for part in prepared.step.partitions.parts
        ]
        pool = self._pools.inter_op(self.config) if runs_ops_in_parallel(self.config) else None
        if needs_dataflow(programs) or (pool is not None and _has_parallel_work(programs)):
            return DataflowExecutor(programs, pool)
        return Executor(programs)

    def _execute(
        self,
        prepared: _Prepared,
        feeds: Mapping[TensorRef, Any],
        check: Callable[[], None] | None,
        progress: Callable[[int], None] | None,
    ) -> dict[int, Any]:
        assert prepared.executor is not None
        names = {self.graph.tensor_name_full(ref): value for ref, value in feeds.items()}
        values = {index: names[name] for index, name in enumerate(prepared.step.client.feeds)}
        prepared.step_resources.clear()
        with ExitStack() as stack:
            stack.enter_context(self._pools.intra_op(self.config).serving())
            stack.enter_context(flushed_denormals())
            return prepared.executor.run(values, self._with_deadline(check), progress)

    def _with_deadline(self, check: Callable[[], None] | None) -> Callable[[], None] | None:
        if not self.config.operation_timeout_in_ms:
            return check
        deadline = time.monotonic() + self.config.operation_timeout_in_ms / 1000

        def checked() -> None:
            if time.monotonic() > deadline:
                raise DeadlineExceededError("Timed out waiting for notification")
            if check is not None:
                check()

        return checked

    def _collect(self, fetched: Sequence[Fetched], prepared: _Prepared, results: Mapping[int, Any]) -> StepResult:
        by_name = {name: results[index] for index, name in enumerate(prepared.step.client.fetches)}
        values = tuple(
            FetchedValue(
                f.name,
                self.graph.nodes[f.node].signature.output_dtypes[f.tensor.slot],
                by_name[self.graph.tensor_name_full(f.tensor)],
            )
            for f in fetched
            if f.tensor is not None
        )
        return StepResult(values, tuple(f.name for f in fetched if f.tensor is None))

    # --- state

    def _restore_variables(self, placement: Placement) -> None:
        """Set the values that came with the graph on the device where each variable was placed."""
        values, self._initial_values = self._initial_values, {}
        for node in placement.graph.nodes if values else ():
            name = node.attrs.get("shared_name") or node.name
            value = values.get(name, values.get(node.name))
            kind = VARIABLE_OPS.get(node.op)
            device = placement.devices[node.id]
            if value is None or kind is None or device is None:
                continue
            dtype = node.attrs["dtype"]
            handle = ResourceHandle(device.name, node.attrs.get("container") or "localhost", name, kind, dtype)
            resources = self._states[device.name].resources
            resources.lookup_or_create(handle, partial(Variable, name, dtype)).value = np.asarray(value)

    def close(self) -> None:
        """Forget all variables; a later step is an error."""
        self._closed = True
        self._states.clear()
        self._prepared.clear()


def default_fetches(graph: Graph, only_targets: bool = False) -> list[Fetched]:
    """Every output of every node that nobody reads, in graph order; a node without outputs is a target."""
    read = bytearray(len(graph))
    for node in graph.nodes:
        for i in node.input_nodes:
            read[i] = 1
        for i in node.control_inputs:
            read[i] = 1
    found = []
    for node in graph.nodes:
        if read[node.id]:
            continue
        count = 0 if only_targets else len(node.signature.output_dtypes)
        if not count:
            found.append(Fetched(node.name, node.id, None))
        found += [Fetched(graph.tensor_name(ref), node.id, ref) for ref in map(TensorRef, [node.id] * count, range(count))]
    return found


def build_device_set(devices: Sequence[Device], config: Config) -> DeviceSet:
    """The devices as a session sees them: local to its master, without the remote tasks that its filters leave out (3.9)."""
    local = devices[0].spec.address_space if devices else ANY
    if config.master:
        spec = parse_runtime_name(config.master)
        if spec is None or not any(spec.matches(device.spec) for device in devices):
            raise InvalidArgumentError(f"config.master names no task of the inventory: got {config.master!r}")
        local = next(device.spec.address_space for device in devices if spec.matches(device.spec))
    filters = [spec for text in config.device_filters if (spec := parse_runtime_name(text)) is not None]
    several = len({device.spec.address_space for device in devices}) > 1
    if filters and several:
        devices = [d for d in devices if d.spec.address_space == local or any(_is_in(d.spec, f) for f in filters)]
    return DeviceSet(devices, local)


def _is_in(spec: DeviceSpec, wanted: DeviceSpec) -> bool:
    return wanted.address_space.matches(spec)


def _has_parallel_work(programs: Sequence[Program]) -> bool:
    """Whether there are at least two ops that deserve a thread of their own."""
    found = sum(is_expensive(instruction.kernel) for program in programs for instruction in program.instructions)
    return found > 1


def open_session(file: GraphFile, devices: Sequence[Device], config: Config | None = None, directory: Path = Path()) -> Session:
    """A session on what a graph file says, with the inventory and config that were settled on."""
    return Session(
        file.graph,
        devices,
        config or file.config,
        directory=directory,
        bare_fetch_is_target=file.is_raw,
        initial_values=file.initial_values,
    )
