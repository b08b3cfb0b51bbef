"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from placesim.cli.command import current_settings
from placesim.cli.option_types import FILE_ACCESS, MACHINE, PLACEMENT, REPORT, SIZES, SOURCE, Word, option
from placesim.cli.output_forms import ROW_FORMS
from placesim.core.releases import RELEASES
from placesim.machine.gpu_options import ENVIRONMENT_VARIABLES
from placesim.machine.options import UNTIL

Command = TypeVar("Command", bound=Callable[..., Any])


format_option = option(
    "--format",
    "form",
    type=Word(("text", "json")),
    default="text",
    help="The form of the report.",
    group=REPORT,
    folder_values="any",
)
table_format_option = option(
    "--format", "form", type=Word(ROW_FORMS), default="text", help="The form of the table.", group=REPORT, folder_values="any"
)
_MACHINE = (
    option("--cpu", type=int, metavar="N", help="Number of CPU devices.", group=MACHINE, folder_values="any"),
    option("--gpu", type=int, metavar="N", help="Number of GPUs.", group=MACHINE, folder_values="any"),
    option(
        "--gpu-model",
        metavar="NAME",
        help="The GPUs' model, as `devices --gpu-models` lists them.",
        group=MACHINE,
        folder_values="any",
    ),
    option(
        "--inventory", metavar="FILE", help="A YAML file with a `devices:` document.", group=MACHINE, folder_values="own files"
    ),
)
MACHINE_NAMES = ("cpu", "gpu", "gpu_model", "inventory")
"""The same by their parameters: a script's sessions ask the environment for these themselves."""
link_option = option(
    "--link",
    multiple=True,
    metavar="A-B=25GB/s@2us",
    help="A link's bandwidth and latency, in the place of the inventory's between the same ends; may be repeated.",
    group=MACHINE,
    folder_values="any",
)
release_option = option(
    "--tensorflow",
    type=Word(tuple(sorted(RELEASES))),
    help="The release of TensorFlow to be; 2.21 where neither this nor the file says.",
    group=SOURCE,
    folder_values="any",
)
_SOURCE = (
    release_option,
    option(
        "--tag",
        multiple=True,
        metavar="TAG",
        help="A tag of the SavedModel's MetaGraph; may be repeated.",
        group=SOURCE,
        folder_values="any",
    ),
    option(
        "--signature",
        metavar="NAME",
        help="The model's signature to run; `serving_default` where it has that.",
        group=SOURCE,
        folder_values="any",
    ),
    option(
        "--checkpoint",
        metavar="PREFIX",
        help="A checkpoint, or its directory, that holds the variables' values.",
        group=SOURCE,
        folder_values="none",
    ),
    option(
        "--clear-devices",
        is_flag=True,
        help="Drop the devices that the graph's nodes ask for.",
        group=SOURCE,
        folder_values="any",
    ),
    option(
        "--device",
        multiple=True,
        metavar="PATTERN=DEVICE",
        help="Ask for a device for all nodes with such a name; may be repeated.",
        group=SOURCE,
        folder_values="any",
    ),
    option(
        "--layer-assignment",
        metavar="RULES",
        default="",
        help="Ask for devices by the layers of an ONNX model: 'gpu:1(encoder); cpu(=head)'.",
        group=SOURCE,
        folder_values="any",
    ),
    option(
        "--allow-unknown",
        metavar="DEVICES",
        default="",
        help="Place ops of an ONNX model that placesim doesn't know on such devices, as `cpu,gpu`.",
        group=SOURCE,
        folder_values="any",
    ),
    option(
        "--until",
        type=Word(UNTIL),
        help="How far a Python script runs; its arguments follow `--`.",
        group=SOURCE,
        folder_values="any",
    ),
)
_PLACEMENT = (
    option(
        "--soft-placement/--no-soft-placement",
        default=None,
        help="Take another device where the requested one can't be had.",
        group=PLACEMENT,
        folder_values="any",
    ),
    option(
        "--fetch",
        multiple=True,
        metavar="NAME",
        help="A tensor to fetch or an op to run; may be repeated.",
        group=PLACEMENT,
        folder_values="any",
    ),
    option(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="The longest that placing may take, and each step after it.",
        group=PLACEMENT,
        folder_values="none",
    ),
)


