"""Simulation of a loaded graph with options: one session, from its creation to its last step, with its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from placesim.core.errors import DeadlineExceededError, Interruption, PlacesimError, UsageError
from placesim.core.process.deadlines import run_within
from placesim.core.process.gc_pause import collector_paused
from placesim.core.process.interrupts import LastWords
from placesim.core.process.progress import current_watcher, report_stage
from placesim.formats.sources.loading import LoadedGraph
from placesim.machine.gpu_memory import GpuLogLine
from placesim.machine.inventory import Device
from placesim.machine.links import NO_LINKS
from placesim.machine.options import SimulationOptions
from placesim.studies.simulation.settings import (
    build_machine_settings,
    build_steps,
    file_access,
    open_ledger,
    session_config,
    session_devices,
)

if TYPE_CHECKING:
    from placesim.graph.graph import Graph
    from placesim.graph.session_steps import GraphStep
    from placesim.machine.memory.allocator_log import DumpLine as MemoryLogLine
    from placesim.runtime.accounting.ledger import Ledger
    from placesim.runtime.accounting.usage import DeviceUsage
    from placesim.runtime.dry_runs.assumptions import Assumptions
    from placesim.runtime.dry_runs.dry_run_feeds import FeedShapes
    from placesim.runtime.partitioning.prepared_step import PreparedStep
    from placesim.runtime.recording.kernel_timing import Measurements
    from placesim.runtime.recording.recorder import ExecutionRecorder
    from placesim.runtime.sessions.outcome import Outcome
    from placesim.runtime.sessions.results import Result
    from placesim.runtime.sessions.run_checkpoints import RunSaver
    from placesim.runtime.sessions.session import GraphSession
    from placesim.runtime.shapes.graph_shapes import GraphShapes

Progress = Callable[[int, int, int, int], None]
"""Function called periodically with the numbers of finished steps, all steps, finished nodes of the current step, and all
nodes of the current step.
"""


class Growth(IntEnum):
    """Kinds of content, besides results, that later steps may still add to a report."""

    NOTHING = 0
    CUTS = 1
    BODIES = 2
    NODES = 3


class PartialResults(NamedTuple):
    """The outcome of the finished steps, and the kinds of content that later steps may add (`growth`).

    `size` is the number of placements and partitioned steps in the outcome.
    """

    outcome: Callable[[], Outcome]
    size: int
    growth: Growth


class ResultTaker(Protocol):
    """Protocol of a receiver of each step's results, so that the outcome need not keep all results."""

    def take(self, rows: Sequence[Result], so_far: PartialResults) -> bool:
        """Receive the results of a step. Returns whether more results are wanted."""

    def leave(self, outcome: Outcome) -> None:
        """Receive all available results when Ctrl-C ends the process during a kernel."""


class SimulationStage(IntEnum):
    """Last stage of a simulation; a dry run accounts for memory and computes nothing."""

    PLACED = 0
    PARTITIONED = 1
    WALKED = 2
    EXECUTED = 3


_DOING = {SimulationStage.WALKED: "simulating nodes", SimulationStage.EXECUTED: "running nodes"}
"""Description of each stage's work on nodes, for progress displays."""


def open_measurements() -> Measurements:
    """Return empty measurements of execution times, for `simulate`."""
    from placesim.runtime.recording.kernel_timing import Measurements

    return Measurements()


