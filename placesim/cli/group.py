"""The commands by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from placesim.cli.command import EXITS, Command
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

COMMANDS = {
    "run": "Load a graph, place it, execute it with numpy, print the results.",
    "place": "Place graphs without executing them, and print the log.",
    "devices": "List the devices of a simulated machine.",
    "ops": "List TensorFlow's ops and their kernels, or tell all about one.",
    "explain": "Explain why nodes are where they are, and what would change that.",
    "check": "Hold a placement to a policy.",
    "diff": "Compare two placements.",
    "show": "Show a placement as a tree, a picture or a page.",
    "memory": "Tell what a graph needs of its devices' memory, and what would fit.",
    "simulate": "Tell how long a step would take, and where the time goes.",
    "plan": "Search a better placement, with a bound.",
    "sweep": "Simulate a graph under many combinations of options.",
    "calibrate": "Measure this machine, for predictions of its time.",
    "convert": "Convert a graph between YAML, JSON and TensorFlow's GraphDef.",
    "new": "Write out a graph file to start from, or list those that there are.",
    "manual": "Read the manual.",
    "help": "Show the help of a command.",
    "completion": "Have a shell complete the words of placesim.",
}
"""Each command's line of help; it is the function of its name in the module of its name."""


class LazyGroup(Command, click.Group):
    """A group that knows its commands by their lines of help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_named(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS, SIMILAR_AMONG_FEW)
            raise click.UsageError(f"no such command: got '{name}', expected one of {', '.join(COMMANDS)}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands before options."""
        self.format_commands(ctx, formatter)
        Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def command_named(name: str) -> click.Command:
    """The command of that name, one of `COMMANDS`, imported."""
    command: click.Command = getattr(import_module(f"placesim.cli.commands.{name}"), f"{name}_command")
    return command


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from placesim.version import __version__

        click.echo(f"placesim {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    exits=EXITS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def placesim(ctx: click.Context) -> int:
    """Where would TensorFlow put every op of this graph on that machine, and what happens then?

    Any option may have its default in placesim.toml or in PLACESIM_OPTION.  `placesim new` writes out a graph to start from,
    `placesim completion --install` has the shell complete words, and `placesim manual` is the manual.

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
