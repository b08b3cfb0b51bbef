"""`placesim simulate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command
from placesim.cli.option_types import option, own_option
from placesim.cli.options import (
    feed_option,
    file_access_options,
    given,
    graph_options,
    guess_options,
    in_shell,
    link_option,
    output_option,
    profile_option,
    size_options,
    steps_option,
    top_option,
    trace_option,
)
from placesim.cli.output_forms import Form, document_forms, form_option, open_option, table_option, take_target, write_target
from placesim.core.process.gc_pause import collector_paused

if TYPE_CHECKING:
    from placesim.prediction.time_breakdown import TimeStudy
    from placesim.report.text.tables import Tables, TabLines

TOP = 10
"""Default number of rows of the critical path, of nodes and of transfers."""


def _text(study: TimeStudy, top: int) -> TabLines:
    from placesim.report.text.timing import time_lines

    return time_lines(study, top)


def _tables(study: TimeStudy, top: int) -> Tables:
    from placesim.report.text.tables import Tables
    from placesim.report.text.timing import TABLES, time_document

    document = time_document(study)
    return Tables(TABLES, lambda: document, top)


def _html(study: TimeStudy, top: int) -> str:
    from placesim.report.pictures.timing_page import timing_page

    return timing_page(study, top)


FORMS = (
    Form("text", _text, (".txt", ".tsv")),
    *document_forms(_tables),
    Form("html", _html, (".html", ".htm")),
)
EXITS = {
    0: "simulated",
    1: "a device runs out of memory, or TensorFlow would refuse the graph",
    2: "sizes or options are wrong",
}


@command("simulate", exits=EXITS)
@click.argument("graph")
@size_options()
@guess_options
@option(
    "--execute",
    is_flag=True,
    help="Execute the graph with numpy, and use the sizes, iterations and branches that result.",
    folder_values="none",
)
@feed_option
@profile_option
@own_option(
    "--compare",
    metavar="FILE",
    help="Compare with a measured step: TensorFlow's RunMetadata, timeline or profile, or an SQLite export of Nsight Systems.",
    folder_values="own files",
)
@steps_option
@top_option(TOP, "nodes, transfers and parts of the critical path to list")
@graph_options
@link_option
@file_access_options
@form_option(FORMS, "Output format (default: text).")
@table_option(
    *("nodes", "steps", "bounds", "devices", "links", "transfers", "critical-path", "speedups"),
    *("measured", "measured-ops", "measured-nodes", "unmatched"),
    renamed={"helps": "speedups"},
)
@output_option()
@open_option
@trace_option("simulated step")
@collector_paused()
def simulate_command(
    graph: str, execute: bool, compare: str | None, steps: int | None, top: int, trace: str | None, **values: Any
) -> int:
    """Predict the time of a graph's step on a machine, and show its bottlenecks.

    GRAPH is any graph that `run` reads.  The steps are simulated without computing values, so all sizes must be known: set
    unknown ones with `--batch` or `--shape`.  A loop whose number of iterations is unknown runs once, and an undecided
    conditional counts as its most expensive branch.  The time of a node depends on its shapes and its device.  Transfers on a
    link share its bandwidth.  The report names what limits the step.  With `--format html`, it is a single page that needs no
    network and shows a timeline of each device, down to single nodes.

    \b
    Examples:
      placesim simulate graphs/cifar10-towers.yaml
      placesim simulate model.pb --fetch logits --batch 64 --gpu 1 --gpu-model 'Tesla T4'
      placesim simulate graphs/alexnet.yaml --output alexnet.html
      placesim simulate model.pb --fetch logits --batch 64 --compare run_metadata.pb
      placesim simulate model.yaml --batch 64 | awk -F'\\t' '$1 == "node" {print $7, $2}'
    """
    from placesim.cli.graph_arguments import graph_name, load_graph
    from placesim.cli.output import complain, write, write_error, write_trace
    from placesim.cli.progress import show_stages
    from placesim.formats.traces.reader import read_measurement
    from placesim.studies.time_study import study_time

    target = take_target(FORMS, values)
    options = in_shell(given(values))
    measurement = None if compare is None else read_measurement(compare)
    loaded = load_graph(graph, options)
    with show_stages("simulating"):
        study = study_time(
            loaded,
            options,
            graph_name(graph),
            steps,
            is_executed=execute,
            tells_helps=True,
            is_traced=trace is not None or target.form == "html",
            measurement=measurement,
            warn=lambda text: complain(f"Warning: {text}\n"),
        )
    if trace is not None:
        from placesim.report.trace_json import trace_events

        write_trace(Path(trace), trace_events(study))
    if target.is_for_reader:
        from placesim.report.terminal.timing import styled_timing

        write(styled_timing(study, sys.stdout, top), is_styled=True)
    else:
        write_target(FORMS, target, study, top)
    if study.error is not None:
        write_error(study.error)
        return study.error.exit_code
    return 0
