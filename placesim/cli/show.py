"""`placesim show`."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.options import Word, debug_option, given, machine_options, placement_options, source_options
from placesim.errors import UsageError

if TYPE_CHECKING:
    from placesim.inspection.picturing.picture import Picture

FORMS = ("text", "json", "dot", "mermaid", "html")
_ENDINGS = {".json": "json", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".html": "html", ".htm": "html"}
MAX_DOT_BOXES = 400
"""More than Graphviz lays out in a moment; `--depth` asks for more."""


@click.command("show")
@click.argument("graph")
@machine_options
@source_options
@placement_options
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Open scopes down to the Nth level, whatever their number.")
@click.option("--format", "form", type=Word(FORMS), help="The form of the picture.")
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write to a file; its ending tells the form.")
@debug_option
def show_command(graph: str, depth: int | None, form: str | None, output: str | None, **values: Any) -> int:
    """Show a placement: its name scopes by device, and what is copied between devices.

    GRAPH is whatever `run` takes, or a report that `--format json` wrote.  On a terminal: a tree of scopes, each with a bar of
    its devices, folded to fit, and a matrix of bytes.  `html` is one page that needs no network, to open scopes, search, and
    click on an op for its explanation.  In a pipe, text is a line for each scope and each pair of devices, with tabs between.

    \b
    Examples:
      placesim show graphs/towers.yaml --gpu 4
      placesim show graphs/cifar10-towers.yaml --gpu 2 --output towers.html
      placesim show model.pb --format dot --depth 2 | dot -Tsvg > model.svg
      placesim show model.yaml | awk -F'\\t' '$1 == "transfers"'
    """
    from placesim.cli.output import write
    from placesim.cli.subjects import open_subject
    from placesim.inspection.picturing.picture import picture_of

    form = form or _ENDINGS.get(PurePath(output or "").suffix.lower(), "text")
    if form == "html" and output is None and sys.stdout.isatty():
        raise UsageError("a page is not for a terminal: got --format html, expected --output FILE with it")
    picture = picture_of(open_subject(graph, given(values)))
    text = _formatted(picture, form, depth, for_person=output is None)
    if output is None:
        write(text)
    else:
        _write_file(output, text)
    if picture.error:
        sys.stderr.write(picture.error + "\n")
    return 1 if picture.error else 0


def _formatted(picture: Picture, form: str, depth: int | None, for_person: bool) -> str:
    from placesim.report.text.scopes import format_lines, scopes_document

    if form == "html":
        from placesim.report.pictures.html_page import html_page

        return html_page(picture)
    if form == "json":
        from placesim.report.document import json_line

        return json_line(scopes_document(picture, depth))
    if form in ("dot", "mermaid"):
        return _drawn(picture, form, depth)
    return _styled(picture, depth) if for_person and _is_terminal() else format_lines(picture, depth)


def _drawn(picture: Picture, form: str, depth: int | None) -> str:
    from placesim.inspection.picturing.scopes import FOLD_LIMIT, opened_to, scope_tree, unfold
    from placesim.report.pictures.dot import format_dot
    from placesim.report.pictures.mermaid import MAX_BOXES, format_mermaid

    tree = scope_tree(picture.nodes, FOLD_LIMIT if depth is None else None)
    limit = MAX_BOXES if form == "mermaid" else MAX_DOT_BOXES
    opened = unfold(tree, limit) if depth is None else opened_to(tree, depth)
    return (format_mermaid if form == "mermaid" else format_dot)(picture, tree, opened)


def _styled(picture: Picture, depth: int | None) -> str:
    from placesim.report.terminal_tree import styled_tree

    return styled_tree(picture, sys.stdout, depth)


def _is_terminal() -> bool:
    from placesim.cli.output import is_terminal

    return is_terminal(sys.stdout)


def _write_file(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: got '{error.strerror}', expected a path that can be written") from error
