"""Execution of a command. An error is printed on standard error and determines the exit code. No other module prints errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from placesim.cli.command import COLOR_VARIABLES, CommandSettings
from placesim.cli.group import placesim
from placesim.cli.standard_streams import check_lost_output, open_streams, settle_output, write_complaint
from placesim.core.errors import PlacesimError, UsageError
from placesim.core.escaping import escape
from placesim.core.process.interrupts import INTERRUPTED, was_interrupted
from placesim.core.suggestions import did_you_mean

DEFECT = 70
"""Exit code of a bug in placesim (EX_SOFTWARE of sysexits.h)."""
_MAX_REPORTED = 300
_NOT_A_NUMBER = re.compile(r"(?P<option>.*): '(?P<value>.*)' is not a valid (?P<kind>integer|float)(?: range)?\.")
"""Click's error for a word instead of a number."""


def run_shell(arguments: Sequence[str] | None) -> int:
    """Run the command that the arguments name, and return its exit code."""
    settings = CommandSettings()
    open_streams()
    colors = {name: os.environ[name] for name in COLOR_VARIABLES if name in os.environ}
    try:
        if "_PLACESIM_COMPLETE" in os.environ:
            from placesim.cli.shell_completion import answer_completion

            return answer_completion(os.environ["_PLACESIM_COMPLETE"])
        return _invoke(list(sys.argv[1:] if arguments is None else arguments), settings)
    except (KeyboardInterrupt, click.Abort):
        settle_output()
        return INTERRUPTED
    except Exception as error:
        return _report(error, settings)
    finally:
        _set_back(colors)


def _set_back(colors: dict[str, str]) -> None:
    """Undo the changes that --color made to this process's environment."""
    for name in COLOR_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(colors)


def _invoke(arguments: Sequence[str], settings: CommandSettings) -> int:
    """Run the command and return its own exit code. Raises UsageError for an invalid command line."""
    _check_folder()
    own, settings.script_arguments = _without_script_arguments(arguments)
    try:
        with placesim.make_context("placesim", own, obj=settings) as context:
            code = int(placesim.invoke(context) or 0)
        return _flushed(code)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        raise _usage_error(error) from error
    except OSError as error:  # from output of click or of an op; commands print with `write_result`
        check_lost_output(error)
        return 0


def _check_folder() -> None:
    """Raise UsageError if the current directory has been deleted, because relative paths would then fail."""
    try:
        os.getcwd()
    except OSError as error:
        message = f"cannot read the current directory: got '{error.strerror}', expected one that exists; `cd` into another"
        raise UsageError(message) from None


def _without_script_arguments(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split the arguments at the `--` after a Python script into arguments for placesim and arguments for the script."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    if not any(word.endswith(".py") for word in words[:end]):
        return words, ()
    return words[:end], tuple(words[end + 1 :])


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        check_lost_output(error)
    return code


def _usage_error(error: click.ClickException) -> UsageError:
    context: click.Context | None = getattr(error, "ctx", None)
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and context is not None:  # click suggests options that are hardly similar
        near = _commands_with(error.option_name) or did_you_mean(error.option_name, _option_words(context.command, context))
        message = f"no such option: got {error.option_name}, expected an option of `{context.command_path}`{near}"
    number = _NOT_A_NUMBER.fullmatch(message)
    if number is not None:
        kind = "whole number" if number["kind"] == "integer" else "number"
        message = f"{number['option']}: got '{number['value']}', expected a {kind}"
    found = UsageError(" ".join(message.split()))
    if context is not None:
        found.help = (f"see `{context.command_path} --help`",)
    return found


def _option_words(command: click.Command, context: click.Context) -> list[str]:
    return [word for param in command.get_params(context) for word in (*param.opts, *param.secondary_opts)]


def _commands_with(option: str) -> str:
    """Return the names of the commands that have an option, as the end of a sentence; empty if none has it."""
    from placesim.cli.commands import COMMANDS, command_named

    found = [
        name
        for name in COMMANDS
        if option in _option_words(command := command_named(name), click.Context(command, **placesim.context_settings))
    ]
    return f"; commands with this option: {', '.join(found)}" if found else ""


def _report(error: Exception, settings: CommandSettings) -> int:
    if was_interrupted():
        return INTERRUPTED
    if settings.debug:
        import traceback

        write_complaint(escape("".join(traceback.format_exception(error))))
    if isinstance(error, PlacesimError):
        from placesim.cli.output import write_error

        write_error(error)
        return error.exit_code
    text = " ".join(str(error).split())
    shown = escape(text if len(text) <= _MAX_REPORTED else text[:_MAX_REPORTED] + "...")
    write_complaint(f"InternalError: {type(error).__name__}: {shown}\n  this is a bug in placesim; --debug shows where\n")
    return DEFECT
