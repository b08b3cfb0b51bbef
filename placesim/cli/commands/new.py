"""`placesim new`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from placesim.cli.command import EXITS, command
from placesim.cli.option_types import option
from placesim.core.errors import UsageError


@command("new", exits={0: EXITS[0], 2: EXITS[2]})
@click.argument("name", required=False)
@click.argument("out", required=False, type=click.Path())
@option("--force", is_flag=True, help="Overwrite an existing file.", folder_values="none")
def new_command(name: str | None, out: str | None, force: bool) -> int:
    """Write an example graph file; without NAME, list the examples.

    The default OUT is NAME.yaml in the current folder; - is standard output.

    \b
    Examples:
      placesim new
      placesim new data-parallel
      placesim new cluster mine.yaml
      placesim new queue - | placesim run -
    """
    from placesim.cli.output import complain, write, write_files, write_rows
    from placesim.formats.sources.examples import ENDING, read_example, titles

    if name is None:
        write_rows([{"name": name, "title": title} for name, title in titles().items()], "graphs", ("name", "title"), "text")
        return 0
    text = read_example(name)
    if out == "-":
        write(text)
        return 0
    path = Path(out or name.removesuffix(ENDING) + ENDING)
    if os.path.lexists(path) and not force:  # `exists` would follow a link that leads nowhere
        raise UsageError(f"file exists: got '{path}', expected another OUT, or --force")
    write_files({path: [text.encode()]})
    complain(f"wrote {path}\n")
    return 0
