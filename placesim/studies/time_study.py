"""Prediction of step times from a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import InvalidArgumentError, PlacesimError, ResourceExhaustedError, UsageError
from placesim.core.process.gc_pause import collector_paused
from placesim.graph.session_steps import GraphFile
from placesim.prediction.collectives import join_members
from placesim.prediction.machine_resources import SimulatedMachine, Threads
from placesim.prediction.measurement_matching import compare_step
from placesim.prediction.node_costs import NodeCosts
from placesim.prediction.processors import NoFiguresError
from placesim.prediction.step_study import DryRunStep, study_steps
from placesim.prediction.step_tasks import StepCosts
from placesim.prediction.time_breakdown import Memory, TimeStudy
from placesim.runtime.dry_runs.assumptions import Assumptions
from placesim.runtime.dry_runs.dry_run_feeds import check_batch
from placesim.runtime.recording.lifetimes import lifetimes
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder
from placesim.studies.dry_run import DryRun, check_execution_options, run_dry, search_dry_run, with_few_repeats
from placesim.studies.simulation.settings import build_steps, session_config
from placesim.studies.simulation.simulation import SimulationStage, simulate

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.machine.timelines.measured_steps import Measurement
    from placesim.runtime.partitioning.prepared_step import PreparedStep
    from placesim.runtime.sessions.outcome import Outcome


@collector_paused()
def study_time(
    loaded: LoadedGraph,
    options: SimulationOptions,
    name: str,
    steps: int | None = None,
    *,
    is_executed: bool = False,
    tells_helps: bool = False,
    is_traced: bool = False,
    measurement: Measurement | None = None,
    warn: Callable[[str], object] = lambda text: None,
) -> TimeStudy:
    """Return the predicted times of a graph's steps; `steps` repeats the last step that many times.

    With `is_executed`, numpy executes the steps, which determines shapes, iterations and branches. Otherwise `warn` receives a
    message for each loop assumed to run once because its iteration count is unknown.

    With `tells_helps`, the study has the most helpful speed-ups, which need several more simulations. With `is_traced`, it
    keeps the data of a trace. With a `measurement`, it compares the last step with the measured steps.

    Raises an error if the graph or an option is wrong, and TensorFlow's errors, except for running out of memory. That error is
    part of the study, and the times then ignore memory limits.
    """
    walks = _StepDryRuns(loaded, options, steps)
    walked, error = walks.settled(is_executed=is_executed)
    for text in walked.guesses.warnings():
        warn(text)
    machine = walks.machine(walked.outcome)
    return walks.study(name, walked, machine, error, tells_helps=tells_helps, is_traced=is_traced, measurement=measurement)


@collector_paused()
def study_dry_run(
    loaded: LoadedGraph, options: SimulationOptions, name: str, *, is_traced: bool = False
) -> tuple[TimeStudy, DryRunSteps]:
    """Return the results of `study_time` and `dry_run_steps`, from the same dry run if devices have enough memory."""
    walks = _StepDryRuns(loaded, options, None)
    walked, error = walks.settled(is_executed=False)
    steps = walks.steps(walked)
    return walks.study(name, walked, steps.machine, error, is_traced=is_traced), steps


class _StepDryRuns:
    """Dry runs, or executions, of a graph's steps."""

    def __init__(self, loaded: LoadedGraph, options: SimulationOptions, steps: int | None) -> None:
        self._options = options
        self._loaded, self._file, self.repeats = _with_few_repeats(loaded, options, steps)

    def _in_steps(self, options: SimulationOptions) -> SimulationOptions:
        """Return the options without options that the steps already include."""
        return replace(options, fetch=None)

    def walked(self) -> DryRun:
        if self._options.batch is not None:
            check_batch(self._file.graph)
        return search_dry_run(self._loaded, self._in_steps(self._options), self._work)

    def executed(self, *, has_limit: bool = True) -> DryRun:
        """Execute the steps with numpy, one node after another, so that equal inputs give equal records."""
        options = self._options
        check_execution_options(options)
        options = replace(options, inter_op_threads=1, no_memory_limit=options.no_memory_limit or not has_limit)
        recorder = ExecutionRecorder()
        outcome = simulate(
            self._loaded, self._in_steps(options), SimulationStage.EXECUTED, tells_memory=True, recorder=recorder
        )
        return DryRun(outcome, recorder, Assumptions())

    def without_limit(self, walked: DryRun, *, is_executed: bool) -> DryRun:
        """Repeat the dry run or execution without memory limits."""
        if is_executed:
            return self.executed(has_limit=False)
        options = replace(self._in_steps(self._options), no_memory_limit=True)
        found = run_dry(self._loaded, options, walked.guesses.chosen)
        found.guesses.failed = walked.guesses.failed
        return found

    def settled(self, *, is_executed: bool) -> tuple[DryRun, PlacesimError | None]:
        """Run all steps to their end, and return the out-of-memory error that occurs with memory limits.

        Raises any other error.
        """
        walked = self.executed() if is_executed else self.walked()
        error = walked.outcome.error
        if isinstance(error, ResourceExhaustedError) and not self._options.no_memory_limit:
            walked = self.without_limit(walked, is_executed=is_executed)
        if walked.outcome.error is not None:
            raise walked.outcome.error
        return walked, error

    def machine(self, outcome: Outcome) -> SimulatedMachine:
        """Return the devices and threads of the graph's session."""
        config = session_config(self._file, self._options)
        threads = Threads(config.inter_op_parallelism_threads, config.intra_op_parallelism_threads)
        try:
            return SimulatedMachine(outcome.devices, threads, outcome.links)
        except InvalidArgumentError as lack:
            raise NoFiguresError(lack.message) from None

    def study(
        self,
        name: str,
        walked: DryRun,
        machine: SimulatedMachine,
        error: PlacesimError | None,
        *,
        tells_helps: bool = False,
        is_traced: bool = False,
        measurement: Measurement | None = None,
    ) -> TimeStudy:
        """Return the predicted times of the steps of a dry run or an execution."""
        recorded = _by_step(walked.recorder, self.repeats)
        memory = _memory(walked.outcome, walked.recorder)
        study = study_steps(name, recorded, machine, memory, error, tells_helps=tells_helps, is_traced=is_traced)
        said = walked.guesses.sentences()
        compared = None if measurement is None else compare_step(study, recorded[-1].steady, measurement)
        return replace(study, assumptions=(*study.assumptions, *said), value_assumptions=said, comparison=compared)

    def steps(self, walked: DryRun) -> DryRunSteps:
        """Return the machine, and the steps with their steady-state executions."""
        steady = [step.steady for step in _by_step(walked.recorder, self.repeats)]
        peaks = {usage.device: usage.peak for usage in walked.outcome.memory}
        return DryRunSteps(self.machine(walked.outcome), walked.recorder.prepared, steady, peaks, walked.recorder)

    def _work(self, walked: DryRun) -> float:
        """Return the total seconds of all nodes and transfers as if each ran alone; branches are compared by this total."""
        costs = StepCosts(self.machine(walked.outcome))
        return sum(costs.work_seconds(step) for step in walked.recorder.steps)


