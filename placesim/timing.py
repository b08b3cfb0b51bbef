"""A graph walked through -> how long its steps take on the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from placesim.collector import collector_paused
from placesim.errors import InvalidArgumentError, PlacesimError, ResourceExhaustedError, UsageError
from placesim.graph.steps import Step
from placesim.prediction.machines import SimulatedMachine, Threads
from placesim.prediction.simulated_steps import WalkedStep, study_steps
from placesim.prediction.study import Memory, TimeStudy
from placesim.runtime.kernels.sketch import SketchedValueError
from placesim.runtime.recording import Recorder
from placesim.runtime.walking import check_batch
from placesim.simulation import Stage, session_config, simulate, steps_of

if TYPE_CHECKING:
    from placesim.loading import Loaded
    from placesim.options import Options
    from placesim.report.report import Report

WALKED = 2
"""Of a step that is repeated, its first repetition and one of the others: the rest run as that."""


@collector_paused()
def study_time(
    load: Callable[[], Loaded], options: Options, name: str, steps: int | None = None, *, tells_helps: bool = False
) -> TimeStudy:
    """How long a graph's steps take; the last one `steps` times, where that is given.

    `tells_helps` has the study say what would help most, which takes several simulations more.

    `load` gives the graph anew each time.  Raises what is wrong with the graph or the options, and what TensorFlow would raise
    but for a device that runs out of memory: that is in the study, whose times are those without a limit.
    """
    loaded, repeats = _loaded(load, options, steps)
    assert loaded.file is not None
    if options.batch is not None:
        check_batch(loaded.file.graph)
    report, recorder = _walk(loaded, options)
    error = report.error
    if isinstance(error, ResourceExhaustedError) and not options.no_memory_limit:
        loaded, _ = _loaded(load, options, steps)
        report, recorder = _walk(loaded, replace(options, no_memory_limit=True))
    if report.error is not None:
        raise _without_executing(report.error)
    assert loaded.file is not None
    config = session_config(loaded.file, options)
    threads = Threads(config.inter_op_parallelism_threads, config.intra_op_parallelism_threads)
    try:
        machine = SimulatedMachine(report.devices, threads)
    except InvalidArgumentError as lack:
        raise UsageError(lack.message) from None
    return study_steps(name, _by_step(recorder, repeats), machine, _memory(report), error, tells_helps=tells_helps)


def _loaded(load: Callable[[], Loaded], options: Options, steps: int | None) -> tuple[Loaded, list[int]]:
    """The graph with few enough repetitions to walk, and how many there are of each step."""
    loaded = load()
    if loaded.error is not None:
        raise loaded.error
    assert loaded.file is not None
    run = [step for step in steps_of(loaded, loaded.file, options) if step.repeat]
    if not run:
        raise UsageError("no step to simulate: got none that is run at all, expected one")
    if steps is not None:
        run[-1] = replace(run[-1], repeat=steps)
    walked = tuple(_few(step) for step in run)
    # a graph without steps has the one that `steps_of` gives it
    return replace(loaded, file=replace(loaded.file, steps=walked)), [step.repeat for step in run]


def _few(step: Step) -> Step:
    return replace(step, repeat=min(step.repeat, WALKED))


def _without_executing(error: PlacesimError) -> PlacesimError:
    """The error with the ways out that a simulation has: nothing is executed here."""
    if isinstance(error, SketchedValueError):
        error.help = tuple(line for line in error.help if not line.startswith("`--execute`"))
    return error


def _walk(loaded: Loaded, options: Options) -> tuple[Report, Recorder]:
    recorder = Recorder()
    options = replace(options, fetch=None)  # it is in the steps already
    return simulate(loaded, options, Stage.WALKED, tells_memory=True, recorder=recorder), recorder


def _by_step(recorder: Recorder, repeats: list[int]) -> list[WalkedStep]:
    recorded = iter(recorder.steps)
    found = []
    for repeat in repeats:
        first = next(recorded)
        found.append(WalkedStep(first, next(recorded) if repeat > 1 else first, repeat))
    return found


def _memory(report: Report) -> dict[str, Memory]:
    peaks = {usage.device: usage.peak for usage in report.memory}
    return {device.name: Memory(peaks.get(device.name), device.allocation_limit) for device in report.devices}
