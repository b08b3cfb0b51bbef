"""`placesim simulate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.forms import Form, find_form, form_of_file, form_option
from placesim.cli.options import (
    debug_option,
    feed_option,
    file_access_options,
    given,
    machine_options,
    output_option,
    placement_options,
    profile_option,
    shell_environment,
    size_options,
    source_options,
    top_option,
)

if TYPE_CHECKING:
    from placesim.prediction.study import TimeStudy

TOP = 10
"""How many rows of the critical path, of nodes and of transfers there are unless told otherwise."""
MAX_STEPS = 1 << 40


def _text(study: TimeStudy, top: int) -> str:
    from placesim.report.text.timing import format_lines

    return format_lines(study, top)


def _json(study: TimeStudy, top: int) -> str:
    from placesim.report.document import json_line
    from placesim.report.text.timing import time_document

    return json_line(time_document(study))


FORMS = (Form("text", _text), Form("json", _json, (".json",)))
_EPILOG = (
    "Exit code: 0 simulated, 1 a device runs out of memory, or TensorFlow would refuse the graph, 2 sizes or options are wrong."
)


@click.command("simulate", epilog=_EPILOG)
@click.argument("graph")
@size_options()
@feed_option
@profile_option
@click.option("--steps", type=click.IntRange(1, MAX_STEPS), metavar="N", help="How often the last step runs.")
@top_option(TOP, "nodes, transfers and parts of the critical path to list")
@machine_options
@source_options
@placement_options
@file_access_options
@form_option(FORMS, "The form of the report.")
@output_option
@debug_option
def simulate_command(
    graph: str, feeds: tuple[str, ...], steps: int | None, top: int, form: str | None, output: str | None, **values: Any
) -> int:
    """Tell how long a graph's step would take on the machine, and where the time goes.

    GRAPH is whatever `run` takes.  The steps are walked through and nothing is computed, so that sizes have to be known:
    `--batch` or `--shape` settle what placeholders leave open.  Each node takes what its shapes cost on its device, transfers
    share links, and the report says what bounds the step.

    \b
    Examples:
      placesim simulate graphs/cifar10-towers.yaml
      placesim simulate model.pb --fetch logits --batch 64 --gpu 1 --gpu-model 'Tesla T4'
      placesim simulate model.yaml --batch 64 | awk -F'\\t' '$1 == "node" {print $7, $2}'
    """
    from placesim.cli.graph_arguments import graph_loader, graph_name
    from placesim.cli.output import is_terminal, write, write_error_text, write_files
    from placesim.formats.graph_file.overrides import parse_feed
    from placesim.options import make_options
    from placesim.timing import study_time

    form = form or form_of_file(FORMS, output or "") or "text"
    known = {"feed": dict(map(parse_feed, feeds)), "environment": shell_environment()}
    options = make_options(given(values | known))
    study = study_time(graph_loader(graph, options), options, graph_name(graph), steps)
    if form == "text" and output is None and is_terminal(sys.stdout):
        write(_styled(study, top), is_styled=True)
    else:
        text = find_form(FORMS, form).write(study, top)
        write(text) if output is None else write_files({Path(output): [text.encode()]})
    if study.error is not None:
        report = study.error.report
        if report is not None:
            write_error_text(report.error_text())
        return study.error.exit_code
    return 0


def _styled(study: TimeStudy, top: int) -> str:
    from placesim.report.terminal_timing import styled_timing

    return styled_timing(study, sys.stdout, top)
