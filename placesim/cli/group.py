"""The group of all commands: `placesim` itself."""

from __future__ import annotations

import click

from placesim.cli.command import EXITS, Command
from placesim.cli.commands import COMMANDS, command_named
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean, near_words


class LazyGroup(Command, click.Group):
    """A group that reads its commands and their lines of help from a table, and imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_named(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS, SIMILAR_AMONG_FEW) or _page_hint(name)
            raise click.UsageError(f"no such command: got '{name}', expected one of {', '.join(COMMANDS)}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options."""
        self.format_commands(ctx, formatter)
        Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands from the table, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _page_hint(name: str) -> str:
    """Return the end of a sentence that suggests the manual page with the most similar name; empty if none is similar."""
    from placesim.cli.manual_pages import topics

    return "".join(f"; did you mean `placesim manual {page}`?" for page in near_words(name, topics(), 1, SIMILAR_AMONG_FEW))


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from placesim.core.version import __version__

        click.echo(f"placesim {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    exits=EXITS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version", "-V", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.pass_context
def placesim(ctx: click.Context) -> int:
    """Where would TensorFlow place every op of a graph on a machine, and what happens next?

    Start with an example graph from `placesim new` and with `placesim manual`.  Defaults of options come from placesim.toml or
    from PLACESIM_OPTION variables.  `placesim completion --install` sets up shell completion.

    \b
    Examples:
      placesim run graphs/logging.yaml --log-placement
      placesim place graphs/towers.yaml --gpu 4 --format json | jq .placements
      placesim devices --cpu 3 --gpu 2
      placesim help run
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 2
