"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar

import click

from placesim.cli.command import current_settings
from placesim.cli.option_types import (
    OutputFile,
    Word,
    file_option,
    machine_option,
    own_option,
    placement_option,
    report_option,
    size_option,
    source_option,
)
from placesim.cli.output_forms import ROW_FORMS
from placesim.core.releases import RELEASES
from placesim.machine.gpu_options import shell_environment
from placesim.machine.options import MAX_STEPS, UNTIL, SimulationOptions, make_options

Command = TypeVar("Command", bound=Callable[..., Any])
Record = TypeVar("Record")


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator that adds several options, in order."""

    def decorate(command: Command) -> Command:
        for add in reversed(options):
            command = add(command)
        return command

    return decorate


def _format_option(words: Sequence[str]) -> Callable[[Command], Command]:
    text = "Output format (default: text)."
    return report_option("--format", "form", type=Word(words), default="text", help=text)


format_option = _format_option(("text", "json"))
table_format_option = _format_option(ROW_FORMS)
inventory_option = machine_option(
    "--inventory", metavar="FILE", help="YAML file that describes the machine (`devices:`).", folder_values="own files"
)
machine_options = together(
    machine_option("--cpu", type=int, metavar="N", help="Number of CPU devices (default: the graph's, else 1)."),
    machine_option("--gpu", type=int, metavar="N", help="Number of GPUs (default: the graph's, else 0)."),
    machine_option("--gpu-model", metavar="NAME", help="GPU model; `devices --gpu-models` lists them.", completes="gpu models"),
    inventory_option,
)
link_option = machine_option(
    "--link",
    multiple=True,
    metavar="A-B=25GB/s@2us",
    help="Bandwidth and latency of the link between A and B; overrides the inventory (repeatable).",
)


def release_option(text: str) -> Callable[[Command], Command]:
    """Return the option `--tensorflow`, with its help text."""
    return source_option("--tensorflow", type=Word(tuple(sorted(RELEASES))), help=text)


simulated_release_option = release_option("TensorFlow release to simulate (default: the file's, else 2.21).")
source_options = together(
    simulated_release_option,
    source_option(
        "--tag",
        multiple=True,
        metavar="TAG",
        help="Tag of the SavedModel's MetaGraph (repeatable; default: the only MetaGraph, else serve).",
    ),
    source_option(
        "--signature",
        metavar="NAME",
        help="Signature of the SavedModel to run (default: serving_default).",
        completes="signatures",
    ),
    source_option(
        "--checkpoint", metavar="PREFIX", help="Checkpoint to restore variables from, or its directory.", folder_values="none"
    ),
    source_option("--clear-devices", is_flag=True, help="Ignore the devices that nodes request."),
    source_option(
        "--device",
        multiple=True,
        metavar="PATTERN=DEVICE",
        help="Request DEVICE for nodes whose name matches PATTERN (repeatable).",
        completes="placed nodes",
    ),
    source_option(
        "--layer-assignment",
        metavar="RULES",
        default="",
        help="Devices of ONNX layers: 'gpu:1(encoder); cpu(=head)' puts layers whose names begin with encoder "
        "on GPU 1, and the layer called head on the CPU.",
    ),
    source_option(
        "--allow-unknown",
        metavar="DEVICES",
        default="",
        help="Assume that unsupported ONNX ops have kernels for the device types DEVICES, e.g. `cpu,gpu`.",
    ),
    source_option(
        "--until",
        type=Word(UNTIL),
        help="Stop a Python script before its first step or at its end (default: first-run; `run` executes the whole "
        "script). Its arguments follow `--`.",
    ),
)
"""Options for reading a source, and for changing its device requests."""
placement_options = together(
    placement_option(
        "--soft-placement/--no-soft-placement",
        default=None,
        help="Fall back to another device if the requested one is missing or has no kernel (default: the file's, else off).",
    ),
    placement_option(
        "--fetch", multiple=True, metavar="NAME", help="Tensor to fetch or op to run (repeatable).", completes="nodes"
    ),
    placement_option(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="Time limit for reading, for placement, and for each step.",
        folder_values="none",
    ),
)
"""Options of placement."""
graph_options = together(machine_options, source_options, placement_options)
"""Options of every command that places a graph."""


def _fed_files(text: str) -> Iterator[str]:
    """Yield the file that `NAME=VALUE` names, if any."""
    from placesim.formats.graph_file.sections.overrides import parse_feed
    from placesim.graph.session_steps import FileFeed, file_of_feed

    value = parse_feed(text)[1]
    path = file_of_feed(value)
    if path is not None:
        # a path in YAML is relative to the graph, which may be anywhere
        yield path if isinstance(value, FileFeed) else f"/{path}"


feed_option = source_option(
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value to feed: a YAML literal or @FILE.npy (repeatable).",
    completes="fed nodes",
    folder_values="own files",
    files=_fed_files,
)
file_access_options = together(
    file_option("--allow-read", multiple=True, metavar="DIR", help="Folder or file that the graph may read (repeatable)."),
    file_option("--allow-write", multiple=True, metavar="DIR", help="Folder or file that the graph may write (repeatable)."),
    file_option("--allow-all-files", is_flag=True, help="Let the graph read and write any file."),
)
"""Options for the graph's access to files."""
report_options = together(
    report_option(
        "--log-style",
        type=Word(("modern", "classic")),
        default="modern",
        help="modern: log format of TensorFlow 2; classic: of TensorFlow 1 (default: modern).",
    ),
    report_option(
        "--summary", is_flag=True, help="Print a table of nodes, variables, constants, transfers and peak memory per device."
    ),
    report_option(
        "--log-filter",
        "log_filters",
        multiple=True,
        metavar="PATTERN",
        help="Log only nodes whose name matches, e.g. `conv1/*`, or that are in a scope, e.g. `conv1/` (repeatable).",
        completes="nodes",
    ),
)
"""Options for the output of `run` and `place`."""


