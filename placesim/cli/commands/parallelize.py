"""`placesim parallelize`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from placesim.cli.command import command
from placesim.cli.option_types import Word, own_option
from placesim.cli.options import given, graph_options, in_shell, output_option, size_options, take_record
from placesim.cli.output_forms import Form, form_option
from placesim.studies.conversions import ENDINGS, WRITERS, convert_graph, find_file_form

_DYNAMIC = "dynamic"
_FORMS = tuple(Form(name, convert_graph, ENDINGS[name]) for name in WRITERS)


class _LossScale(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """A parameter type for a loss scale: a number, or `dynamic`."""

    name = "scale"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"N|{_DYNAMIC}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        try:
            return _DYNAMIC if value == _DYNAMIC else float(value)
        except ValueError:
            self.fail(f"got '{value}', expected a number or {_DYNAMIC}", param, ctx)


@command("parallelize")
@click.argument("graph")
@own_option(
    "--replicas",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Copy the forward and backward pass to N GPUs, each copy for an equal part of the batch (data parallelism).",
)
@own_option(
    "--accumulate",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Compute the gradients of N micro-batches one after another, and update the variables once with their mean.",
)
@own_option(
    "--reduce",
    type=Word(("cpu", "ring", "tree", "nccl")),
    default="cpu",
    show_default=True,
    help="Add the gradients of replicas on the CPU, around a ring or along a tree of GPUs, or by NCCL's all-reduce.",
)
@own_option(
    "--variables",
    type=Word(("cpu", "mirrored")),
    default="cpu",
    show_default=True,
    help="cpu: replicas share the variables on the CPU; mirrored: each GPU has its own copies, with the same updates.",
)
@own_option(
    "--recompute",
    multiple=True,
    metavar="auto|sqrt|N|SCOPE",
    help="Recompute forward nodes for the gradients to save memory. auto, sqrt and N choose the number of segments; "
    "SCOPE is one segment (repeatable).",
    completes="nodes",
)
@own_option(
    "--stages",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Make a pipeline of N GPUs, each with a stage.",
)
@own_option(
    "--micro-batches",
    type=click.IntRange(1),
    default=1,
    metavar="M",
    help="Send M equal parts of the batch through the pipeline.",
)
@own_option(
    "--schedule",
    type=Word(("gpipe", "1f1b", "interleaved")),
    default="1f1b",
    show_default=True,
    help="Order of forward and backward passes on a GPU.",
)
@own_option(
    "--chunks",
    type=click.IntRange(1),
    metavar="V",
    help="Stages of each GPU of an interleaved pipeline (default: 2).",
)
@own_option(
    "--stage",
    multiple=True,
    metavar="SCOPE",
    help="Begin a stage at this scope (repeatable; default: balanced stages).",
    completes="nodes",
)
@own_option(
    "--precision",
    type=Word(("float16", "bfloat16")),
    help="Compute in half precision the ops that TensorFlow's auto_mixed_precision selects.",
)
@own_option(
    "--loss-scale",
    type=_LossScale(),
    help="Multiply the gradient of the loss by this number (default: 32768 for float16).",
)
@own_option(
    "--split",
    multiple=True,
    metavar="NAME",
    help="Tensor that holds the batch (repeatable; default: all placeholders, datasets and queues that the loss reads).",
    completes="nodes",
)
@size_options()
@graph_options
@form_option(_FORMS, "Output format (default: from the extension of --output, else yaml).")
@output_option("Write the rewritten graph (.yaml, .json, .pb, .pbtxt) instead of printing it.", makes_folders=True)
def parallelize_command(graph: str, form: str | None, output: str | None, **values: Any) -> int:
    """Rewrite a training graph: copies on several GPUs, a pipeline, micro-batches, recomputation or half precision.

    GRAPH is any graph that `run` reads, with the ops of an optimizer and gradients made by tf.gradients.  The rewritten graph
    computes the same losses and variables, up to rounding.  The report on standard error names random ops and batch statistics,
    whose values differ in each part of the batch.

    \b
    Examples:
      placesim parallelize model.yaml --replicas 4 --output towers.yaml
      placesim parallelize script.py --replicas 2 --variables mirrored --reduce nccl --output mirrored.pb
      placesim parallelize model.yaml --accumulate 8 | placesim memory -
      placesim parallelize model.yaml --recompute auto | placesim memory -
      placesim parallelize model.yaml --stages 4 --micro-batches 16 --output pipeline.yaml
      placesim parallelize model.yaml --precision float16 --loss-scale dynamic --output mixed.yaml
    """
    from placesim.cli.graph_arguments import graph_name, load_graph
    from placesim.cli.output import tell, write_files
    from placesim.cli.progress import show_stages
    from placesim.cli.standard_streams import write_result
    from placesim.core.errors import UsageError
    from placesim.formats.graph_file.writing.raw_writer import with_feeds_from
    from placesim.planning.strategies.rewriting import Strategy
    from placesim.report.text.strategies import rewrite_lines
    from placesim.studies.rewrite_study import study_rewrite

    strategy = take_record(values, Strategy)
    chosen = form or ("yaml" if output is None else find_file_form(output))
    if chosen not in WRITERS:
        raise UsageError(f"wrong format: got {chosen}, expected one of {', '.join(WRITERS)}")
    if output is None and chosen == "pb" and sys.stdout.isatty():
        raise UsageError(
            "cannot print a binary GraphDef to a terminal: got no --output, expected --output FILE, or another --format"
        )
    options = in_shell(given(values))
    loaded = load_graph(graph, options)
    with show_stages("rewriting"):
        rewrite = study_rewrite(loaded, options, graph_name(graph), strategy)
        file = with_feeds_from(rewrite.file, loaded.directory, Path() if output is None else Path(output).parent)
        content = convert_graph(file, chosen)
    if output is None:
        all(map(write_result, content.pieces))  # until the reader has gone
    else:
        write_files({Path(output): content.pieces}, makes_folders=True)
    for line in (*rewrite_lines(rewrite), *content.notes):
        tell(f"{line}\n")
    return 0
