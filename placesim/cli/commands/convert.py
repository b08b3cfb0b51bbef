"""`placesim convert`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command
from placesim.cli.option_types import MACHINE, PLACEMENT, option, own_option
from placesim.cli.options import given, graph_options, in_shell
from placesim.cli.output_forms import Form, form_option
from placesim.core.errors import UsageError
from placesim.studies.conversions import (
    ENDINGS,
    FORMS,
    NODES,
    build_placed_file,
    convert_graph,
    find_file_form,
    partition_files,
    weights_left_behind,
)

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.sessions.outcome import Outcome

_FORMS = tuple(Form(name, convert_graph, ENDINGS[name]) for name in FORMS)


@command("convert")
@click.argument("graph", metavar="IN")
@click.argument("out", metavar="[OUT]", required=False)
@form_option(_FORMS, "Format of OUT (default: from its extension; YAML for -).")
@own_option("--placed", is_flag=True, help="Write each node's assigned device instead of the requested one.")
@own_option("--raw", "nodes", flag_value="raw", help="Write YAML with the NodeDefs of the GraphDef, unabridged.")
@own_option(
    "--scopes",
    "nodes",
    flag_value="scopes",
    help="Write YAML with scopes and variables, also for a GraphDef; the output can lack attrs that have their default value.",
)
@option(
    "--partitioned",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write one GraphDef per device, with its sends and receives; `--format pbtxt` writes text.",
    folder_values="none",
)
@graph_options
def convert_command(
    graph: str, out: str | None, form: str | None, placed: bool, nodes: str | None, partitioned: str | None, **values: Any
) -> int:
    """Convert a graph between YAML, JSON and TensorFlow's GraphDef (binary or text), or write devices into an ONNX model.

    IN is any graph that `run` reads.  The extension of OUT selects the format: .yaml, .json, .pb, .pbtxt or .onnx.  For
    .onnx, IN must be an ONNX model, and only the devices of its nodes change.  If OUT is -, the graph is printed.  A GraphDef
    holds nodes, functions and versions; anything else in IN that OUT cannot hold is listed on standard error.  YAML keeps
    scopes, variables and literals, and the source lines of a script.

    \b
    Examples:
      placesim convert script.py graph.yaml
      placesim convert model.pb model.yaml --scopes
      placesim convert graphs/towers.yaml - --format pbtxt
      placesim convert saved_model/ placed.pb --placed --gpu 2 --soft-placement
      placesim convert model.onnx placed.onnx --placed --gpu 2
      placesim convert graphs/towers.yaml --partitioned parts/ --gpu 4
    """
    from placesim.cli.graph_arguments import load_graph
    from placesim.cli.output import complain, tell_needless, write_files
    from placesim.cli.progress import show_stages
    from placesim.formats.recognition import is_script

    if out is None and partitioned is None:
        raise UsageError("missing argument OUT: expected an output file, or --partitioned DIR")
    form = _form(out, form)
    options = in_shell(given(values))
    if not (placed or partitioned is not None or is_script(graph)):
        tell_needless((MACHINE, PLACEMENT), "without --placed or --partitioned")
    loaded = load_graph(graph, options)
    if loaded.error is not None or loaded.file is None:
        raise loaded.error or UsageError(f"no graph in {graph}")
    file = loaded.file
    written: dict[Path, Iterable[bytes]] = {}
    if partitioned is not None and loaded.onnx is not None:
        loaded.onnx.check_weights()
    if placed or partitioned is not None:
        outcome = _placed(loaded, options, is_partitioned=partitioned is not None)
        if partitioned is not None:
            written |= {Path(partitioned) / path: (data,) for path, data in partition_files(outcome, form == "pbtxt")}
        if placed:
            file = build_placed_file(file, outcome, form)
    if out is None:
        write_files(written, makes_folders=True)
        return 0
    from placesim.formats.graph_file.writing.raw_writer import with_feeds_from

    content = convert_graph(
        with_feeds_from(file, loaded.directory, Path() if out == "-" else Path(out).parent),
        form,
        nodes or NODES[0],
        loaded.onnx,
        graph,
    )
    if out != "-":
        written[Path(out)] = content.pieces
    with show_stages("writing"):
        write_files(written, makes_folders=True)
    if out == "-":
        _print(content.pieces, form)
    left = weights_left_behind(loaded, Path(out)) if form == "onnx" and out != "-" else ""
    for note in (*content.notes, *([left] if left else [])):
        complain(f"{note}\n")
    return 0


def _placed(loaded: LoadedGraph, options: SimulationOptions, *, is_partitioned: bool) -> Outcome:
    from placesim.cli.progress import show_stages
    from placesim.studies.simulation.simulation import SimulationStage, simulate

    with show_stages("placing"):
        outcome = simulate(loaded, options, SimulationStage.PARTITIONED if is_partitioned else SimulationStage.PLACED)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _form(out: str | None, form: str | None) -> str:
    if form is not None:
        return form
    if out is None:
        return "pb"
    return "yaml" if out == "-" else find_file_form(out)


def _print(content: Iterator[bytes], form: str) -> None:
    from placesim.cli.standard_streams import write_result

    if sys.stdout.isatty() and form in ("pb", "onnx"):
        what = "a binary GraphDef" if form == "pb" else "an ONNX model"
        raise UsageError(f"cannot print {what} to a terminal: got -, expected a file, a pipe, or --format pbtxt")
    all(map(write_result, content))  # until the reader has gone