def shape_option(purpose: str = "") -> Callable[[Command], Command]:
    """Return the option `--shape`; `purpose` names the results that it affects."""
    text = f"Shape of a placeholder whose shape is unknown{_used_for(purpose)} (repeatable)."
    return size_option("--shape", multiple=True, metavar="NAME=1,2,3", help=text, completes="placeholders")


def size_options(purpose: str = "") -> Callable[[Command], Command]:
    """Return the options `--shape` and `--batch`; `purpose` names the results that they affect."""
    text = f"Batch size: replaces an unknown first dimension of placeholders{_used_for(purpose)}."
    batch = size_option("--batch", type=click.IntRange(1), metavar="N", help=text)
    return together(shape_option(purpose), batch)


guess_options = together(
    size_option(
        "--iterations",
        multiple=True,
        metavar="NAME=N",
        help="Number of iterations of a loop, if unknown; NAME is its While node or frame (repeatable; default: 1).",
    ),
    size_option(
        "--assume",
        multiple=True,
        metavar="NODE=N",
        help="Use N if unknown: the size of NODE's output, the iterations of loop NODE, or the branch that predicate "
        "NODE takes (repeatable).",
    ),
    size_option(
        "--assume-unknown", type=click.IntRange(1), metavar="N", help="Size to assume for dimensions that are still unknown."
    ),
)
"""Options for values that a dry run cannot determine."""


def _used_for(purpose: str) -> str:
    return f"; used for {purpose}" if purpose else ""


def top_option(default: int, what: str) -> Callable[[Command], Command]:
    """Return the option `--top`, the number of listed items."""
    text = f"Maximum number of {what}."
    return report_option("--top", type=click.IntRange(1), metavar="N", default=default, show_default=True, help=text)


steps_option = own_option("--steps", type=click.IntRange(1, MAX_STEPS), metavar="N", help="Run the last step N times.")
profile_option = machine_option(
    "--profile",
    multiple=True,
    metavar="FILE",
    help="Measured speeds of a host (from `calibrate`) or of a GPU model (repeatable).",
    folder_values="own files",
)


def output_option(
    text: str = "Output file; its extension selects the format.", *, makes_folders: bool = False
) -> Callable[[Command], Command]:
    """Return the option `--output`, with its help text."""
    kind = OutputFile(makes_folders=makes_folders)
    return report_option("--output", "-o", type=kind, metavar="FILE", help=text, folder_values="none")


def page_option(text: str) -> Callable[[Command], Command]:
    """Return the option `--html`; `text` describes the page."""
    return report_option("--html", type=OutputFile(), metavar="FILE", help=text, folder_values="none")


def trace_option(what: str) -> Callable[[Command], Command]:
    """Return the option `--trace`; `what` names its content."""
    text = f"Write a trace of the {what} for Perfetto or chrome://tracing."
    return report_option("--trace", type=OutputFile(), metavar="FILE", help=text, folder_values="none")


def memory_option(text: str) -> Callable[[Command], Command]:
    """Return the options `--memory` and `--no-memory`."""
    return report_option("--memory/--no-memory", "memory", default=None, help=text)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value, with feeds by tensor, and a script's arguments.

    Repeatable options without a value are also left out. Raises UsageError for an invalid feed.
    """
    found = {name: value for name, value in values.items() if value is not None and value != ()}
    if "feeds" in found:
        from placesim.formats.graph_file.sections.overrides import parse_feed

        found["feed"] = dict(map(parse_feed, found.pop("feeds")))
    settings = current_settings()
    return found | ({"arguments": settings.script_arguments} if settings.script_arguments else {})


def in_shell(options: Mapping[str, Any]) -> SimulationOptions:
    """Return checked options, with the environment of the user's shell. Raises UsageError for invalid values."""
    return make_options({"environment": shell_environment(), **options})


def take_record(values: dict[str, Any], kind: Callable[..., Record], **known: Any) -> Record:
    """Return a record of the type `kind`. Values for its fields are removed from `values`; `known` has other fields."""
    named = [name for name in signature(kind).parameters if name in values and name not in known]
    return kind(**{name: values.pop(name) for name in named}, **known)
