"""`placesim help`."""

from __future__ import annotations

import click

from placesim.cli.command import EXITS, command
from placesim.core.errors import UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean, near_words


@command("help", exits={0: EXITS[0], 2: "there is no such command"})
@click.argument("name", metavar="[COMMAND]", required=False)
@click.pass_context
def help_command(ctx: click.Context, name: str | None) -> int:
    """Show the help of a command, as its --help does, or the list of commands.

    \b
    Examples:
      placesim help
      placesim help run
    """
    from placesim.cli.manual_pages import topics
    from placesim.cli.output import write

    root = ctx.find_root()
    if name is None:
        write(root.get_help() + "\n")
        return 0
    group = root.command
    assert isinstance(group, click.Group)
    found = group.get_command(root, name)
    if found is None:
        known = group.list_commands(root)
        near = did_you_mean(name, known, SIMILAR_AMONG_FEW)
        error = UsageError(f"no such command: got '{name}', expected one of {', '.join(known)}{near}")
        pages = near_words(name, topics(), 1, SIMILAR_AMONG_FEW)
        lists = "`placesim help` lists the commands, and `placesim manual` the pages of the manual"
        error.help = tuple(f"`placesim manual {page}` is a page of the manual" for page in pages) or (lists,)
        raise error
    with click.Context(found, root, name) as context:
        write(found.get_help(context) + "\n")
    return 0
