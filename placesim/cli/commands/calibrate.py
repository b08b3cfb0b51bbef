"""`placesim calibrate`."""

from __future__ import annotations

from pathlib import Path

from placesim.cli.command import command
from placesim.cli.option_types import option
from placesim.cli.options import output_option

EXITS = {0: "measured", 2: "options are wrong, or the file can't be written"}


@command("calibrate", exits=EXITS)
@output_option("Write to a file.")
@option(
    "--quick",
    is_flag=True,
    help="Measure for a few seconds only, to try the command; too inexact for predictions.",
    folder_values="none",
)
def calibrate_command(output: str | None, quick: bool) -> int:
    """Measure this machine's speed, for `simulate --profile`.

    Runs placesim's numpy kernels on arrays of many sizes, with one thread and with all cores, and prints an inventory's
    `host` section.  It takes about a minute; nothing else should run meanwhile.

    \b
    Examples:
      placesim calibrate --output here.yaml
      placesim simulate graphs/alexnet.yaml --profile here.yaml
    """
    from placesim.cli.output import complain, write, write_files
    from placesim.cli.progress import TerminalProgress
    from placesim.formats.graph_file.sections.hosts import host_text
    from placesim.studies.calibration.host_profile import calibrate, find_noise

    with TerminalProgress() as progress:
        host = calibrate(lambda done, total: progress.show({"measurements": (done, total)}), is_quick=quick)
    text = host_text(host)
    write(text) if output is None else write_files({Path(output): [text.encode()]})
    if noise := find_noise(host):
        complain(f"Warning: the machine was not quiet: {noise}. Close other programs, and calibrate again.\n")
    return 0
