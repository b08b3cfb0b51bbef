"""Snapshots for inspections, for the CLI and Python callers: of a graph, which is placed, or of a written report.

If requested, a snapshot also has results of a dry run. Large modules are imported only when a function is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.inspection.predicted_step import PredictedStep
    from placesim.inspection.snapshot import Snapshot
    from placesim.machine.options import SimulationOptions
    from placesim.prediction.time_breakdown import TimeStudy


class DryRunNeed(Enum):
    """Condition for a dry run: if it is possible and fast (`CHEAP`), if it is possible (`KNOWN`), or always (`NEEDED`)."""

    NONE = auto()
    CHEAP = auto()
    KNOWN = auto()
    NEEDED = auto()

    @staticmethod
    def of(asked: bool | None, values: Mapping[str, Any], *, by_itself: bool) -> DryRunNeed:
        """Return the condition that a flag sets.

        If the flag is not given (None), a given size requests the dry run. Without a size, `by_itself` is whether a cheap dry
        run is done without a request.
        """
        if asked is None:
            asked = True if values.get("shape") or values.get("batch") is not None else None
        if asked is None:
            return DryRunNeed.CHEAP if by_itself else DryRunNeed.NONE
        return DryRunNeed.KNOWN if asked else DryRunNeed.NONE


class DryRunNeeds(NamedTuple):
    """The needed results of a dry run: device memory, step times, node costs, and sizes of transfers that shapes leave open."""

    memory: DryRunNeed = DryRunNeed.NONE
    time: DryRunNeed = DryRunNeed.NONE
    costs: DryRunNeed = DryRunNeed.NONE
    sizes: DryRunNeed = DryRunNeed.NONE


NO_WISHES = DryRunNeeds()


def open_snapshot(
    name: str,
    loaded: LoadedGraph,
    options: SimulationOptions,
    partitioned: bool = True,
    *,
    wishes: DryRunNeeds = NO_WISHES,
) -> Snapshot:
    """Return the snapshot of a graph.

    A dry run of the steps is done if `wishes` require one. Raises an error if the file or an option is wrong, or if required
    information can't be computed. TensorFlow's errors are part of the snapshot.
    """
    from placesim.inspection.snapshot import snapshot_of
    from placesim.studies.simulation.simulation import SimulationStage, simulate

    outcome = simulate(loaded, options, SimulationStage.PARTITIONED if partitioned else SimulationStage.PLACED)
    if outcome.error is not None and outcome.error.exit_code != 1:
        raise outcome.error
    snapshot = snapshot_of(name, outcome)
    if outcome.error is not None:
        from placesim.report.text.complaint import format_outcome_error

        return replace(snapshot, complaint=format_outcome_error(outcome))
    if wishes.sizes is not DryRunNeed.NONE:
        snapshot = _with_sizes(snapshot, loaded, options, wishes.sizes)
    if wishes.memory is not DryRunNeed.NONE:
        snapshot = _with_memory(snapshot, loaded, options, wishes.memory)
    if wishes.time is not DryRunNeed.NONE:
        snapshot = _with_time(snapshot, loaded, options, wishes.time)
    if wishes.costs is not DryRunNeed.NONE:
        snapshot = _with_costs(snapshot, loaded, options, wishes.costs)
    return snapshot


def read_snapshot(
    data: bytes | None, name: str, wishes: DryRunNeeds = NO_WISHES, *, takes_prediction: bool = False
) -> Snapshot | None:
    """Return the snapshot of a written report or prediction; None if the bytes are neither."""
    if not data:
        return None
    from placesim.core.errors import UsageError
    from placesim.inspection.written_placement import read_baseline

    found = read_baseline(data, name)
    if found is not None:
        return name_lacks(found, wishes)
    if b'"critical_path"' not in data and b'"step"' not in data:
        return None
    from placesim.inspection.predicted_step import read_prediction

    step = read_prediction(data, name)
    if step is not None and not takes_prediction:
        raise UsageError(f"not a graph: got the prediction {name}, which only `placesim diff` reads, expected a graph")
    return None if step is None else prediction_snapshot(name, step, wishes)


def prediction_snapshot(name: str, step: PredictedStep, wishes: DryRunNeeds) -> Snapshot:
    """Return a predicted step as a snapshot without a placement; without the step, too, if no times are wanted."""
    from placesim.inspection.snapshot import Snapshot

    return name_lacks(Snapshot(name, step=None if wishes.time is DryRunNeed.NONE else step, holds_placement=False), wishes)


def name_lacks(report: Snapshot, wishes: DryRunNeeds) -> Snapshot:
    """Return the snapshot of a report, with notes about the wanted parts that it does not hold."""
    lacks_memory = wishes.memory is not DryRunNeed.NONE and not report.memory
    lacks_time = wishes.time is not DryRunNeed.NONE and report.step is None
    return replace(
        report,
        memory_note="A report holds no memory." if lacks_memory else "",
        time_note="A report holds no times." if lacks_time else "",
    )


def name_missing(snapshots: Iterable[Snapshot], labels: Iterable[str], memory: bool | None, time: bool | None) -> Iterator[str]:
    """Yield a sentence for each requested part that a side of a comparison lacks."""
    for snapshot, label in zip(snapshots, labels, strict=True):
        for asked, what, note in ((memory, "memory", snapshot.memory_note), (time, "time", snapshot.time_note)):
            if asked and note:
                yield f"{label}: {what} is not compared. {note}"


def check_sides(sides: Iterable[tuple[str, bool, Collection[str]]], *, has_page: bool) -> None:
    """Raise UsageError for a side of a comparison that is a report, but must be placed again or simulated.

    A side has a name, whether it is a report, and the options for this side alone.
    """
    from placesim.core.errors import UsageError

    for name, is_report, own in sides:
        if is_report and own:
            raise UsageError(
                f"options for a report: got {', '.join(own)} for {name}, expected a graph, which can be placed again"
            )
        if is_report and has_page:
            raise UsageError(f"cannot make a page from a report: got {name}, expected the graph, to simulate its steps")


def _with_sizes(snapshot: Snapshot, loaded: LoadedGraph, options: SimulationOptions, wish: DryRunNeed) -> Snapshot:
    from placesim.studies.graph_summary import ask
    from placesim.studies.transfer_sizes import size_transfers

    open_shapes, prepared = snapshot.transfers, () if snapshot.live is None else snapshot.live.prepared
    sizes = ask(
        lambda: size_transfers(open_shapes, prepared, loaded, options),
        loaded,
        options,
        "--batch",
        is_asked=wish is not DryRunNeed.CHEAP,
    )
    return replace(snapshot, transfers=sizes.found or open_shapes, static_transfers=open_shapes, size_note=sizes.note)


def _with_memory(snapshot: Snapshot, loaded: LoadedGraph, options: SimulationOptions, wish: DryRunNeed) -> Snapshot:
    from placesim.studies.graph_summary import ask
    from placesim.studies.memory_study import find_peaks

    if wish is DryRunNeed.NEEDED:
        return replace(snapshot, memory=find_peaks(loaded, options))
    peaks = ask(lambda: find_peaks(loaded, options), loaded, options, "--memory", is_asked=wish is DryRunNeed.KNOWN)
    return replace(snapshot, memory=peaks.found or (), memory_note=peaks.note)


def _with_time(snapshot: Snapshot, loaded: LoadedGraph, options: SimulationOptions, wish: DryRunNeed) -> Snapshot:
    from placesim.inspection.predicted_step import predicted_step
    from placesim.studies.graph_summary import ask
    from placesim.studies.time_study import study_time

    def find() -> TimeStudy:
        return study_time(loaded, replace(options, no_memory_limit=True), snapshot.name)

    if wish is DryRunNeed.NEEDED:
        study = find()
        return replace(snapshot, time=study, step=predicted_step(study))
    # the memory part already reports sizes that do not apply, and a machine without figures has no times
    found = ask(find, loaded, options, "--time", is_asked=wish is DryRunNeed.KNOWN, raises_sizes=False)
    if found.found is None:
        return replace(snapshot, time_note=found.note)
    return replace(snapshot, time=found.found, step=predicted_step(found.found))


def _with_costs(snapshot: Snapshot, loaded: LoadedGraph, options: SimulationOptions, wish: DryRunNeed) -> Snapshot:
    from placesim.studies.graph_summary import ask
    from placesim.studies.time_study import find_costs

    costs = ask(lambda: find_costs(loaded, options), loaded, options, "--cost", is_asked=wish is not DryRunNeed.CHEAP)
    return replace(snapshot, costs=costs.found, cost_note=costs.note)


def may_be_report(path: str | Path) -> bool:
    """Whether a file begins as a JSON object. False if it can't be read; the loader then raises the error."""
    from placesim.core.files.reader import open_file

    try:
        with open_file(path) as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False
