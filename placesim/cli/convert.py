"""`placesim convert`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command
from placesim.cli.forms import Form, find_form, form_of_file, form_option
from placesim.cli.options import given, machine_options, placement_options, shell_environment, source_options
from placesim.errors import UsageError

if TYPE_CHECKING:
    from placesim.graph.steps import GraphFile
    from placesim.report.report import Report


def _yaml(file: GraphFile) -> Iterator[bytes]:
    from placesim.cli.output import gathered
    from placesim.formats.graph_file.scoped_writer import scoped_lines
    from placesim.simulation import is_as_python_builds

    written = scoped_lines(file, accepts=is_as_python_builds)
    return _raw_yaml(file) if written is None else (piece.encode() for piece in gathered(iter(written)))


def _short_yaml(file: GraphFile) -> Iterator[bytes]:
    from placesim.cli.output import complain, gathered
    from placesim.formats.graph_file.scoped_writer import scoped_lines
    from placesim.simulation import is_as_python_builds

    written = scoped_lines(file, leaves_defaults=True, accepts=is_as_python_builds)
    if written is None:
        complain("scopes cannot say this graph: its nodes are written as they stand\n")
        return _raw_yaml(file)
    return (piece.encode() for piece in gathered(iter(written)))


def _raw_yaml(file: GraphFile) -> Iterator[bytes]:
    from placesim.cli.output import gathered
    from placesim.formats.graph_file.writer import yaml_lines

    return (piece.encode() for piece in gathered(yaml_lines(file)))


def _json(file: GraphFile) -> Iterator[bytes]:
    from placesim.cli.output import gathered
    from placesim.formats.graph_file.writer import graph_file_parts
    from placesim.report.document import json_text

    return (piece.encode() for piece in gathered(json_text(graph_file_parts(file))))


def _pb(file: GraphFile) -> Iterator[bytes]:
    from placesim.formats.tensorflow.graph_def import write_graph_def

    yield write_graph_def(file, text=False)


def _pbtxt(file: GraphFile) -> Iterator[bytes]:
    from placesim.formats.tensorflow.graph_def import write_graph_def

    yield write_graph_def(file, text=True)


FORMS = (
    Form("yaml", _yaml, (".yaml", ".yml")),
    Form("json", _json, (".json",)),
    Form("pb", _pb, (".pb",)),
    Form("pbtxt", _pbtxt, (".pbtxt",)),
)


@command("convert")
@click.argument("graph", metavar="IN")
@click.argument("out", metavar="[OUT]", required=False)
@form_option(FORMS, "The form of OUT, where its ending doesn't tell; - is YAML.")
@click.option("--placed", is_flag=True, help="Write the devices that the nodes were placed on, instead of those they ask for.")
@click.option("--raw", "nodes", flag_value="raw", help="Write YAML's nodes as NodeDefs, as they stand in a GraphDef.")
@click.option(
    "--scopes",
    "nodes",
    flag_value="scopes",
    help="Write YAML with scopes and variables also where attrs that equal their default get lost by it.",
)
@click.option(
    "--partitioned",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write what each device runs, with its sends and receives: one GraphDef a device, as .pbtxt with `--format pbtxt`.",
)
@source_options
@machine_options
@placement_options
def convert_command(
    graph: str, out: str | None, form: str | None, placed: bool, nodes: str | None, partitioned: str | None, **values: Any
) -> int:
    """Convert a graph between YAML, JSON and TensorFlow's GraphDef, binary or text.

    IN is whatever `run` takes.  OUT's ending tells its form: .yaml, .json, .pb or .pbtxt; - is standard output.  A GraphDef
    holds nodes, functions and versions; what else IN has, and OUT has no place for, is named on standard error.  YAML has the
    scopes, variables and literals that make the very same nodes, and a script's lines, where there are any that do.

    \b
    Examples:
      placesim convert script.py graph.yaml
      placesim convert model.pb model.yaml --scopes
      placesim convert graphs/towers.yaml - --format pbtxt
      placesim convert saved_model/ placed.pb --placed --gpu 2 --soft-placement
      placesim convert graphs/towers.yaml --partitioned parts/ --gpu 4
    """
    from placesim.cli.graph_arguments import load_graph
    from placesim.cli.output import write_files
    from placesim.options import make_options
    from placesim.simulation import Stage, simulate

    if out is None and partitioned is None:
        raise UsageError("nothing to write: got no OUT, expected one, or --partitioned DIR")
    form = _form(out, form)
    options = make_options({"environment": shell_environment(), **given(values)})
    loaded = load_graph(graph, options)
    if loaded.error is not None or loaded.file is None:
        raise loaded.error or UsageError(f"no graph in {graph}")
    file = loaded.file
    written: dict[Path, Iterable[bytes]] = {}
    if placed or partitioned is not None:
        report = simulate(loaded, options, Stage.PLACED if partitioned is None else Stage.PARTITIONED)
        if report.error is not None:
            raise report.error
        if partitioned is not None:
            written |= _partition_files(report, Path(partitioned), is_text=form == "pbtxt")
        if placed:
            from placesim.formats.annotations import assign_devices

            file = assign_devices(file, {row.node: row.device for row in report.placements})
    content: Iterator[bytes] = iter(())
    if out is not None:
        from placesim.formats.graph_file.writer import with_feeds_from

        writers = {"raw": _raw_yaml, "scopes": _short_yaml} if form == "yaml" else {}
        content = writers.get(nodes or "", find_form(FORMS, form).write)(
            with_feeds_from(file, loaded.directory, Path() if out == "-" else Path(out).parent)
        )
    if out is not None and out != "-":
        written[Path(out)] = content
    write_files(written, makes_folders=True)
    if out == "-":
        _print(content, form)
    if out is not None:
        _name_losses(file, form)
    return 0


def _form(out: str | None, form: str | None) -> str:
    if form is not None:
        return form
    if out is None:
        return "pb"
    if out == "-":
        return "yaml"
    found = form_of_file(FORMS, out)
    if found is None:
        endings = ", ".join(ending for form in FORMS for ending in form.endings)
        raise UsageError(f"unknown ending: got '{out}', expected one of {endings}, or --format")
    return found


def _print(content: Iterator[bytes], form: str) -> None:
    from placesim.cli.streams import write_result

    if sys.stdout.isatty() and form == "pb":
        raise UsageError("a binary GraphDef is not for a terminal: got -, expected a file, a pipe, or --format pbtxt")
    all(map(write_result, content))  # as far as it is read


def _partition_files(report: Report, directory: Path, is_text: bool) -> dict[Path, Iterable[bytes]]:
    """A file a device; in a folder for each step where steps differ."""
    from placesim.formats.tensorflow.graph_def import write_partitions

    found: dict[Path, Iterable[bytes]] = {}
    for number, prepared in enumerate(report.prepared):
        folder = directory / f"step-{number}" if len(report.prepared) > 1 else directory
        parts = {part.device.name: part.graph for part in prepared.partitions.parts}
        for device, content in write_partitions(parts, is_text).items():
            name = device.strip("/").replace("/", ".").replace(":", "_")
            found[folder / f"{name}.{'pbtxt' if is_text else 'pb'}"] = (content,)
    return found


def _name_losses(file: GraphFile, form: str) -> None:
    """Say what the form has no place for."""
    from placesim.cli.output import complain
    from placesim.formats.tensorflow.graph_def import left_out

    lost = left_out(file) if form in ("pb", "pbtxt") else []
    if file.initial_values:
        lost.append("the values of its variables")
    if lost:
        complain(f"not in {form}: {', '.join(lost)}\n")
