"""Predictions for Python callers: step times, sweeps over options, and plans.

Functions import their large modules when called, so that `import placesim` is fast enough for a shell tool.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from placesim.api.calls import above_zero, api_call, check_whole_numbers, texts
from placesim.core.errors import UsageError
from placesim.core.process.progress import current_watcher
from placesim.formats.sources.loading import kept_source, load, source_name
from placesim.machine.options import OptionValues, make_options, with_options

if TYPE_CHECKING:
    from placesim.formats.sources.loading import Source
    from placesim.planning.graphs.plan_comparison import PlanMeasure
    from placesim.planning.portfolio import PlanResult
    from placesim.report.plan_report import PlanReport
    from placesim.report.sweep_report import SweepReport
    from placesim.report.time_report import TimeReport

Kind = TypeVar("Kind", bound=Enum)


@with_options
@api_call
def simulate(
    source: Source,
    *,
    steps: int | None = None,
    compare: str | os.PathLike[str] | None = None,
    **options: Unpack[OptionValues],
) -> TimeReport:
    """Predict the time of a graph's steps on the machine.

    `steps` repeats the last step that many times. `compare` is a file with measured steps, as TensorFlow, its profiler or
    Nsight Systems wrote it; the report's `comparison` has the last step beside them. No kernel is executed, so all sizes must
    be known: `shape` and `batch` set those of placeholders. Raises the same errors as `placesim simulate`. If a device runs out
    of memory, the exception's `report` has the times without memory limits.
    """
    from placesim.formats.traces.reader import read_measurement
    from placesim.report.time_report import TimeReport
    from placesim.studies.time_study import study_time

    chosen = make_options(options)
    check_whole_numbers(steps=steps)
    measurement = None if compare is None else read_measurement(os.fspath(compare))
    loaded = load(source, None, chosen)
    study = study_time(loaded, chosen, source_name(source), steps, tells_helps=True, is_traced=True, measurement=measurement)
    report = TimeReport(study)
    if report.error is not None:
        report.error.report = report
        raise report.error
    return report


@with_options
@api_call
def sweep(
    source: Source,
    over: Mapping[str, Any],
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    steps: int | None = None,
    examples: int | None = None,
    **options: Unpack[OptionValues],
) -> SweepReport:
    """Simulate a graph under each combination of the values in `over`.

    Iterating over the result yields each row, in order, as soon as it is finished; the result's `rows` has all rows. Keys
    are those of `placesim sweep`; a value is a list, a range or a text such as `1..8`. A row has its settings and results by
    name, and `error` if it failed. `jobs` is the number of processes. The default is one, or the capacity of the Dask cluster
    at the address `scheduler`.

    Raises UsageError for invalid keys and values, UnavailableError if the cluster can't be reached, and any error common to all
    combinations.
    """
    from placesim.report.sweep_report import SweepReport
    from placesim.runtime.cluster.connection_settings import Connection
    from placesim.studies.sweeping.axes import make_axes
    from placesim.studies.sweeping.cluster_processes import spread_rows
    from placesim.studies.sweeping.row_simulation import SweepJob
    from placesim.studies.sweeping.sweep import SweepRun

    check_whole_numbers(jobs=jobs, steps=steps, examples=examples)
    axes = make_axes(over.items())
    chosen = make_options(options)
    keys = tuple(axis.key for axis in axes)
    run = SweepRun(SweepJob(kept_source(source, chosen), source_name(source), keys, dict(options), steps, examples), axes)
    return SweepReport(source_name(source), keys, spread_rows(run, Connection(scheduler), jobs), len(run.combinations))


@with_options
@api_call
def plan(
    source: Source,
    *,
    objective: str = "latency",
    contiguous: bool = False,
    free: str | Sequence[str] = (),
    by: str | None = None,
    changes: int | None = None,
    without: str | Sequence[str] = (),
    method: str = "auto",
    explain: bool = False,
    seconds: float = 30.0,
    evaluations: int | None = None,
    seed: int = 0,
    jobs: int = 2,
    scheduler: str | None = None,
    page: bool = False,
    **options: Unpack[OptionValues],
) -> PlanReport:
    """Search for the best placement of a graph, and compare it with simple placements.

    The simple placements are TensorFlow's with and without the graph's device requests, all nodes on one device, and round
    robin. `objective` is `latency` (seconds of a step), `throughput` (seconds of the busiest device) or `memory` (highest peak
    in bytes). Requests of nodes that match a pattern in `free` are dropped (`*`: all).

    `by`: choose devices for whole name scopes (`scope`) or for nodes (`node`); None means `scope` if there are any. `changes`
    is the maximum number of edits. `without` has devices to avoid, as names or types (`GPU:1`, `CPU`).

    The search takes `seconds`, or `evaluations` for each of its parallel parts. With `evaluations`, a `seed` always gives the
    same plan. It uses `jobs` processes, which run on the Dask cluster at the address `scheduler` if that is given. They do not
    import the caller's script. With `page`, the report has an HTML page.

    Raises the same errors as `placesim plan`. These include ResourceExhaustedError if nothing fits, with remedies in its
    `report`, and UsageError for an invalid value.
    """
    from placesim.core.errors import ResourceExhaustedError
    from placesim.planning.graphs.plan_comparison import BY_NODE, BY_SCOPE, Aim, PlanMeasure
    from placesim.planning.graphs.problem_building import OBJECTIVES
    from placesim.planning.portfolio import Effort, check_method
    from placesim.planning.search_processes import spread
    from placesim.report.plan_report import PlanReport
    from placesim.report.text.planning import suggest_remedy
    from placesim.runtime.cluster.connection_settings import Connection
    from placesim.studies.plan_files import planned_snapshot, write_planned_content
    from placesim.studies.plan_study import study_plan

    chosen = make_options(options)
    if by not in (None, BY_SCOPE, BY_NODE):
        raise UsageError(f"wrong by: got {by!r}, expected '{BY_SCOPE}', '{BY_NODE}' or None")
    check_whole_numbers(0, changes=changes)
    check_whole_numbers(jobs=jobs, evaluations=evaluations)
    avoided, patterns = (texts(name, given) for name, given in (("without", without), ("free", free)))
    sought = _one_of("objective", objective, PlanMeasure)
    check_method(method, objective=OBJECTIVES[sought])
    aim = Aim(sought, contiguous, explain, page, by=by, changes=changes, without=avoided)
    effort = Effort(above_zero("seconds", seconds), evaluations, seed, jobs, method)

    loaded = load(source, None, chosen)
    with spread(effort, Connection(scheduler)) as effort:
        study = study_plan(loaded, chosen, source_name(source), effort, patterns, lambda planned: _note(sought, planned), aim)
    report = PlanReport(
        study,
        lambda path, tell: write_planned_content(loaded, chosen, study, patterns, path, tell),
        lambda: planned_snapshot(loaded, chosen, study, patterns),
        has_page=page,
    )
    if study.plan is None:
        error = ResourceExhaustedError(f"no plan fits: {suggest_remedy(study)}")
        error.report = report
        raise error
    return report


def _note(sought: PlanMeasure, planned: PlanResult) -> None:
    """Show the best plan so far to the watcher of this call."""
    from placesim.report.text.planning import format_best

    watcher = current_watcher()
    if watcher is not None:
        watcher.note = format_best(sought, planned)


def _one_of(name: str, given: str, kinds: type[Kind]) -> Kind:
    known = {str(kind.value): kind for kind in kinds}
    if given not in known:
        raise UsageError(f"wrong {name}: got {given!r}, expected one of {', '.join(known)}")
    return known[given]
