"""Dry run of a graph's steps. If a predicate is unknown, the branch with the highest cost is taken.

The dry run is repeated with the other branches of each predicate, and the run with the highest cost is kept. If a run can't
finish, the error names the option that would determine the most unknown values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import PlacesimError, UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.ops.kernels.abstract_tensor import SketchedValueError
from placesim.runtime.dry_runs.assumptions import CONTEXT, Assumptions, BranchChoice, is_loop_name
from placesim.runtime.dry_runs.dry_run_feeds import loop_frames, suggest_settlements
from placesim.runtime.recording.recorder import ExecutionRecorder
from placesim.studies.simulation.simulation import SimulationStage, simulate

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.session_steps import GraphStep
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.sessions.outcome import Outcome

MAX_WALKS = 128
"""Maximum number of dry runs that compare branches. Further predicates keep their first branch."""
REPETITIONS = 2
"""Number of simulated repetitions of a repeated step: the first one, and one that stands for all others."""
SURVEYED = 1
"""Size assumed for unknown dimensions in the dry run that collects all unknown dimensions."""


class DryRun(NamedTuple):
    """A dry run of all steps: its outcome, executions and assumptions."""

    outcome: Outcome
    recorder: ExecutionRecorder
    guesses: Assumptions


Cost = Callable[[DryRun], float]
"""Cost of a dry run, by which branches are compared."""


def search_dry_run(
    loaded: LoadedGraph,
    options: SimulationOptions,
    cost: Cost,
    branches: Mapping[BranchChoice, int] | None = None,
    *,
    tells_memory: bool = True,
) -> DryRun:
    """Return the dry run in which every unknown predicate takes its most expensive branch, by `cost`.

    `branches` are choices of an earlier search, which are kept. TensorFlow's errors are in the outcome. Raises UsageError for
    an assumption about a loop or a node that does not exist, and SketchedValueError for an unknown shape.
    """
    _check_names(loaded, options)
    first = run_dry(loaded, options, branches or {}, tells_memory=tells_memory)
    if any(choice not in (branches or {}) for choice in first.guesses.chosen):
        search = _BranchSearch(loaded, replace(options, no_memory_limit=True), cost)
        first = search.dearest(first.guesses.chosen, branches or {})
        if not options.no_memory_limit:
            failed, first = first.guesses.failed, run_dry(loaded, options, first.guesses.chosen, tells_memory=tells_memory)
            first.guesses.failed = failed
    error = first.outcome.error
    if isinstance(error, SketchedValueError):
        raise _with_more_ways(error, loaded, options)
    return first


def run_dry(
    loaded: LoadedGraph,
    options: SimulationOptions,
    branches: Mapping[BranchChoice, int],
    *,
    tells_memory: bool = True,
    surveys: bool = False,
) -> DryRun:
    """Return one dry run with these branches; any error is in its outcome.

    With `surveys`, each size that no option gives is guessed by its op, or else is SURVEYED.
    """
    recorder = ExecutionRecorder()
    guesses = Assumptions(
        is_free=True,
        iterations=options.loop_counts,
        numbers=options.assumed_numbers,
        dimension=SURVEYED if surveys else options.assume_unknown,
        prefers_guesses=surveys,
        branches=branches,
    )
    outcome = simulate(loaded, options, SimulationStage.WALKED, tells_memory=tells_memory, recorder=recorder, guesses=guesses)
    return DryRun(outcome, recorder, guesses)


class _BranchSearch:
    """A search for the branches with the highest cost, one predicate after another."""

    def __init__(self, loaded: LoadedGraph, options: SimulationOptions, cost: Cost) -> None:
        self._loaded = loaded
        self._options = options
        self._cost = cost
        self._walks = 0
        self._failed: dict[BranchChoice, str] = {}

    def dearest(self, chosen: Mapping[BranchChoice, int], settled: Mapping[BranchChoice, int]) -> DryRun:
        """Return the dry run with the highest cost, found by trying the other branches of each predicate not in `settled`."""
        base = self._walk(chosen)
        found = self._settle(base, [choice for choice in chosen if choice not in settled])
        found.guesses.failed = {choice: text for choice, text in self._failed.items() if choice in found.guesses.chosen}
        if self._walks >= MAX_WALKS:
            found.guesses.notes.append(f"only the first branches were compared, in {MAX_WALKS} dry runs")
        return found

    def _walk(self, branches: Mapping[BranchChoice, int]) -> DryRun:
        self._walks += 1
        return run_dry(self._loaded, self._options, branches)

    def _settle(self, walked: DryRun, choices: Sequence[BranchChoice]) -> DryRun:
        """Return the dry run with the highest cost among `walked` and the dry runs with other values of these choices.

        The result may also differ in choices that occur only with other branches.
        """
        cost = self._cost_of(walked)
        for choice in choices:
            for branch in range(choice.ways):
                taken = walked.guesses.chosen
                if choice not in taken or branch == taken[choice] or self._walks >= MAX_WALKS:
                    continue
                trial = self._walk({**taken, choice: branch})
                trial = self._settle(trial, [new for new in trial.guesses.chosen if new not in taken])
                trial_cost = self._cost_of(trial)
                for tried, failing in ((walked, taken[choice]), (trial, branch)):
                    if tried.outcome.error is not None and choice not in self._failed:
                        self._failed[choice] = f"branch {choice.word(failing)} ends with {tried.outcome.error.type_name}"
                if trial_cost > cost:
                    walked, cost = trial, trial_cost
        return walked

    def _cost_of(self, walked: DryRun) -> float:
        """Return the cost of a dry run; -1 if it ends in an error, since its branches are impossible."""
        return -1.0 if walked.outcome.error is not None else self._cost(walked)


def with_few_repeats(steps: Iterable[GraphStep]) -> tuple[GraphStep, ...]:
    """Return the steps with at most REPETITIONS repetitions each."""
    return tuple(replace(step, repeat=min(step.repeat, REPETITIONS)) for step in steps)


def total_peak(run: DryRun) -> float:
    """Return the sum of the peaks of all devices in bytes; used to compare branches."""
    return float(sum(usage.peak for usage in run.outcome.memory))


def _with_more_ways(error: SketchedValueError, loaded: LoadedGraph, options: SimulationOptions) -> PlacesimError:
    """Return the error with a hint: the option that would determine most unknown sizes, found by another dry run."""
    survey = run_dry(loaded, replace(options, no_memory_limit=True), {}, tells_memory=False, surveys=True)
    opened = survey.guesses.opened.values()
    of_values = list(survey.guesses.causes.values())
    said = [line for line in error.help if line.startswith(("`--batch", "`--shape"))]
    if of_values or not said:
        said += suggest_settlements(error, of_values)
    if any(tensor.node == error.node and tensor.dims is not None for tensor in opened):
        said.append(f"`--assume {error.node}=N` assumes N for its unknown dimensions")
    if all(tensor.dims is not None for tensor in opened) and opened:
        said.append("`--assume-unknown N` assumes N for each unknown dimension")
    error.help = tuple(said)
    return error


def _check_names(loaded: LoadedGraph, options: SimulationOptions) -> None:
    """Raise UsageError, with the most similar name, for a name in an assumption that no loop or node of the graph has."""
    loops, numbers, file = options.loop_counts, options.assumed_numbers, loaded.file
    if not (loops or numbers) or file is None:
        return
    added = list(chain.from_iterable(step.nodes for step in file.steps or ()))
    frames = loop_frames(file.graph, added)
    for name in loops:
        if not _is_among(name, frames):
            known = list(dict.fromkeys(frame.removesuffix(CONTEXT) for frame in frames))
            expected = (
                f"one of {', '.join(known)}{did_you_mean(name, known, SIMILAR_AMONG_FEW)}"
                if known
                else "none: there are no loops"
            )
            raise UsageError(f"no such loop: got '{name}' in --iterations, expected {expected}")
    nodes: list[str] = []
    if numbers:
        nodes = [node.name for node in file.graph.nodes] + [node.name for node in added]
        nodes += [node.name for function in file.graph.functions.values() for node in function.nodes]
    for name in numbers:
        if not _is_among(name, [*frames, *nodes]):
            raise UsageError(f"no such node: got '{name}' in --assume, expected a node or a loop{did_you_mean(name, nodes)}")


def _is_among(name: str, known: Sequence[str]) -> bool:
    """Whether a loop or node has this name. In a function, the names of callers may precede the name (`caller/name`)."""
    return any(is_loop_name(name, one) or is_loop_name(one.removesuffix(CONTEXT), name) for one in known)


def check_execution_options(options: SimulationOptions, *, finds_batch: bool = False) -> None:
    """Raise UsageError for options that set sizes: if a graph is executed, its sizes come from fed arrays."""
    given = {
        "--batch": finds_batch or options.batch is not None,
        "--shape": options.shape,
        "--iterations": options.iterations,
        "--assume": options.assume,
        "--assume-unknown": options.assume_unknown is not None,
    }
    found = [name for name, is_given in given.items() if is_given]
    if found:
        raise UsageError(f"assumed sizes do not apply with --execute: got {' and '.join(found)}, expected --feed with arrays")
