"""A session: a graph on a machine, placed on demand, with steps that share variables.

The session keeps everything that outlives a step: the graph, its placements, the devices' resources and the prepared steps. A
step's names are resolved (`step_requests.py`), the graph is pruned (`pruning.py`) and partitioned (`partition.py`), and an
executor runs the partitions (`executor_choice.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placesim.core.errors import DeadlineExceededError, InvalidArgumentError, SessionUsageError
from placesim.core.files.access import FileAccess
from placesim.core.process.deadlines import run_within
from placesim.core.process.gc_pause import collector_paused
from placesim.graph.graph import Graph, NodeDef, TensorRef
from placesim.graph.session_steps import Config, Feed, Fetch, GraphStep
from placesim.machine.inventory import Device
from placesim.ops.categories import FUNCTION_ENDS
from placesim.ops.kernels.abstract_tensor import SketchedValueError
from placesim.ops.kernels.device_resources import ResourceManager, SharedResources, value_dims
from placesim.ops.process.buffer_ownership import own_all
from placesim.ops.process.denormals import flushing_denormals
from placesim.ops.process.memory_limit import ProcessMemory, serving_memory
from placesim.placement.placer import Placement
from placesim.placement.rewrites import rewrite
from placesim.placement.session_placer import SessionPlacer
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.executors.executor_choice import AnyExecutor, build_executor
from placesim.runtime.executors.function_calls import FunctionCalls
from placesim.runtime.executors.initial_values import set_initial_values
from placesim.runtime.executors.observers import StepObserver
from placesim.runtime.executors.program import AbstractRun, DeviceState
from placesim.runtime.executors.session_turns import Turns
from placesim.runtime.executors.thread_pools import PROCESS_POOLS, ThreadPools, runs_ops_in_parallel
from placesim.runtime.partitioning.partition import partition
from placesim.runtime.partitioning.prepared_step import PreparedStep, StepRequest, StepResult, make_step_request
from placesim.runtime.partitioning.pruning import ClientGraph, prune, prune_unplaced
from placesim.runtime.partitioning.step_requests import (
    RequestedName,
    default_fetches,
    resolve_fed_tensor,
    resolve_feed,
    resolve_fetch,
)
from placesim.runtime.sessions.cached_step import CachedStep
from placesim.runtime.sessions.visible_devices import build_device_set

if TYPE_CHECKING:
    from placesim.runtime.dry_runs.dry_run_feeds import FeedShapes
    from placesim.runtime.recording.kernel_timing import Measurements
    from placesim.runtime.saving.device_state import DeviceRecord, SavedState

Progress = Callable[[int], None]


class GraphSession:
    """A graph on a set of devices.

    The first `run`, and the first after `extend`, calls `place`; `placements` has all results. Variables live on the device on
    which they were placed, until `close`. Without `files`, the graph may read files below `directory`.

    A `ledger` accounts for the memory of the devices. With `sketched`, steps are dry runs. `measurements` records when kernels
    and transfers run. `shared` has the resources that several sessions have in common.

    Raises InvalidArgumentError if the config's master is not a task of the machine.
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
        files: FileAccess | None = None,
        ledger: Ledger | None = None,
        sketched: FeedShapes | None = None,
        measurements: Measurements | None = None,
        shared: SharedResources | None = None,
    ) -> None:
        self.graph = graph
        self.config = config or Config()
        self.device_set = build_device_set(devices, self.config, graph.registry.rules)
        self.placements: list[Placement] = []
        self.directory = directory
        self._bare_is_target = bare_fetch_is_target
        self._initial_values = dict(initial_values or {})
        self._pools = pools
        self._memory = ProcessMemory(self.config.memory_limit)
        self._files = FileAccess.of([directory]) if files is None else files
        guesses = None if sketched is None else _abstract_run(sketched)
        self._states = {
            d.name: DeviceState(
                d,
                self._memory,
                files=self._files,
                guesses=guesses,
                measurements=measurements,
                fuses=self.config.fuses_ops,
                folds=self.config.do_constant_folding,
                resources=ResourceManager() if shared is None else shared.of(d.name),
            )
            for d in self.device_set.devices
        }
        self._placer = SessionPlacer(self.device_set, self.config.allow_soft_placement)
        self._ledger = ledger
        self._sketched = sketched
        if ledger is not None:
            states = self._states  # not `self`: the ledger must not keep the session alive by a cycle of references
            ledger.find_resources = lambda device: states[device].resources
        self._prepared: dict[StepRequest, CachedStep] = {}
        self._running: set[int] = set()
        self._turns = Turns(None if shared is None else shared.condition)
        self._default_fetches: list[RequestedName] | None = None
        self._placement: Placement | None = None
        self._kept: dict[str, SavedState] = {}
        self._closed = False

    # --- checkpoints

    def records(self) -> tuple[DeviceRecord, ...]:
        """Return the state of the devices between two steps, for a checkpoint; its tensors are shared, not copied."""
        from placesim.runtime.saving.device_state import record_state

        return tuple(map(record_state, self._states.values()))

    def restore(self, records: Sequence[DeviceRecord], done: Sequence[GraphStep] = ()) -> None:
        """Restore the state of an earlier session that ran the steps `done`; call it before the first step.

        The nodes that initialized iterators run again, with the feeds of the last step in which they ran, and the iterators
        skip the elements that were consumed. Raises the errors of `restore_state` and of these nodes.
        """
        from placesim.runtime.saving.device_state import restore_state

        self._initial_values = {}
        found = {record.device: restore_state(record) for record in records}
        makers = dict.fromkeys(maker for record in records for maker in record.makers if maker in self.graph.ids)
        if makers:
            self._kept = {device: kept.before() for device, kept in found.items()}
            for maker in makers:
                self.run(GraphStep((Fetch(maker),), self._last_feeds(maker, done)))
            self._prepared.clear()
            found = {device: kept._replace(resources=ResourceManager()) for device, kept in found.items()}
        self._kept = found

    def _last_feeds(self, node: str, done: Sequence[GraphStep]) -> tuple[Feed, ...]:
        """Return the feeds of the last step in `done` that ran the node."""
        for step in reversed(done):
            if any(node in part.graph.ids for part in self.prepare(step).partitions.parts):
                return step.feeds
        return ()

    # --- the graph and its placement

    @property
    def placement(self) -> Placement:
        """The newest placement; places the graph if necessary."""
        if self._placement is None:
            self._placement = self.place()
        return self._placement

    def place(self) -> Placement:
        """Place the whole graph. A failed placement has TensorFlow's error, and the nodes that were placed before it."""
        return self._added(self._placer.place(self.graph))

    def _added(self, placement: Placement) -> Placement:
        self.placements.append(placement)
        return placement

    def extend(self, node_defs: Sequence[NodeDef]) -> None:
        """Add nodes to a copy of the graph, which the next step places as a whole (9.6).

        Raises InvalidArgumentError for the name of an existing node.
        """
        for node_def in node_defs:
            if node_def.name in self.graph.ids:
                raise InvalidArgumentError(
                    f"GraphDef argument to Extend includes node '{node_def.name}', "
                    "which was created by a previous call to Create or Extend in this session."
                )
        if node_defs:
            self.graph = self.graph.copied()
            self.graph.extend(node_defs)
            self.grow()
        self._prepared.clear()

    def grow(self) -> None:
        """Discard the placement because the graph has new nodes; the next step places the whole graph again (9.6)."""
        self._placement = None
        self._default_fetches = None

    def close(self) -> None:
        """Discard all variables and cancel steps that wait in other threads. A later step raises SessionUsageError."""
        self._closed = True
        self._turns.close()
        if self._ledger is not None:
            self._ledger.close()
        self._states.clear()
        self._prepared.clear()

    # --- requests of a step

    def resolve_fetches(self, step: GraphStep) -> list[RequestedName]:
        """Resolve the fetches of a step; without fetches, return every output of every sink node (a node without readers).

        In a raw graph, sink nodes are targets instead, as in the recordings of TensorFlow; `sink_tensors` has their outputs.
        Raises RequestError for a name that the graph lacks.
        """
        if step.fetches:
            return [resolve_fetch(self.graph, fetch, self._bare_is_target) for fetch in step.fetches]
        if self._default_fetches is None:
            self._default_fetches = default_fetches(self.graph, self._bare_is_target)
        return self._default_fetches

    def sink_tensors(self) -> tuple[Fetch, ...]:
        """Return a fetch for every output of every sink node, and for each sink node without outputs."""
        return tuple(
            Fetch(fetched.name if fetched.tensor is None else self.graph.tensor_name_full(fetched.tensor), label=fetched.name)
            for fetched in default_fetches(self.graph)
        )

    # --- prepared steps

    def prepare(self, step: GraphStep) -> PreparedStep:
        """Return the client graph and the partitions of a step, without running anything.

        Raises TensorFlow's errors of placement, pruning and partitioning.
        """
        return self.prepared(step).step

    def prepared(self, step: GraphStep) -> CachedStep:
        """Return the prepared step with its executor, which is None before the first run. Raises the errors of `prepare`."""
        fetched = self.resolve_fetches(step)
        if self._sketched is not None:
            # a dry run also feeds placeholders that the step does not feed, which changes the partitions
            with serving_memory(self._memory):
                return self._prepare(make_step_request(self._resolve_feeds(step, fetched), fetched))
        return self._prepare(make_step_request([resolve_fed_tensor(self.graph, feed) for feed in step.feeds], fetched))

    def prepared_for(self, wanted: StepRequest) -> PreparedStep:
        """Return the prepared step for a request. Raises the errors of `prepare`."""
        return self._prepare(wanted).step

    def _prepare(self, wanted: StepRequest) -> CachedStep:
        found = self._prepared.get(wanted)
        if found is None:
            with collector_paused():
                placement, client = self._place_pruned(wanted) if self.config.place_pruned_graph else self._cut_out(wanted)
                step = PreparedStep(client, partition(client, self.device_set), placement)
            found = self._prepared[wanted] = CachedStep(step)
        return found

    def _cut_out(self, wanted: StepRequest) -> tuple[Placement, ClientGraph]:
        """Return the placement of the whole graph, and the part of the graph that the request needs."""
        placement = _checked(self.placement)
        return placement, prune(placement, *wanted.in_graph(self.graph, placement.graph))

    def _place_pruned(self, wanted: StepRequest) -> tuple[Placement, ClientGraph]:
        """Place only the part of the graph that the request needs (9.4); arguments and results are on the client device."""
        graph = rewrite(self.graph)
        unplaced = prune_unplaced(graph, self.device_set, *wanted.in_graph(self.graph, graph))
        ends = {node.name: self.device_set.client.name for node in unplaced.graph.nodes if node.op in FUNCTION_ENDS}
        placement = _checked(self._added(self._placer.place_rewritten(unplaced.graph, ends)))
        return placement, unplaced.placed(placement)

    # --- runs of steps

    def run(self, step: GraphStep, progress: Progress | None = None) -> StepResult:
        """Run one step once; `progress` is called from time to time with the number of finished nodes.

        Raises TensorFlow's errors, with node, device and location, and DeadlineExceededError after the config's timeout.
        """
        try:
            return self._run_within(self.config.timeout_seconds, lambda: self._run(step, progress))
        except DeadlineExceededError as error:
            if self._turns.waiting_node:
                error.help = (f"{self._turns.waiting_node} was waiting, and nothing else of the step could run",)
            self._prepared.clear()  # the abandoned step may still use its executor
            raise

    def run_resolved(
        self,
        fetched: Sequence[RequestedName],
        feeds: Mapping[TensorRef, Any],
        measurements: Measurements | None = None,
        timeout_seconds: float | None = None,
    ) -> StepResult:
        """Run one step with resolved fetches and feeds; the fed arrays must have the tensors' types and compatible shapes.

        If given, `measurements` records this step, and `timeout_seconds` replaces the config's timeout. Raises the errors of
        `run`.
        """
        limit = self.config.timeout_seconds if timeout_seconds is None else timeout_seconds

        def work() -> StepResult:
            with self._turns:
                return self._run_wanted(fetched, feeds, None, measurements)

        return self._run_within(limit, work)

    def _run_within(self, seconds: float | None, work: Callable[[], StepResult]) -> StepResult:
        try:
            return run_within(seconds, work)
        except DeadlineExceededError:
            self._turns.give_up()
            raise

    def _run(self, step: GraphStep, progress: Progress | None) -> StepResult:
        self._check_usable()
        fetched = self.resolve_fetches(step)
        with serving_memory(self._memory):
            feeds = self._resolve_feeds(step, fetched)
        with self._turns:
            return self._run_wanted(fetched, feeds, progress)

    def _check_usable(self) -> None:
        if self._closed:
            raise SessionUsageError("Attempted to use a closed Session.")
        if not len(self.graph):
            raise SessionUsageError("The Session graph is empty. Add operations to the graph before calling run().")

    def _run_wanted(
        self,
        fetched: Sequence[RequestedName],
        feeds: Mapping[TensorRef, Any],
        progress: Progress | None,
        measurements: Measurements | None = None,
    ) -> StepResult:
        self._check_usable()
        prepared = self._prepare(make_step_request(feeds, fetched))
        if measurements is not None or id(prepared) in self._running:
            # measured kernels must be compiled with their observer, and the executor of a running step is in use
            prepared = CachedStep(prepared.step)
        self._running.add(id(prepared))
        try:
            with self._measured(measurements):
                results = self._execute(prepared, feeds, progress)
        except SketchedValueError as error:
            from placesim.runtime.dry_runs.dry_run_feeds import suggest_settlements

            error.help = suggest_settlements(error)
            raise
        finally:
            self._running.discard(id(prepared))
        return prepared.collect(self.graph, fetched, results)

    @contextmanager
    def _measured(self, measurements: Measurements | None) -> Iterator[None]:
        """Measure the steps that run in this context, if `measurements` is not None."""
        if measurements is None:
            yield
            return
        saved = {name: state.measurements for name, state in self._states.items()}
        for state in self._states.values():
            state.measurements = measurements
        try:
            with measurements.step(0):
                yield
        finally:
            for name, found in saved.items():
                if name in self._states:
                    self._states[name].measurements = found

    def _resolve_feeds(self, step: GraphStep, fetched: Sequence[RequestedName]) -> dict[TensorRef, Any]:
        if self._sketched is not None:
            from placesim.runtime.dry_runs.dry_run_feeds import sketch_feeds

            return sketch_feeds(self.graph, step, fetched, self._sketched, self.directory, self._files)
        return dict(resolve_feed(self.graph, feed, self.directory, self._files) for feed in step.feeds)

    def _execute(self, prepared: CachedStep, feeds: Mapping[TensorRef, Any], progress: Progress | None) -> dict[int, Any]:
        if prepared.executor is None:
            values, self._initial_values = self._initial_values, {}
            set_initial_values(values, prepared.step.placement, self._states)
            if self._kept:
                from placesim.runtime.saving.device_state import settle

                kept, self._kept = self._kept, {}
                settle(kept, prepared.step.placement, self._states)
            if self._sketched is not None and self._sketched.guesses.is_free:
                from placesim.runtime.dry_runs.assumed_variables import initialize_variables

                initialize_variables(prepared.step.client, self._states, self._sketched.guesses)
            if self._ledger is not None:
                self._ledger.adopt(self._states)
            with collector_paused():
                prepared.executor = self._build_executor(prepared)
        prepared.step_resources.clear()
        arguments = prepared.arguments(self.graph, feeds)
        with self._pools.intra_op(self.config).serving(), flushing_denormals(), serving_memory(self._memory):
            # the ledger can account for only one step at a time, so a step that runs while another waits is not accounted for
            if self._ledger is None or len(self._running) > 1:
                results = prepared.executor.run(arguments, progress, is_accounted=False)
            else:
                results = self._run_accounted(self._ledger, prepared, arguments, progress)
        own_all(prepared.shown(results, self._states), self._memory)
        return results

    def _run_accounted(
        self, ledger: Ledger, prepared: CachedStep, arguments: Mapping[int, Any], progress: Progress | None
    ) -> dict[int, Any]:
        """Run a step, and account for its memory unless an earlier run has shown that a step with these shapes always fits."""
        assert prepared.executor is not None
        shapes = tuple(value_dims(value) for value in arguments.values())
        if prepared.fitting == shapes and shapes not in (prepared.settled, prepared.open):
            from placesim.runtime.accounting.fixed_shapes import has_fixed_shapes

            if has_fixed_shapes(prepared.step, prepared.executor.programs, shapes):
                prepared.settled = shapes
            else:
                prepared.open = shapes
        if prepared.settled == shapes:
            if ledger.recorder is not None:
                ledger.recorder.repeat_step(id(prepared))
            return prepared.executor.run(arguments, progress, is_accounted=False)
        kept = ledger.kept_bytes
        ledger.begin_step()
        if ledger.recorder is not None:
            ledger.recorder.begin_step(id(prepared))
            ledger.recorder.prepared.append(prepared.step)
        try:
            results = prepared.executor.run(arguments, progress)
        finally:
            ledger.end_step()
        # a recorder needs a run that is like all later runs; later runs do not make variables again
        is_steady = ledger.recorder is None or ledger.kept_bytes == kept
        if prepared.open != shapes and is_steady and not ledger.accounts_always and ledger.has_room_for_all():
            prepared.fitting = shapes
        return results

    def _build_executor(self, prepared: CachedStep) -> AnyExecutor:
        resources, soft, observer = prepared.step_resources, self.config.allow_soft_placement, self._observer()
        calls = FunctionCalls(self.graph, self.device_set, soft, self._states, resources, self.placements.append, observer)
        pool = self._pools.inter_op(self.config) if runs_ops_in_parallel(self.config) else None
        parts = prepared.step.partitions.parts
        return build_executor(parts, self._states, resources, calls.call, pool, observer, let_others=self._turns.let_others)

    def _observer(self) -> StepObserver | None:
        """Return the observer of executed nodes; None without memory accounting."""
        if self._ledger is None:
            return None
        from placesim.runtime.recording.step_observation import LedgerObserver

        return LedgerObserver(self._ledger)


def _abstract_run(sketched: FeedShapes) -> AbstractRun:
    from placesim.runtime.dry_runs.abstract_run import DryRunKernels

    return DryRunKernels(sketched.guesses)


def _checked(placement: Placement) -> Placement:
    if placement.error is not None:
        raise placement.error
    return placement
