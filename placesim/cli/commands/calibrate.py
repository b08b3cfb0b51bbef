"""`placesim calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from placesim.cli.command import command, typed_options
from placesim.cli.option_types import option
from placesim.cli.options import feed_option, given, graph_options, guess_options, in_shell, output_option, size_options
from placesim.core.errors import UsageError

EXITS = {0: "measured", 2: "options are wrong, the file can't be written, or the measurement does not fit the graph"}


@command("calibrate", exits=EXITS)
@click.argument("graph", required=False)
@output_option("Write to a file.")
@option(
    "--quick",
    is_flag=True,
    help="Measure for a few seconds only, to try the command; too inexact for predictions.",
    folder_values="none",
)
@option(
    "--from",
    "source",
    metavar="FILE",
    help="Do not measure; fit the machine of GRAPH to a measured step, in a file that `simulate --compare` reads.",
    folder_values="none",
)
@size_options()
@guess_options
@feed_option
@graph_options
def calibrate_command(graph: str | None, output: str | None, quick: bool, source: str | None, **values: Any) -> int:
    """Measure this machine's speed, or take it from a measured step, for `simulate --profile`.

    Runs placesim's numpy kernels on arrays of many sizes, with one thread and with all cores, and prints an inventory's
    `host` section.  It takes about a minute; nothing else should run meanwhile.

    With `--from`, nothing is measured.  FILE has a step of GRAPH that TensorFlow ran, and the figures of the machine are fitted
    to it: rates, bandwidths, the time to start a node, and factors of ops.  The fit leaves out half of the nodes, and
    the error of their predicted times is printed.

    \b
    Examples:
      placesim calibrate --output here.yaml
      placesim simulate graphs/alexnet.yaml --profile here.yaml
      placesim calibrate --from run_metadata.pb model.pb --fetch logits --batch 64 --output there.yaml
    """
    from placesim.cli.output import complain, write, write_files

    needless = [word for word, option in typed_options().items() if option.name not in ("source", "quick", "output")]
    if (graph is None) != (source is None) or (source is None and needless) or (source is not None and quick):
        got = "--from with --quick" if quick and source else "--from without GRAPH" if graph is None and source else "no --from"
        raise UsageError(
            f"wrong arguments: got {got}, expected --from FILE together with GRAPH and its options, or none of these"
        )
    text, note = _measured(is_quick=quick) if graph is None or source is None else _fitted(graph, source, given(values))
    write(text) if output is None else write_files({Path(output): [text.encode()]})
    if note:
        complain(note)
    return 0


def _measured(*, is_quick: bool) -> tuple[str, str]:
    """Return the text of the measured host, and a warning if the machine was not quiet."""
    from placesim.cli.progress import TerminalProgress
    from placesim.formats.graph_file.sections.hosts import host_text
    from placesim.studies.calibration.host_profile import calibrate, find_noise

    with TerminalProgress() as progress:
        host = calibrate(lambda done, total: progress.show({"measurements": (done, total)}), is_quick=is_quick)
    noise = find_noise(host)
    warning = f"Warning: the machine was not quiet: {noise}. Close other programs, and calibrate again.\n" if noise else ""
    return host_text(host), warning


def _fitted(graph: str, source: str, options: dict[str, Any]) -> tuple[str, str]:
    """Return the text of the fitted machine, and a note with its prediction error."""
    from placesim.cli.graph_arguments import graph_name, load_graph
    from placesim.cli.progress import show_stages
    from placesim.formats.graph_file.sections.hosts import host_text
    from placesim.formats.traces.reader import read_measurement
    from placesim.studies.calibration.measurement_fit import fit_measurement

    measurement = read_measurement(source)
    chosen = in_shell(options)
    loaded = load_graph(graph, chosen)
    with show_stages("fitting"):
        found = fit_measurement(loaded, chosen, graph_name(graph), measurement)
    note = (
        f"Fitted to {found.fitted} nodes of {measurement.format}. On {found.tested} other nodes, the median error is a factor "
        f"of {found.after:.3g}; before, it was {found.before:.3g}.\n"
    )
    if found.after >= found.before:
        note += "Warning: these figures predict no better than the given ones. Record more steps, or a larger graph.\n"
    return host_text(found.host, found.gpu, found.gpus), note
