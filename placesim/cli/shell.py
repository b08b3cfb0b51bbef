"""The one place that prints errors: runs a command, and turns what it raises into text on standard error and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from placesim.cli.group import placesim
from placesim.cli.options import Settings
from placesim.errors import PlacesimError, UsageError
from placesim.interrupts import INTERRUPTED, was_interrupted

_MAX_REPORTED = 300


def run_shell(arguments: Sequence[str] | None) -> int:
    """Run the command that the arguments name, to its exit code."""
    settings = Settings()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        if "_PLACESIM_COMPLETE" in os.environ:
            placesim.main(list(sys.argv[1:]), "placesim")
        return _invoke(list(sys.argv[1:] if arguments is None else arguments), settings)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except OSError as error:
        if error.errno != errno.EPIPE:
            return _report(error, settings)
        _silence()
        return 0
    except Exception as error:
        return _report(error, settings)


def _invoke(arguments: Sequence[str], settings: Settings) -> int:
    """The command's own exit code; a wrong command line is a UsageError."""
    try:
        with placesim.make_context("placesim", list(arguments), obj=settings) as context:
            code = placesim.invoke(context)
        sys.stdout.flush()
        return int(code or 0)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        raise _usage_error(error) from error


def _usage_error(error: click.ClickException) -> UsageError:
    found = UsageError(" ".join(error.format_message().split()))
    context = getattr(error, "ctx", None)
    if context is not None:
        found.help = (f"see `{context.command_path} --help`",)
    return found


def _report(error: Exception, settings: Settings) -> int:
    if was_interrupted():
        return INTERRUPTED
    if settings.debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, PlacesimError):
        from placesim.cli.output import write_error

        write_error(error)
        return error.exit_code
    text = " ".join(str(error).split())
    shown = text if len(text) <= _MAX_REPORTED else text[:_MAX_REPORTED] + "..."
    sys.stderr.write(f"InternalError: {type(error).__name__}: {shown}\n  this is a defect of placesim; --debug shows where\n")
    return 1


def _silence() -> None:
    """The reader of a pipe has gone: what is still buffered goes nowhere, so that closing it at exit says nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
