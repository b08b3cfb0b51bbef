"""`placesim sweep`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.cluster_options import scheduler_options, take_connection
from placesim.cli.command import command
from placesim.cli.option_types import Words, option, own_option
from placesim.cli.options import (
    Command,
    feed_option,
    file_access_options,
    given,
    guess_options,
    inventory_option,
    link_option,
    output_option,
    placement_options,
    profile_option,
    shape_option,
    source_options,
    steps_option,
)
from placesim.cli.output_forms import Form, find_form, form_option, open_option, show_opened, take_target
from placesim.core.errors import UsageError
from placesim.machine.gpu_options import shell_environment
from placesim.machine.options import make_options
from placesim.prediction.sweep_rows import RESULTS

if TYPE_CHECKING:
    from placesim.prediction.sweep_rows import Sweep, SweepRow, Value
    from placesim.runtime.cluster.connection_settings import Connection
    from placesim.studies.sweeping.processes import ProcessCount
    from placesim.studies.sweeping.sweep import SweepRun

WRITING_SECONDS = 1.0
"""Minimum seconds between two writes of finished rows. Writing also takes at most about a tenth of the time."""


def _text(sweep: Sweep, columns: Sequence[str]) -> str:
    from placesim.cli.output import tab_text
    from placesim.report.text.sweep import sweep_lines

    return "".join(tab_text(sweep_lines(sweep.keys, sweep.rows, columns)))


def _csv(sweep: Sweep, columns: Sequence[str]) -> str:
    from placesim.report.text.sweep import sweep_csv

    return sweep_csv(sweep)


def _markdown(sweep: Sweep, columns: Sequence[str]) -> str:
    from placesim.report.text.sweep import sweep_markdown

    return sweep_markdown(sweep, columns)


def _json(sweep: Sweep, columns: Sequence[str]) -> str:
    from placesim.report.document import json_line
    from placesim.report.text.sweep import sweep_document

    return json_line(sweep_document(sweep))


def _html(sweep: Sweep, columns: Sequence[str]) -> str:
    from placesim.report.pictures.sweep_page import sweep_page

    return sweep_page(sweep)


FORMS = (
    Form("text", _text, (".txt", ".tsv")),
    Form("csv", _csv, (".csv",)),
    Form("markdown", _markdown, (".md",)),
    Form("json", _json, (".json",)),
    Form("html", _html, (".html", ".htm")),
)
COLUMN_FORMS = ("text", "markdown")
"""Formats that may leave out columns. Other formats need all columns, since the next sweep resumes from the file."""
EXITS = {
    0: "all combinations were simulated and fit",
    1: "a combination has an error: a device runs out of memory, TensorFlow would refuse the graph, or another",
    2: "options are wrong, or no combination can be simulated, always for the same reason, such as unknown tensor sizes",
}


def _axis(name: str, text: str, completes: str = "") -> Callable[[Command], Command]:
    return own_option(name, metavar="LIST", help=text, completes=completes)


@command("sweep", exits=EXITS)
@click.argument("graph")
@_axis("--gpu", "Numbers of GPUs, e.g. 1..8 or 1,2,4.")
@_axis("--gpu-model", "GPU models; `devices --gpu-models` lists them.", "gpu models")
@_axis("--batch", "Batch sizes: each replaces an unknown first dimension of placeholders.")
@_axis("--cpu", "Numbers of CPU devices.")
@option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=LIST",
    help="Vary another option, named without the leading dashes: soft-placement=true,false. For a link: "
    "link:A-B=1GB/s,2GB/s (repeatable).",
    completes="sweep keys",
    folder_values="none",
)
@own_option(
    "--examples", type=click.IntRange(1), metavar="N", help="Examples per step, for throughput (default: the batch size)."
)
@option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Number of combinations in progress at once (default: one per CPU core; on a cluster, two per worker "
    "thread, so that no thread waits).",
    folder_values="none",
)
@option(
    "--max-combinations",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of combinations (default: 10000).",
    folder_values="none",
)
@own_option(
    "--columns",
    type=Words(RESULTS),
    metavar="LIST",
    help="For text and markdown: results to show, e.g. seconds,fits (default: all; on a terminal, those that fit its width).",
)
@own_option(
    "--sort",
    "is_sorted",
    is_flag=True,
    help="For text and markdown: show the best combination first, and failed ones last. In a pipe, nothing is "
    "then printed until all rows are done.",
)
@steps_option
@shape_option()
@guess_options
@feed_option
@inventory_option
@link_option
@profile_option
@scheduler_options
@source_options
@placement_options
@file_access_options
@form_option(FORMS, "Output format (default: text).")
@output_option()
@open_option
def sweep_command(
    graph: str,
    gpu: str | None,
    gpu_model: str | None,
    batch: str | None,
    cpu: str | None,
    sets: tuple[str, ...],
    examples: int | None,
    jobs: int | None,
    max_combinations: int | None,
    columns: tuple[str, ...] | None,
    is_sorted: bool,
    steps: int | None,
    **values: Any,
) -> int:
    """Simulate a graph under every combination of options, and compare the step times.

    LIST is a list of values and ranges, separated by commas: 1..8, 8..64/8 (in steps of 8), 1..64*2 (doubled).  Each
    combination is a row: step time, examples per second, peak memory, whether it fits, transfers and bottleneck; a combination
    that fails is a row with its error.  A table marks the best combination with `*`; in a pipe, a line on standard error names
    it.  With `--format html`, the report is a single page that needs no network.  Rows that the
    `--output` file (csv, json or html) has from an earlier run are kept, and not simulated again.

    \b
    Examples:
      placesim sweep model.yaml --gpu 1..8 --gpu-model 'Tesla K80,Tesla V100-SXM2-16GB' --batch 16..256*2
      placesim sweep model.pb --fetch logits --set 'link:host-network=10Gbit/s,100Gbit/s' --output sweep.html
      placesim sweep model.yaml --batch 8..64/8 --scheduler tcp://10.0.0.1:8786 --output sweep.csv
      placesim sweep model.yaml --batch 8..64/8 --set soft-placement=true,false --format csv | column -s, -t
    """
    from placesim.cli.graph_arguments import graph_name, read_once
    from placesim.cli.output import complain
    from placesim.core.version import __version__
    from placesim.studies.sweeping.axes import MOST_COMBINATIONS, make_axes, parse_set
    from placesim.studies.sweeping.row_dependencies import identity_of
    from placesim.studies.sweeping.row_simulation import SweepJob
    from placesim.studies.sweeping.row_store import read_finished_rows
    from placesim.studies.sweeping.sweep import SweepRun

    connection = take_connection(values)
    target = take_target(FORMS, values)
    form, output = target.form, target.output
    if columns is not None and form not in COLUMN_FORMS:
        raise UsageError(f"--columns selects columns of text and markdown: got format {form}, which always has all columns")
    if is_sorted and form not in COLUMN_FORMS:
        raise UsageError(f"--sort sorts text and markdown: got format {form}, whose rows have the order of the combinations")
    listed = [("gpu", gpu), ("gpu-model", gpu_model), ("batch", batch), ("cpu", cpu)]
    axes = make_axes(
        [*((key, text) for key, text in listed if text is not None), *map(parse_set, sets)],
        max_combinations or MOST_COMBINATIONS,
    )
    options = given(values | {"environment": shell_environment()})
    data = read_once(graph, make_options(options))  # wrong options would fail in every row
    keys = tuple(axis.key for axis in axes)
    job = SweepJob(graph if data is None else data, graph_name(graph), keys, options, steps, examples)
    identity = identity_of(job, axes, __version__)

    def read_kept() -> Mapping[tuple[Value, ...], SweepRow]:
        return {} if output is None or form == "text" else read_finished_rows(Path(output), form, keys, identity)

    run = SweepRun(job, axes, read_kept())

    def sweep() -> Sweep:
        """Return the finished rows, and other rows of the file, which another sweep may have added."""
        from placesim.prediction.sweep_rows import Sweep, sort_rows

        own = {row.settings for row in run.ordered}
        rows = [*run.ordered, *(row for row in read_kept().values() if row.settings not in own)]
        return Sweep(job.name, keys, tuple(sort_rows(rows) if is_sorted else rows), identity)

    with _open_processes(connection, run, jobs) as processes:
        told = _RowOutput(sweep, form, output, columns, is_sorted)
        _run(run, processes, told)
    if not told.is_table:
        _name_best(keys, run.ordered)
    for text in run.assumptions:
        complain(f"Assumption: {text}\n")
    show_opened(target)
    return run.exit_code


class _RowOutput:
    """Output of rows: a file that is updated periodically, a table at the end, or lines as rows finish."""

    def __init__(self, sweep: Any, form: str, output: str | None, columns: tuple[str, ...] | None, is_sorted: bool) -> None:
        from placesim.cli.output import is_terminal

        self._sweep = sweep
        self._chosen = columns or ()
        self.columns = columns or RESULTS
        self._form = form
        self.path = None if output is None else Path(output)
        self.is_table = form == "text" and output is None and is_terminal(sys.stdout)
        self.is_stream = form == "text" and output is None and not self.is_table and not is_sorted
        # a pipe or a device is written only once
        self._is_kept = self.path is not None and form != "text" and (self.path.is_file() or not self.path.exists())
        self._next = time.monotonic() + WRITING_SECONDS
        self._told()  # this imports the format's modules, for which there is no time after an interrupt

    def keep(self) -> None:
        """Write the file, unless it was written a moment ago."""
        if self._is_kept and time.monotonic() >= self._next:
            began = time.monotonic()
            self.finish()
            ended = time.monotonic()
            self._next = ended + max(WRITING_SECONDS, 10 * (ended - began))

    def finish(self) -> None:
        """Write all rows."""
        from placesim.cli.output import write, write_files
        from placesim.core.files.locking import lock_path
        from placesim.core.files.writer import unwritable

        if self.is_stream:
            return
        if self.path is None:
            write(self._told(), is_styled=self.is_table)
            return
        try:
            # another sweep may write to the same file
            with lock_path(self.path) if self._is_kept else nullcontext():
                write_files({self.path: [self._told().encode()]})
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _told(self) -> str:
        """Return all rows in the output format."""
        if not self.is_table:
            return find_form(FORMS, self._form).write(self._sweep(), self.columns)
        from placesim.report.terminal.sweep import styled_sweep

        return styled_sweep(self._sweep(), sys.stdout, self._chosen)


def _name_best(keys: Sequence[str], rows: Sequence[SweepRow]) -> None:
    """Name the best combination on standard error, for output in which it is not marked."""
    from placesim.cli.output import complain
    from placesim.prediction.sweep_rows import find_best_row
    from placesim.report.text.sweep import best_reason
    from placesim.report.text.tables import line_cell

    best = find_best_row(rows)
    if best is not None:
        settings = ", ".join(f"{key} {line_cell(value)}" for key, value in zip(keys, best.settings, strict=True))
        complain(f"Best: {settings} ({best_reason(best)} of the combinations that fit)\n")


def _open_processes(connection: Connection, run: SweepRun, jobs: int | None) -> AbstractContextManager[ProcessCount]:
    """Return processes on the cluster if one is given and rows are left, else local processes."""
    from placesim.core.operating_system import available_processors
    from placesim.studies.sweeping.processes import ProcessCount

    if connection.scheduler is None or len(run.rows) == len(run.combinations):
        return nullcontext(ProcessCount(jobs or available_processors()))
    from placesim.studies.sweeping.cluster_processes import spread_processes

    return spread_processes(connection, run.job, jobs)


def _run(run: SweepRun, processes: ProcessCount, output: _RowOutput) -> None:
    """Simulate and write the rows; finished rows are also written after an interrupt or a lost cluster."""
    from placesim.cli.output import tell
    from placesim.cli.progress import TerminalProgress
    from placesim.core.errors import UnavailableError
    from placesim.core.process.interrupts import InterruptGrace

    with TerminalProgress() as progress, InterruptGrace():
        try:
            if output.is_stream:
                _write_lines(run, _watched(run, processes, output, progress), output.columns)
            else:
                for _ in _watched(run, processes, output, progress):
                    pass
        except (KeyboardInterrupt, UnavailableError):
            progress.clear()
            if run.simulated and not run.is_in_vain:
                output.finish()
                kept = "" if output.path is None else f", and kept in {output.path}"
                tell(f"interrupted: simulated {len(run.rows)} of {len(run.combinations)} combinations{kept}\n")
            raise
    output.finish()


def _watched(run: SweepRun, processes: ProcessCount, output: _RowOutput, progress: Any) -> Iterator[None]:
    total = len(run.combinations)
    progress.show({"combinations": (len(run.rows), total)})
    for done in run.run(processes):
        progress.show({"combinations": (done.done, total)})
        if not run.is_in_vain:
            output.keep()
        yield


def _write_lines(run: SweepRun, done: Iterable[None], columns: Sequence[str]) -> None:
    """Write lines in the order of combinations. A line is written when its row and all rows before it are finished."""
    from placesim.cli.output import tab_text, write
    from placesim.report.text.sweep import sweep_lines

    at = 0

    def told() -> bool:
        nonlocal at
        is_read = True
        while is_read and at in run.rows and not run.is_in_vain:
            lines = sweep_lines(run.job.keys, (run.rows[at],), columns)
            # head and first row together: Ctrl-C between them would leave a head without a row
            is_read = write("".join(tab_text(lines, is_continued=at > 0)))
            sys.stdout.flush()
            at += 1
        return is_read

    is_read = told()
    for _ in done:
        if not is_read:
            return
        is_read = told()
    told()
