"""`placesim memory`."""

from __future__ import annotations

import sys
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
    output_option,
    shape_option,
    take_record,
    top_option,
)
from placesim.cli.output_forms import Form, document_forms, form_option, open_option, table_option, take_target, write_target

if TYPE_CHECKING:
    from placesim.inspection.memory_requirements import MemoryStudy
    from placesim.report.text.tables import Tables, TabLines

AUTO = "auto"
TOP = 12
"""Default number of tensors listed for a device."""


def _text(study: MemoryStudy, top: int) -> TabLines:
    from placesim.report.text.memory import memory_lines

    return memory_lines(study, top)


def _tables(study: MemoryStudy, top: int) -> Tables:
    from placesim.report.text.memory import TABLES, memory_document
    from placesim.report.text.tables import Tables

    document = memory_document(study, top)
    return Tables(TABLES, lambda: document)


def _html(study: MemoryStudy, top: int) -> str:
    from placesim.report.pictures.memory_page import memory_page

    return memory_page(study, top)


FORMS = (
    Form("text", _text, (".txt", ".tsv")),
    *document_forms(_tables),
    Form("html", _html, (".html", ".htm")),
)
EXITS = {
    0: "it fits",
    1: "a device runs out of memory, or TensorFlow would refuse the graph",
    2: "sizes or options are wrong",
}


class _Batch(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """A parameter type for a batch size: a number, or `auto` for the largest that fits."""

    name = "batch"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"N|{AUTO}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text == AUTO:
            return AUTO
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            self.fail(f"got '{text}', expected a number or {AUTO}", param, ctx)
        return int(text)


@command("memory", exits=EXITS)
@click.argument("graph")
@shape_option()
@own_option(
    "--batch",
    type=_Batch(),
    help="Batch size: replaces an unknown first dimension of placeholders; auto: the largest that fits.",
)
@guess_options
@feed_option
@option("--execute", is_flag=True, help="Execute the graph with numpy, and use the sizes that result.", folder_values="none")
@own_option(
    "--dump", "dumps", is_flag=True, help="Print TensorFlow's dump of each allocator at its peak, or when it ran out of memory."
)
@top_option(TOP, "tensors and other memory users to list for each device")
@graph_options
@file_access_options
@form_option(FORMS, "Output format (default: text).")
@table_option("devices", "holders")
@output_option()
@open_option
def memory_command(graph: str, batch: int | str | None, execute: bool, top: int, **values: Any) -> int:
    """Report the memory that each device needs during a graph's steps, and whether it fits.

    GRAPH is any graph that `run` reads.  The steps are simulated without computing values, so all sizes must be known: set
    unknown ones with `--batch` or `--shape`.  In a terminal, the report shows a memory curve per device and the largest
    holders of memory at its peak: tensors and other users.  In a pipe, it is tab-separated tables with header lines.  With
    `--format html`, the report is a single page that needs no network.

    \b
    Examples:
      placesim memory graphs/cifar10-towers.yaml
      placesim memory model.pb --fetch logits --batch auto --gpu 1 --gpu-model 'Tesla T4'
      placesim memory graphs/alexnet.yaml --output alexnet.html
      placesim memory model.yaml --batch 64 | awk -F'\\t' '$1 == "device" {print $2, $5}'
    """
    from placesim.cli.graph_arguments import graph_name, load_graph
    from placesim.cli.output import complain, write, write_error
    from placesim.cli.progress import show_stages
    from placesim.studies.memory_study import MemoryStudyRequest, study_memory

    target = take_target(FORMS, values)
    found = take_record(values, MemoryStudyRequest, is_executed=execute, finds_batch=batch == AUTO)
    options = in_shell(given(values | {"execute": execute, "batch": None if batch == AUTO else batch}))
    loaded = load_graph(graph, options)
    with show_stages("measuring"):
        study = study_memory(loaded, options, graph_name(graph), found, lambda text: complain(f"Warning: {text}\n"))
    if target.is_for_reader:
        from placesim.report.terminal.memory import styled_memory

        write(styled_memory(study, sys.stdout, top), is_styled=True)
    else:
        write_target(FORMS, target, study, top)
    if study.error is not None:
        write_error(study.error)
        return study.error.exit_code
    return 0