def simulate(
    loaded: LoadedGraph,
    options: SimulationOptions,
    stage: SimulationStage,
    progress: Progress | None = None,
    taker: ResultTaker | None = None,
    *,
    tells_memory: bool = False,
    recorder: ExecutionRecorder | None = None,
    guesses: Assumptions | None = None,
    measurements: Measurements | None = None,
    opened: Callable[..., GraphSession] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Place a graph and, up to `stage`, partition and execute its steps.

    An error ends the simulation; the outcome has the error and all earlier results. With a `taker`, the results of each step go
    to the `taker` instead of the outcome. The taker may also end the simulation, and Ctrl-C gives an outcome with the error
    Interrupted.

    With `tells_memory`, the outcome includes device memory, and a `recorder` records the executions of each step. `guesses`
    provide unknown values in a dry run. `measurements` record times and memory. `opened`, if given, creates
    the sessions, such as those of a Dask cluster. `tell` receives messages about checkpoints.
    """
    simulation = _Simulation(
        loaded=loaded,
        options=options,
        stage=stage,
        progress=progress,
        taker=taker,
        tells_memory=tells_memory,
        recorder=recorder,
        guesses=guesses,
        measurements=measurements,
        opened=opened,
        tell=tell,
    )
    error: PlacesimError | None = None
    try:
        with _last_words(simulation, taker), collector_paused() if stage <= SimulationStage.WALKED else nullcontext():
            simulation.run()
    except KeyboardInterrupt:
        if taker is None:
            raise
        error = simulation.interruption()
    except PlacesimError as problem:
        error = problem
        if "You must feed a value for placeholder" in problem.message and loaded.signatures:
            from placesim.report.text.signatures import describe_signatures

            problem.help = (*problem.help, *describe_signatures(loaded.signatures))
    outcome = simulation.outcome(error)
    simulation.close()
    if error is not None:
        error.outcome = outcome
    return outcome


def _last_words(simulation: _Simulation, taker: ResultTaker | None) -> AbstractContextManager[None]:
    return nullcontext() if taker is None else LastWords(lambda: taker.leave(simulation.outcome(simulation.interruption())))


@dataclass(kw_only=True, eq=False, repr=False)
class _Simulation:
    """A session from its start to its last step, with the results so far."""

    loaded: LoadedGraph
    options: SimulationOptions
    stage: SimulationStage
    progress: Progress | None
    taker: ResultTaker | None
    tells_memory: bool
    recorder: ExecutionRecorder | None
    guesses: Assumptions | None
    measurements: Measurements | None
    opened: Callable[..., GraphSession] | None
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self._session: GraphSession | None = None
        self._shapes: GraphShapes | None = None
        self._prepared: dict[int, PreparedStep] = {}
        self._results: list[Result] = []
        self._fetches: list[str] = []
        self._shows_log = bool(self.options.log_placement)
        self._creation_log: list[GpuLogLine] = []
        self._links = NO_LINKS
        self._ledger: Ledger | None = None
        self._memory_log: list[MemoryLogLine] = []
        self._running: int | None = None

    def outcome(self, error: PlacesimError | None) -> Outcome:
        """Return everything known so far as an outcome with this error."""
        from placesim.runtime.sessions.outcome import Outcome
        from placesim.runtime.sessions.results import Results

        session, file = self._session, self.loaded.file
        if session is not None and file is not None and session.graph is not file.graph:
            file = replace(file, graph=session.graph)
        return Outcome(
            devices=session.device_set.devices if session is not None else (),
            placed=tuple(session.placements) if session is not None else (),
            prepared=tuple(self._prepared.values()),
            error=error,
            shapes=self._shapes,
            creation_log=tuple(self._creation_log),
            memory=self._memory(),
            memory_log=tuple(self._memory_log),
            links=self._links,
            doubts=() if file is None else file.doubts,
            results=Results(self._results),
            fetches=tuple(self._fetches),
            style=self.options.log_style,
            shows_log=self._shows_log,
            annotations=self.loaded.annotations,
            file=file,
        )

    def interruption(self) -> Interruption:
        """Return the error that represents Ctrl-C."""
        where = "before the first step" if self._running is None else f"in step {self._running}"
        return Interruption(f"interrupted {where}")

    def close(self) -> None:
        """End the session and free its memory."""
        if self._session is not None:
            self._session.close()
        if self._ledger is not None and self.measurements is None:  # measurements read the journals afterwards
            from placesim.runtime.accounting.usage import end_record

            end_record(self._ledger)

    def run(self) -> None:
        from placesim.runtime.sessions.session import GraphSession
        from placesim.runtime.shapes.shape_check import check_shapes

        if self.loaded.error is not None:
            raise self.loaded.error
        file = self.loaded.file
        assert file is not None
        config = session_config(file, self.options)
        self._shapes = run_within(config.timeout_seconds, lambda: check_shapes(file))
        if self.options.log_placement is None:
            self._shows_log = config.log_device_placement
        steps = build_steps(self.loaded, file, self.options, one_by_one=self.stage >= SimulationStage.EXECUTED)
        if self.loaded.needs_fetch and self.stage >= SimulationStage.EXECUTED and self.options.fetch is None:
            raise UsageError(self.loaded.needs_fetch)
        if self.loaded.onnx is not None and self.stage >= SimulationStage.EXECUTED:
            self.loaded.onnx.check_weights()
        tasks, self._links = build_machine_settings(file, self.options)
        machine = session_devices(tasks, config, self.options, self._creation_log.append, file.graph.registry.rules)
        self._ledger = self._open_ledger(machine)
        self._session = (self.opened or GraphSession)(
            file.graph,
            machine,
            config,
            directory=self.loaded.directory,
            bare_fetch_is_target=file.is_raw,
            initial_values=file.initial_values,
            files=file_access(self.loaded, self.options),
            ledger=self._ledger,
            sketched=self._feed_shapes(file.graph),
            measurements=self.measurements,
        )
        self._run_steps(self._session, steps, names_sinks=file.is_raw and self.stage >= SimulationStage.WALKED)

    def _feed_shapes(self, graph: Graph) -> FeedShapes | None:
        if self.stage != SimulationStage.WALKED:
            return None
        from placesim.runtime.dry_runs.assumptions import Assumptions
        from placesim.runtime.dry_runs.dry_run_feeds import FeedShapes

        options = self.options
        given = Assumptions(iterations=options.loop_counts, numbers=options.assumed_numbers, dimension=options.assume_unknown)
        shapes = {name: shape for text, shape in options.shapes.items() for name in graph.spelled_out(text)}
        return FeedShapes(shapes, options.batch, self.guesses or given)

    def _open_ledger(self, machine: Sequence[Device]) -> Ledger | None:
        """Return the accounting of device memory, if any device has a limit or memory is reported; else None."""
        if self.stage < SimulationStage.WALKED:
            return None
        # if sessions are on other machines, memory is counted before a step runs, so the time of its use is unknown
        measurements = None if self.opened is not None else self.measurements
        is_told = self.tells_memory or measurements is not None
        ledger = open_ledger(machine, self.options, self.options.process, self._memory_log.append, is_told=is_told)
        if ledger is None:
            return None
        if is_told:
            from placesim.runtime.accounting.usage import record

            record(ledger)
        if measurements is not None:
            measurements.follow(ledger)
        if self.recorder is not None:
            self.recorder.attach(ledger)
        return ledger

    def _memory(self) -> tuple[DeviceUsage, ...]:
        if self._ledger is None or self._ledger.is_partial or not self.tells_memory:
            return ()
        from placesim.runtime.accounting.usage import device_usage

        return device_usage(self._ledger)

    def _run_steps(self, session: GraphSession, steps: Sequence[GraphStep], names_sinks: bool) -> None:
        """Run the steps. With `names_sinks`, the outputs of a raw graph's sinks are fetched; otherwise sinks are targets."""
        total = sum(step.repeat for step in steps)
        saver = self._open_saver()
        first = 0 if saver is None else saver.done
        done = 0
        if not steps:
            run_within(session.config.timeout_seconds, partial(self._place, session))
        for index, step in enumerate(steps):
            if saver is not None and done == first:  # the saved graph lacks the nodes that this step adds
                saver.resume(session, steps[:index])
            if step.nodes:
                session.extend(step.nodes)
            if done + step.repeat <= first:
                done += step.repeat
                continue
            if saver is not None and done < first:
                saver.resume(session, steps[: index + 1])
            if names_sinks and not step.fetches:
                step = replace(step, fetches=session.sink_tensors())
            prepared = run_within(session.config.timeout_seconds, partial(self._prepare, session, step))
            if prepared is not None and self.stage >= SimulationStage.WALKED:
                growth = _growth(session, steps[index + 1 :])
                for number in range(max(done, first), done + step.repeat):
                    self._running = number
                    if not self._execute(session, step, prepared, number, total, growth):
                        return
                    if saver is not None:
                        saver.after(session, number + 1, is_last=number + 1 == total)
                done += step.repeat
        if saver is not None and 0 < total <= first:
            saver.nothing_left(session)

    def _open_saver(self) -> RunSaver | None:
        """Return the object that writes a run's checkpoints and restarts from them; None if nothing is saved."""
        options = self.options
        if self.stage < SimulationStage.EXECUTED or not options.is_saved:
            return None
        from pathlib import Path

        from placesim.runtime.sessions.run_checkpoints import KEEP, RunSaver

        keep = KEEP if options.checkpoint_keep is None else options.checkpoint_keep
        return RunSaver(Path(options.checkpoint), options.checkpoint_every or 0, keep, self.tell, restarts=options.restart)

    def _prepare(self, session: GraphSession, step: GraphStep) -> PreparedStep | None:
        """Place the nodes that the step needs, and partition them if requested."""
        if step.fetches or self.options.log_style == "classic":  # only the classic log needs the default fetches
            fetched = session.resolve_fetches(step)
            self._fetches += [session.graph.nodes[fetch.node].name for fetch in fetched]
        self._place(session)
        if self.stage < SimulationStage.PARTITIONED:
            return None
        prepared = session.prepare(step)
        self._prepared[id(prepared)] = prepared
        return prepared

    def _place(self, session: GraphSession) -> None:
        """Place the whole graph, and raise the error if that fails. Does nothing if each step places its own pruned graph."""
        if not session.config.place_pruned_graph and session.placement.error is not None:
            raise session.placement.error

    def _execute(
        self, session: GraphSession, step: GraphStep, prepared: PreparedStep, done: int, total: int, growth: Growth
    ) -> bool:
        """Execute a step. Returns whether another step may follow."""
        from placesim.runtime.sessions.results import Result

        nodes = sum(len(part.graph) for part in prepared.partitions.parts)
        progress = self.progress
        report = None if progress is None else lambda nodes_done: progress(done, total, nodes_done, nodes)
        ran = [0]
        if report is not None:
            report(0)
        elif current_watcher() is not None:
            report = partial(ran.__setitem__, 0)
        measured = nullcontext() if self.measurements is None else self.measurements.step(done)
        with report_stage(_DOING[self.stage], lambda: (ran[0], nodes)), measured:
            try:
                result = session.run(step, progress=report)
            except DeadlineExceededError as error:
                error.help = (*error.help, f"step {done} was running")
                raise
        if self.stage < SimulationStage.EXECUTED:
            return True
        rows = [Result(done, value.name, value.dtype, value.value) for value in result.values]
        if self.taker is not None:
            size = len(session.placements) + len(self._prepared)
            return self.taker.take(rows, PartialResults(partial(self.outcome, None), size, growth))
        self._results += rows
        return True


def _growth(session: GraphSession, later: Sequence[GraphStep]) -> Growth:
    """Return the content that later steps may add; a function's body is placed at its first call."""
    if later and (session.config.place_pruned_graph or any(step.nodes for step in later)):
        return Growth.NODES
    if session.graph.functions:
        return Growth.BODIES
    return Growth.CUTS if later else Growth.NOTHING
