"""Base of all commands: options in groups, exit codes in the help, and options for the output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from placesim.cli.option_types import (
    FILE_ACCESS,
    GENERAL,
    GROUPS,
    MACHINE,
    OWN,
    PLACEMENT,
    SIZES,
    SOURCE,
    WARNINGS,
    Option,
    Word,
)

_SETTING = (MACHINE, SOURCE, SIZES, PLACEMENT, FILE_ACCESS)
"""Groups of options that define a graph and its placement. Their meaning is the same in all commands."""
EXITS = {
    0: "done",
    1: "the graph can't be placed or run on this machine: TensorFlow would raise an error",
    2: "the command line or a file is wrong",
}
"""Default meanings of the exit codes."""
_ALWAYS: dict[int, str] = {70: "a bug in placesim", 130: "Ctrl-C"}
_HELP = {"-h", "--help"}
COLOR_VARIABLES = ("FORCE_COLOR", "NO_COLOR")
COLORS = ("auto", "always", "never")


@dataclass(slots=True)
class CommandSettings:
    """Settings of the whole command line.

    `script_arguments` are the words after `--` and a script. `from_environment` names parameters whose default is from the
    environment.
    """

    debug: bool = False
    quiet: bool = False
    no_header: bool = False
    script_arguments: tuple[str, ...] = ()
    from_environment: frozenset[str] = frozenset()


def current_settings() -> CommandSettings:
    """Return the settings of the running command, or the defaults if no command runs."""
    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(CommandSettings)
    return CommandSettings() if settings is None else settings


def own_options() -> tuple[str, ...]:
    """Return the option words of the running command; empty if no command runs."""
    context = click.get_current_context(silent=True)
    return () if context is None else tuple(word for param in context.command.get_params(context) for word in param.opts)


def typed_options() -> dict[str, Option]:
    """Return the running command's own options that are on its command line, not those with a default of the user, by word.

    The word of a flag that is off is that of `--no-soft-placement`, for example.
    """
    context = click.get_current_context()
    found: dict[str, Option] = {}
    for option in context.command.params:
        is_typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if is_typed and isinstance(option, Option) and option.expose_value:
            is_off = option.is_flag and not context.params.get(option.name or "")
            found[(option.secondary_opts if is_off else option.opts)[0]] = option
    return found


def same_setting(name: str, argument: str) -> str:
    """Return the command line of the command `name` for the same graph and machine as the running command.

    It is empty for a script with its own arguments, as no options can follow these.
    """
    context = click.get_current_context()
    if current_settings().script_arguments:
        return ""
    words = ["placesim", name, argument]
    for word, option in typed_options().items():
        value: Any = context.params.get(option.name or "")
        if option.group in _SETTING:
            if option.is_flag:
                words.append(word)
            else:
                for one in value if option.multiple else (value,):
                    words += [word, str(one)]
    import shlex

    return shlex.join(words)


def _set_flag(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Set the settings' field with the option's name."""
    if value:
        setattr(ctx.ensure_object(CommandSettings), str(param.name), True)


def _set_color(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Set the environment variables for colour that Rich and child processes read. `run_shell` restores them at the end."""
    if value in ("always", "never"):
        for name in COLOR_VARIABLES:
            os.environ.pop(name, None)
        os.environ["FORCE_COLOR" if value == "always" else "NO_COLOR"] = "1"


def _general(*words: str, **settings: Any) -> Option:
    return Option(words, group=GENERAL, is_eager=True, expose_value=False, **settings)


GENERAL_OPTIONS = (
    _general("--quiet", "-q", is_flag=True, callback=_set_flag, help="Print only results and errors.", folder_values="none"),
    _general(
        "--color",
        type=Word(COLORS),
        callback=_set_color,
        help="Use of colour; auto: only on a terminal (default: auto).",
        folder_values="any",
    ),
    _general(
        "--no-header",
        is_flag=True,
        callback=_set_flag,
        help="Print tab-separated lines without header lines.",
        folder_values="none",
    ),
    _general("--debug", is_flag=True, callback=_set_flag, help="Show a traceback with an error.", folder_values="none"),
)
"""Options of every command, and of `placesim` itself."""


class Command(click.Command):
    """A command whose help lists the options in groups, then the exit codes."""

    def __init__(self, *arguments: Any, exits: Mapping[int, str] = EXITS, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.exits = dict(sorted({**_ALWAYS, **exits}.items()))
        self.params += GENERAL_OPTIONS

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Make a context with defaults from settings files and the environment.

        Raises UsageError for an invalid default; the message names the file or the variable.
        """
        if parent is None or info_name is None or not isinstance(parent.command, click.Group) or _HELP & set(args):
            return super().make_context(info_name, args, parent, **extra)
        if extra.get("resilient_parsing"):  # a completion must not fail because of a wrong setting
            return super().make_context(info_name, args, parent, **extra)
        from placesim.cli.defaults import defaults_of, unknown_variables

        found = defaults_of(self, info_name, parent.command.list_commands(parent))
        settings = parent.ensure_object(CommandSettings)
        values = found.values
        settings.from_environment = frozenset(name for name, default in values.items() if default.source.file is None)
        extra["default_map"] = {name: default.value for name, default in values.items()}
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.BadParameter as error:
            param, where = error.param, error.ctx
            if param is None or where is None or param.name not in values or not _is_by_default(where, param.name):
                raise
            raise values[param.name].misfit(error) from error
        if not settings.quiet:
            unknown = unknown_variables(self, info_name, parent.command.list_commands(parent))
            self._warn((*found.ignored, *unknown, *context.meta.get(WARNINGS, ())))
        return context

    def _warn(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            from placesim.cli.standard_streams import write_complaint
            from placesim.core.escaping import escape

            write_complaint(escape(f"Warning: {sentence}\n"))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups, each under its title."""
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None:
                rows[_group_of(param)].append((row[0], _say_default(row[1])))
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in self.exits.items()])


def _say_default(text: str) -> str:
    """Return the help of an option, with the default in parentheses instead of click's `[default: 3; x>=1]`."""
    text, found, extra = text.partition("  [default: ")
    if not found:
        return text
    default, _, limits = extra.removesuffix("]").partition("; ")
    return f"{text.removesuffix('.')} (default: {default})." + (f"  [{limits}]" if limits else "")


def _is_by_default(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def _group_of(param: click.Parameter) -> str:
    if isinstance(param, Option):
        return param.group
    return GENERAL if isinstance(param, click.Option) and param.is_eager else OWN


def is_from_environment(name: str) -> bool:
    """Whether a parameter of the running command has its value from an environment variable."""
    context = click.get_current_context()
    return name in current_settings().from_environment and _is_by_default(context, name)


def command(name: str, exits: Mapping[int, str] = EXITS) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function the command `name`. `exits` are the meanings of its exit codes."""
    return click.command(name, cls=Command, exits=exits)