class DryRunSteps(NamedTuple):
    """A machine, the steps of `run:` with their steady-state executions, and the devices' peaks.

    The `recorder` has the steps' allocations of device memory.
    """

    machine: SimulatedMachine
    prepared: Sequence[PreparedStep]
    steps: Sequence[Sequence[Execution]]
    peaks: Mapping[str, int | None]
    recorder: ExecutionRecorder


def dry_run_steps(loaded: LoadedGraph, options: SimulationOptions) -> DryRunSteps:
    """Do a dry run of a graph's steps, ignoring memory limits.

    Raises the errors of the graph and the options, and an error if the steps can't be dry-run to their end.
    """
    walks = _StepDryRuns(loaded, replace(options, no_memory_limit=True), None)
    walked = walks.walked()
    if walked.outcome.error is not None:
        raise walked.outcome.error
    return walks.steps(walked)


def find_costs(loaded: LoadedGraph, options: SimulationOptions) -> NodeCosts:
    """Return the costs of the nodes in a graph's steps on each device, with unlimited memory.

    Raises the errors of the graph and the options, and an error if the steps can't be dry-run to their end.
    """
    walked = dry_run_steps(loaded, options)
    return NodeCosts(walked.machine, walked.prepared, walked.steps)


def _with_few_repeats(
    loaded: LoadedGraph, options: SimulationOptions, steps: int | None
) -> tuple[LoadedGraph, GraphFile, list[int]]:
    """Return the graph with a limited number of repetitions, its file, and the true repetitions of each step."""
    if loaded.error is not None:
        raise loaded.error
    assert loaded.file is not None
    run = [step for step in build_steps(loaded, loaded.file, options) if step.repeat]
    if not run:
        raise UsageError("no step to simulate: got only steps that run 0 times, expected one that runs")
    if steps is not None:
        run[-1] = replace(run[-1], repeat=steps)
    # for a graph without steps, `build_steps` makes one step
    file = replace(loaded.file, steps=with_few_repeats(run))
    return replace(loaded, file=file), file, [step.repeat for step in run]


def _by_step(recorder: ExecutionRecorder, repeats: list[int]) -> list[DryRunStep]:
    recorded = iter(recorder.steps)
    found = []
    for repeat in repeats:
        first = join_members(next(recorded))
        found.append(DryRunStep(first, join_members(next(recorded)) if repeat > 1 else first, repeat))
    return found


def _memory(outcome: Outcome, recorder: ExecutionRecorder) -> dict[str, Memory]:
    peaks = {usage.device: usage.peak for usage in outcome.memory}
    buffers = lifetimes(recorder)
    return {
        device.name: Memory(peaks.get(device.name, 0), device.allocation_limit, buffers.get(device.name, ()))
        for device in outcome.devices
    }