feed_option = option(
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value to feed: a YAML literal or @FILE.npy; may be repeated.",
    group=SOURCE,
    folder_values="own files",
)
_FILE_ACCESS = (
    option(
        "--allow-read",
        multiple=True,
        metavar="DIR",
        help="A folder or file that the graph may read; may be repeated.",
        group=FILE_ACCESS,
        folder_values="none",
    ),
    option(
        "--allow-write",
        multiple=True,
        metavar="DIR",
        help="A folder or file that the graph may write; may be repeated.",
        group=FILE_ACCESS,
        folder_values="none",
    ),
    option(
        "--allow-all-files",
        is_flag=True,
        help="Let the graph read and write any file.",
        group=FILE_ACCESS,
        folder_values="none",
    ),
)
_REPORT = (
    option(
        "--log-style",
        type=Word(("modern", "classic")),
        default="modern",
        help="TensorFlow 2.x's text or the first guides'.",
        group=REPORT,
        folder_values="any",
    ),
    option(
        "--summary",
        is_flag=True,
        help="Print nodes, variables, constants, transfers and peak memory of each device at the end.",
        group=REPORT,
        folder_values="any",
    ),
    option(
        "--log-filter",
        "log_filters",
        multiple=True,
        metavar="PATTERN",
        help="Log only nodes with such a name (`conv1/*`), or in such a scope (`conv1/`); may be repeated.",
        group=REPORT,
        folder_values="any",
    ),
)


def machine_options(command: Command) -> Command:
    """The inventory."""
    return _add(command, _MACHINE)


def source_options(command: Command) -> Command:
    """What to take from the file."""
    return _add(command, _SOURCE)


def placement_options(command: Command) -> Command:
    """What placing takes."""
    return _add(command, _PLACEMENT)


def shape_option(purpose: str = "") -> Callable[[Command], Command]:
    """`--shape`; `purpose` says what alone it is for."""
    text = _for(purpose, "the shape of a placeholder that leaves it open; may be repeated.")
    return option("--shape", multiple=True, metavar="NAME=1,2,3", help=text, group=SIZES, folder_values="any")


def size_options(purpose: str = "") -> Callable[[Command], Command]:
    """`--shape` and `--batch`; `purpose` says what alone they are for."""
    text = _for(purpose, "the first dimension of all placeholders that leave it open.")
    batch = option("--batch", type=click.IntRange(0), metavar="N", help=text, group=SIZES, folder_values="any")
    return lambda command: _add(command, (shape_option(purpose), batch))


_GUESSES = (
    option(
        "--iterations",
        multiple=True,
        metavar="NAME=N",
        help="How often a loop runs that nothing else fixes, by its frame or While node; may be repeated.",
        group=SIZES,
        folder_values="any",
    ),
    option(
        "--assume-unknown",
        type=click.IntRange(0),
        metavar="N",
        help="What to take for each dimension that stays unknown.",
        group=SIZES,
        folder_values="any",
    ),
)


def guess_options(command: Command) -> Command:
    """What is taken where nothing tells it."""
    return _add(command, _GUESSES)


def _for(purpose: str, text: str) -> str:
    return f"For {purpose}: {text}" if purpose else text[0].upper() + text[1:]


def top_option(default: int, what: str) -> Callable[[Command], Command]:
    """`--top`: how many of what a report lists."""
    text = f"How many {what}."
    return option(
        "--top",
        type=click.IntRange(1),
        metavar="N",
        default=default,
        show_default=True,
        help=text,
        group=REPORT,
        folder_values="any",
    )


profile_option = option(
    "--profile",
    multiple=True,
    metavar="FILE",
    help="What `calibrate` wrote of a host, or the figures of a GPU's model; may be repeated.",
    group=MACHINE,
    folder_values="own files",
)


def output_option(text: str = "Write to a file; its ending tells the form.") -> Callable[[Command], Command]:
    """`--output`; the text says what is written."""
    return option(
        "--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help=text, group=REPORT, folder_values="none"
    )


def trace_option(what: str) -> Callable[[Command], Command]:
    """`--trace`; `what` says what is in it."""
    text = f"Write a trace of the {what} for Perfetto or chrome://tracing."
    return option("--trace", type=click.Path(dir_okay=False), metavar="FILE", help=text, group=REPORT, folder_values="none")


def memory_option(text: str) -> Callable[[Command], Command]:
    """`--memory`, `--no-memory`."""
    return option("--memory/--no-memory", "memory", default=None, help=text, group=REPORT, folder_values="any")


def time_option(text: str) -> Callable[[Command], Command]:
    """`--time`, `--no-time`."""
    return option("--time/--no-time", "time", default=None, help=text, group=REPORT, folder_values="any")


def file_access_options(command: Command) -> Command:
    """What the graph may touch."""
    return _add(command, _FILE_ACCESS)


def report_options(command: Command) -> Command:
    """What `run` and `place` print."""
    return _add(command, _REPORT)


def _add(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for decorate in reversed(options):
        command = decorate(command)
    return command


def shell_environment() -> dict[str, str]:
    """What the user's shell says to TensorFlow of GPU memory: the one place where it is asked."""
    return {name: os.environ[name] for name in ENVIRONMENT_VARIABLES if name in os.environ}


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The options that the command line names; a repeatable one that it doesn't is an empty tuple.

    Among them is what a script is given as its arguments.
    """
    settings = current_settings()
    words = {"arguments": settings.script_arguments} if settings.script_arguments else {}
    return {name: value for name, value in values.items() if value is not None and value != ()} | words
