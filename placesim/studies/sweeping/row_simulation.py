"""Simulate one combination of settings, and make it a row of a sweep, even if it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.errors import DefectError, PlacesimError, shown_type
from placesim.graph.node_text import replace_tags
from placesim.prediction.sweep_rows import SweepRow, Value
from placesim.studies.sweeping.axes import settings_of

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.prediction.time_breakdown import TimeStudy


@dataclass(frozen=True)
class SweepJob:
    """The common part of all combinations of a sweep.

    `source` is a path, the bytes of a stream or a mapping. `options` are options of `placesim.simulate`. `examples` is the
    number of examples per step (None: the batch size). `folder` is the base of relative paths (None: the current folder of the
    process). `directory` is the folder of the graph's file if `source` has the bytes of this file.
    """

    source: str | Path | bytes | Mapping[str, Any]
    name: str
    keys: tuple[str, ...]
    options: Mapping[str, Any]
    steps: int | None = None
    examples: int | None = None
    folder: str | None = None
    directory: str | None = None


class RowOutcome(NamedTuple):
    """A row, the error if nothing could be simulated, and the assumptions about values unknown before the step runs."""

    row: SweepRow
    error: PlacesimError | None = None
    assumptions: tuple[str, ...] = ()


def simulate_row(job: SweepJob, values: tuple[Value, ...]) -> RowOutcome:
    """Simulate a combination; any error becomes part of the row."""
    from placesim.machine.options import make_options
    from placesim.studies.time_study import study_time

    try:
        options_by_name, steps, config = settings_of(job.keys, values, job.options, job.steps)
        options = make_options(options_by_name)
        study = study_time(_load(job, options, config), options, job.name, steps)
    except PlacesimError as error:
        error.outcome = None  # the outcome refers to the graph, and rows are sent between processes
        return RowOutcome(SweepRow(values, error=_sentence(error)), error)
    except Exception as defect:  # an error of one combination does not stop the others
        found = DefectError(f"{type(defect).__name__}: {defect}")
        return RowOutcome(SweepRow(values, error=_sentence(found)), found)
    row = _row(values, study, options.batch if job.examples is None else job.examples)
    return RowOutcome(row, assumptions=study.value_assumptions)


def load_source(job: SweepJob, options: SimulationOptions) -> LoadedGraph:
    """Load the sweep's graph from its source."""
    from placesim.formats.sources.loading import load, source_again

    # only a graph given as bytes has no name
    return load(source_again(job.source), job.name if isinstance(job.source, bytes) else None, options)


def _load(job: SweepJob, options: SimulationOptions, config: Mapping[str, Any]) -> LoadedGraph:
    from placesim.formats.graph_file.sections.config import override_config

    found = load_source(job, options)
    if job.directory is not None:
        found = replace(found, directory=Path(job.directory), folder=Path(job.directory))
    if not config or found.file is None:
        return found
    return replace(found, file=replace(found.file, config=override_config(found.file.config, config)))


def _row(values: tuple[Value, ...], study: TimeStudy, examples: int | None) -> SweepRow:
    step, bound, device = study.step, study.bound, study.fullest_device
    return SweepRow(
        settings=values,
        seconds=step.seconds,
        low=step.low,
        high=step.high,
        examples_per_second=examples / step.seconds if examples is not None and step.seconds else None,
        peak_device=device.device,
        peak_bytes=device.peak or 0,
        limit_bytes=device.limit,
        fits=study.error is None,
        transfers=len(study.counted_transfers),
        transfer_bytes=sum(transfer.bytes for transfer in study.counted_transfers),
        bound=bound.what,
        bound_share=bound.seconds / step.seconds if step.seconds else None,
        error=None if study.error is None else _sentence(study.error),
    )


def _sentence(error: PlacesimError) -> str:
    """Return the class and first line of an error, as one line."""
    lines = replace_tags(str(error), lambda name: f"node {name}").strip().splitlines() or [""]
    return f"{shown_type(error)}: {lines[0]}"
