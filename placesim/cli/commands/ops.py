"""`placesim ops`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from placesim.cli.command import EXITS, command
from placesim.cli.option_types import Word, own_option
from placesim.cli.options import release_option, table_format_option
from placesim.core.errors import UsageError
from placesim.core.releases import CURRENT
from placesim.core.suggestions import did_you_mean
from placesim.inspection.op_facts import (
    DEVICE_TYPES,
    DTYPE_NAMES,
    OpFilter,
    describe_other_releases,
    facts_of,
    load_registry,
    matching_ops,
)

if TYPE_CHECKING:
    from placesim.inspection.op_facts import OpFacts


def _check_dtype(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and value not in DTYPE_NAMES:
        near = did_you_mean(value, DTYPE_NAMES)
        raise click.BadParameter(f"got '{value}', expected an element type such as float32{near}", ctx, param)
    return value


@command("ops", exits={0: EXITS[0], 2: EXITS[2]})
@click.argument("name", metavar="[NAME|PATTERN]", required=False)
@own_option("--device", type=Word(DEVICE_TYPES), help="Only ops with a kernel for this device type.")
@own_option(
    "--dtype",
    callback=_check_dtype,
    completes="dtypes",
    metavar="TYPE",
    help="Only ops with a kernel that takes or returns tensors of this type.",
)
@own_option("--numpy/--no-numpy", "numpy", default=None, help="Only ops that `run` can, or cannot, execute.")
@release_option("TensorFlow release whose ops are listed (default: 2.21).")
@table_format_option
def ops_command(
    name: str | None, device: str | None, dtype: str | None, numpy: bool | None, tensorflow: str | None, form: str
) -> int:
    """List TensorFlow's ops, or show details of one.

    Details are inputs, outputs, flags, attrs (types, allowed values, minima and defaults), TensorFlow's kernels per device
    type (with the arguments that they keep in the host's memory), and the module of the numpy kernel.  A pattern (`*`, `?`,
    `[abc]`) lists matching ops: name, signature, device types with a kernel, and `numpy` or `-`.  A DEFAULT kernel serves every
    device type that has no kernel of its own.

    \b
    Examples:
      placesim ops MatMul
      placesim ops 'Sparse*' --device GPU --dtype float32
      placesim ops --no-numpy --no-header | cut -f1
      placesim ops 'TensorForest*' --tensorflow 1.15
      placesim ops Conv2D --format json | jq '.ops[0].attrs[].name'
    """
    registry = load_registry(tensorflow or CURRENT.name)
    found = list(matching_ops(registry, name))
    if not found:
        near = describe_other_releases(name or "", registry) or did_you_mean((name or "").strip("*?"), registry.op_names)
        error = UsageError(
            f"unknown op: got '{name}', expected a name or a pattern of TensorFlow {registry.release}'s ops{near}"
        )
        error.help = ("`placesim ops` lists them all",)
        raise error
    chosen = list(filter(OpFilter(device, dtype, numpy).accepts, found))
    _print(registry.release, chosen, form, is_one=name is not None and facts_of(registry, name) is not None)
    return 0


def _print(release: str, chosen: Sequence[OpFacts], form: str, is_one: bool) -> None:
    from placesim.cli.output import is_terminal, write, write_rows
    from placesim.report.text.ops import COLUMNS, format_facts, op_row, ops_document

    if form == "json":
        from placesim.report.document import json_line

        write(json_line(ops_document(release, chosen)))
    elif form != "text" or not is_one:
        write_rows([dict(zip(COLUMNS, op_row(facts), strict=True)) for facts in chosen], "ops", COLUMNS, form)
    elif is_terminal(sys.stdout):
        from placesim.report.terminal.ops import styled_facts

        write("".join(styled_facts(facts, sys.stdout) for facts in chosen), is_styled=True)
    else:
        write("".join(map(format_facts, chosen)))
