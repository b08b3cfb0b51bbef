"""`placesim show`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command, same_setting
from placesim.cli.option_types import own_option
from placesim.cli.options import given, graph_options, in_shell, memory_option, output_option, size_options
from placesim.cli.output_forms import (
    OPENED,
    ROW_FORMS,
    Form,
    document_forms,
    form_option,
    open_option,
    table_option,
    take_target,
    write_target,
)
from placesim.core.errors import UsageError
from placesim.core.styled_text import StyledText

if TYPE_CHECKING:
    from placesim.inspection.picturing.picture import Picture
    from placesim.report.text.tables import Tables, TabLines


def _text(picture: Picture, depth: int | None) -> TabLines:
    from placesim.report.text.scopes import scope_lines

    return scope_lines(picture, depth)


def _tables(picture: Picture, depth: int | None) -> Tables:
    from placesim.report.text.scopes import TABLES, scopes_document
    from placesim.report.text.tables import Tables

    return Tables(TABLES, lambda: scopes_document(picture, depth))


def _dot(picture: Picture, depth: int | None) -> Iterator[str]:
    from placesim.report.pictures.dot import format_dot

    yield format_dot(picture, depth)


def _mermaid(picture: Picture, depth: int | None) -> Iterator[str]:
    from placesim.report.pictures.mermaid import format_mermaid

    yield format_mermaid(picture, depth)


def _html(picture: Picture, depth: int | None) -> Iterator[str]:
    from placesim.report.pictures.html_page import html_page

    yield html_page(picture)


def _svg(picture: Picture, depth: int | None) -> Iterator[str]:
    from placesim.report.pictures.svg import format_svg

    yield format_svg(picture, depth)


def _png(picture: Picture, depth: int | None) -> bytes:
    from placesim.report.pictures.png import png_of
    from placesim.report.pictures.svg import format_svg

    return png_of(format_svg(picture, depth))


FORMS: tuple[Form[Any], ...] = (
    Form("text", _text, (".txt", ".tsv")),
    *document_forms(_tables),
    Form("dot", _dot, (".dot", ".gv")),
    Form("mermaid", _mermaid, (".mmd",)),
    Form("html", _html, (".html", ".htm")),
    Form("svg", _svg, (".svg",)),
    Form("png", _png, (".png",)),
)


@command("show")
@click.argument("graph")
@graph_options
@own_option("--depth", type=click.IntRange(1), metavar="N", help="Open scopes down to level N.")
@memory_option("Show the peak memory of each device (default: in html, svg, png and json, if cheap to compute).")
@size_options("memory")
@own_option("--signatures", is_flag=True, help="Show only the inputs and outputs of a model's signatures.")
@form_option(FORMS, "Output format (default: text, or from the extension of --output).")
@table_option("scopes", "repeats", "devices", "transfers", "host-copies", "signals", "memory")
@output_option()
@open_option
def show_command(
    graph: str,
    depth: int | None,
    memory: bool | None,
    signatures: bool,
    **values: Any,
) -> int:
    """Show a placement: its name scopes by device, and the copies between devices.

    GRAPH is any graph that `run` reads, or a report written by `--format json`. A terminal shows a matrix of transferred
    bytes, and a tree of scopes, folded to fit; each scope has a bar with the shares of its devices. With `--format html`,
    the report is a single page that needs no network, with scopes to open, a search and explanations of ops; `svg` and
    `png` show its first view. In a pipe, scopes and pairs of devices are tab-separated tables with header lines.

    \b
    Examples:
      placesim show graphs/towers.yaml --gpu 4
      placesim show graphs/cifar10-towers.yaml --gpu 2 --output towers.html
      placesim show graphs/cifar10-towers.yaml --gpu 2 --output towers.svg
      placesim show model.yaml --memory --batch 64
      placesim show saved_model/ --signatures
      placesim show model.pb --format dot --depth 2 | dot -Tsvg > model.svg
      placesim show model.yaml --no-header | awk -F'\\t' '$1 == "transfers"'
    """
    from placesim.cli.graph_arguments import open_subject
    from placesim.cli.output import write, write_error_text
    from placesim.cli.progress import show_stages
    from placesim.core.process.deadlines import run_within
    from placesim.inspection.picturing.picture import picture_of
    from placesim.studies.snapshots import DryRunNeed, DryRunNeeds

    if signatures:
        return _show_signatures(graph, values)
    target = take_target(FORMS, values)
    wish = DryRunNeed.of(memory, values, by_itself=target.form in ("json", *OPENED))
    costs = wish if target.form in OPENED else DryRunNeed.NONE
    wishes = DryRunNeeds(memory=wish, costs=costs, sizes=DryRunNeed.of(None, values, by_itself=False))
    snapshot = open_subject(graph, given(values), wishes=wishes)
    with show_stages("drawing"):
        picture = run_within(values["timeout"], lambda: picture_of(snapshot))
    picture = replace(picture, command=same_setting("explain", graph))
    if target.is_for_reader:
        from placesim.report.terminal.scope_tree import styled_tree

        write(styled_tree(picture, sys.stdout, depth), is_styled=True)
    else:
        write_target(FORMS, target, picture, depth)
    if picture.error:
        write_error_text(snapshot.complaint or StyledText(picture.error, "\n"))
    return 1 if picture.error else 0


def _show_signatures(graph: str, values: dict[str, Any]) -> int:
    """Print the signatures of a graph, and return the exit code.

    Raises UsageError for a graph without signatures, and for a format without tables.
    """
    from placesim.cli.graph_arguments import load_graph
    from placesim.cli.output import write_rows
    from placesim.report.text.signatures import COLUMNS, signature_rows

    form, *others = (values.pop(name) for name in ("form", "output", "opens", "table"))
    form = form or "text"
    if form not in ROW_FORMS or any(others):
        raise UsageError(f"--signatures is printed as {', '.join(ROW_FORMS)}: got another form, --output, --table or --open")
    loaded = load_graph(graph, in_shell(given(values)))
    if loaded.error is not None:
        raise loaded.error
    if not loaded.signatures:
        raise UsageError(f"no signatures to show: got {graph}, expected a SavedModel or a MetaGraphDef with signatures")
    write_rows(signature_rows(loaded.signatures), "signatures", COLUMNS, form)
    return 0
