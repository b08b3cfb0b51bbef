"""`placesim diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command, typed_options
from placesim.cli.option_types import Word, machine_option, report_option, size_option
from placesim.cli.options import (
    Command,
    given,
    graph_options,
    guess_options,
    in_shell,
    memory_option,
    output_option,
    page_option,
    size_options,
    together,
)
from placesim.cli.output_forms import Form, check_page_file, form_option, table_forms, table_option, take_target, write_target
from placesim.core.errors import UsageError
from placesim.core.escaping import escape_line
from placesim.core.releases import RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from placesim.core.styled_text import StyledText
    from placesim.inspection.difference import Difference
    from placesim.report.text.tables import Tables


def _text(difference: Difference, labels: list[str]) -> StyledText:
    from placesim.report.text.difference import format_difference

    return format_difference(difference, *labels)


def _json(difference: Difference, labels: list[str]) -> Iterator[str]:
    from placesim.report.document import json_text
    from placesim.report.text.difference import difference_document

    return json_text(difference_document(difference))


def _tables(difference: Difference, labels: list[str]) -> Tables:
    from placesim.report.text.difference import TABLES, difference_tables
    from placesim.report.text.tables import Tables

    return Tables(TABLES, lambda: difference_tables(difference))


FORMS: tuple[Form[Any], ...] = (Form("text", _text, (".txt", ".diff")), Form("json", _json, (".json",)), *table_forms(_tables))
EXITS = {0: "the same", 1: "different", 2: "the command line or a file is wrong"}
_REPEATABLE = ("device",)
"""Options whose values for one side are added to the common values."""


def _side_options(side: str) -> Iterator[Callable[[Command], Command]]:
    """Yield the options for one side, such as `--a-gpu`."""
    name = side.upper()
    yield machine_option(f"--{side}-cpu", type=int, metavar="N", help=f"Number of CPU devices of {name}.")
    yield machine_option(f"--{side}-gpu", type=int, metavar="N", help=f"Number of GPUs of {name}.")
    yield machine_option(f"--{side}-gpu-model", metavar="NAME", completes="gpu models", help=f"GPU model of {name}.")
    yield machine_option(
        f"--{side}-inventory",
        metavar="FILE",
        help=f"YAML file that describes the machine of {name} (`devices:`).",
        folder_values="own files",
    )
    release = Word(tuple(sorted(RELEASES)))
    yield machine_option(f"--{side}-tensorflow", type=release, metavar="RELEASE", help=f"TensorFlow release for {name}.")
    text = f"Batch size of {name}: replaces an unknown first dimension of placeholders."
    yield size_option(f"--{side}-batch", type=click.IntRange(1), metavar="N", help=text)
    yield machine_option(
        f"--{side}-device",
        multiple=True,
        metavar="PATTERN=DEVICE",
        completes="placed nodes",
        help=f"Request DEVICE for nodes of {name} whose name matches PATTERN (repeatable).",
    )
    soft = f"--{side}-soft-placement/--{side}-no-soft-placement"
    yield machine_option(soft, default=None, help=f"Soft placement of {name}.")


@command("diff", exits=EXITS)
@click.argument("a")
@click.argument("b", required=False)
@together(*_side_options("a"), *_side_options("b"))
@graph_options
@memory_option("Show peak memory per device (default: only if cheap to compute).")
@report_option(
    "--time/--no-time",
    default=None,
    help="Show step times, and what became slower or faster (default: only if cheap to compute).",
)
@size_options("memory and time")
@guess_options
@form_option(FORMS, "Output format (default: text).")
@table_option("nodes", "transfers", "memory", "time", "errors")
@output_option()
@page_option("Write an HTML page that compares both steps: timelines, memory and moved nodes.")
def diff_command(a: str, b: str | None, memory: bool | None, time: bool | None, html: str | None, **values: Any) -> int:
    """Compare two placements: moved, added and removed nodes, transfers, peak memory, step time and errors.

    A and B are graphs that `run` reads, or reports written by `--format json` (`simulate` and `plan` write step times).
    Without B, compare A with itself on another machine.  Options without --a- or --b- apply to both.

    \b
    Examples:
      placesim diff old.yaml new.yaml --gpu 4
      placesim diff graphs/towers.yaml --soft-placement --a-gpu 4 --b-gpu 1
      placesim diff model.yaml --gpu 2 --b-device 'layer2/=/gpu:1'
      placesim diff placement.json model.yaml
      placesim diff model.pb --a-tensorflow 1.15 --b-tensorflow 2.21 --gpu 2
      placesim diff model.yaml --batch 64 --a-gpu-model 'Tesla K80' --b-gpu-model 'Tesla V100-SXM2-16GB'
      placesim diff old.yaml new.yaml --html difference.html
    """
    from placesim.cli.graph_arguments import open_subject
    from placesim.cli.output import complain
    from placesim.cli.progress import show_stages
    from placesim.inspection.difference import compare
    from placesim.report.text.difference import side_label
    from placesim.studies.snapshots import DryRunNeed, DryRunNeeds, check_sides, name_missing

    target = take_target(FORMS, values)
    sides = [_values_of(side, values) for side in ("a", "b")]
    if b is None and sides[0] == sides[1]:
        raise click.UsageError(
            "nothing to compare with: got one graph on one machine, expected a second graph, or an option such as --b-gpu"
        )
    if a == "-" and b in ("-", None):
        raise click.UsageError("standard input used twice: got - for both, expected it once")
    names = (a, a if b is None else b)
    check_page_file(html)
    if html is not None:
        _check_steps(names)
    sized = {key: value for side in sides for key, value in side.items() if key in ("batch", "shape")}
    peaks, times = (DryRunNeed.of(asked, sized, by_itself=True) for asked in (memory, time))
    wishes = DryRunNeeds(peaks, times, sizes=DryRunNeed.of(None, sized, by_itself=False))
    with show_stages("comparing"):
        before, after = (
            open_subject(name, side, wishes=wishes, takes_prediction=True) for name, side in zip(names, sides, strict=True)
        )
        own = [[word for word, option in typed_options().items() if f"{option.name}".startswith(f"{side}_")] for side in "ab"]
        are_reports = [snapshot.live is None for snapshot in (before, after)]
        check_sides(zip(names, are_reports, own, strict=True), has_page=html is not None)
        difference = compare(before, after)
    labels = [side_label(name, *pair) for name, pair in zip(names, (sides, sides[::-1]), strict=True)]
    write_target(FORMS, target, difference, labels)
    for sentence in name_missing((before, after), map(escape_line, labels), memory, time):
        complain(f"{sentence}\n")
    if html is not None:
        _write_page(names, sides, labels, html)
    return 1 if difference else 0


def _check_steps(names: tuple[str, str]) -> None:
    """Raise UsageError for a source that can't be read again to simulate its steps."""
    from placesim.core.files.reader import is_stream

    for name in names:
        if name == "-" or is_stream(name):
            raise UsageError(f"cannot make a page from a stream: got {name}, expected a file, which can be read twice")


def _write_page(names: tuple[str, str], sides: list[dict[str, Any]], labels: list[str], html: str) -> None:
    """Write a page with the steps of both graphs. Raises an error if a graph can't be read or its steps can't be simulated."""
    from pathlib import Path

    from placesim.cli.graph_arguments import load_graph
    from placesim.cli.output import write_files
    from placesim.report.pictures.comparison_page import difference_page
    from placesim.studies.time_study import study_time

    studies = [
        study_time(load_graph(name, options), options, name, is_traced=True)
        for name, options in zip(names, map(in_shell, sides), strict=True)
    ]
    write_files({Path(html): [difference_page(names, labels, studies).encode()]})


def _values_of(side: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the options of one side: the common ones, overridden by its own."""
    common = {name: value for name, value in values.items() if not name.startswith(("a_", "b_"))}
    own = {name.removeprefix(f"{side}_"): value for name, value in values.items() if name.startswith(f"{side}_")}
    own |= {name: (*common[name], *own[name]) for name in _REPEATABLE}
    return given(common) | given(own)
