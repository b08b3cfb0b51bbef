"""Printing: results to standard output, warnings and errors to standard error; colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from placesim.cli.options import Settings
from placesim.cli.streams import write_complaint, write_result
from placesim.errors import PlacesimError, UsageError
from placesim.escapes import escape, escape_line
from placesim.files.writing import WholeFiles
from placesim.marked import Marked

if TYPE_CHECKING:
    from placesim.report.report import Report


def is_terminal(stream: TextIO) -> bool:
    """Whether to write for a person: on a terminal, or where FORCE_COLOR says so."""
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def write(text: str, is_styled: bool = False) -> bool:
    """A result, without control characters but those of a style; False where nobody reads it any more."""
    return write_result(text if is_styled else escape(text))


def complain(text: str) -> None:
    """What is no result: warnings, and what there is to know."""
    write_complaint(escape(text))


def write_files(contents: Mapping[Path, bytes], makes_folders: bool = False) -> None:
    """Results into files, where it says so with the folders around them: all of them, or none and what was there stays.

    Raises UsageError where one can't be written.
    """
    path = None
    try:
        with WholeFiles() as files:
            for path, content in contents.items():
                files.write(path, content, makes_folders)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {path}: got '{reason}', expected a path that can be written") from error


def write_styled(text: str) -> None:
    """A result; one that is marked has colour on a terminal, any other is for a program to read."""
    if isinstance(text, Marked) and is_terminal(sys.stdout):
        from placesim.report.terminal import styled

        write(styled(text, sys.stdout), is_styled=True)
    else:
        write(text)


def write_report(report: Report, form: str = "text", graph: str | None = None, with_summary: bool = False) -> bool:
    """A report as text or as one line of JSON; `graph` is its name where there are several.

    False where nobody reads it any more.
    """
    if form == "json":
        from placesim.report.document import json_line

        document: dict[str, Any] = report.document() | (_summary(report, form) if with_summary else {})
        is_read = write(json_line(document if graph is None else {"graph": graph, **document}))
    else:
        if graph is not None:
            write(f"==> {escape_line(graph)} <==\n")
        is_read = _write_report_text(report)
        if with_summary and report.placed:
            write(_summary(report, form))
        if report.annotations is not None:
            complain(_annotations_line(report.annotations))
    for message in report.warnings:
        complain(f"{message}\n")
    if report.error is not None:
        write_traceback(report.error)
        write_error_text(report.error_text())
    return is_read


def write_creation(report: Report) -> None:
    """What TensorFlow logs of the GPUs when a session is made, where it logs it."""
    for line in report.creation:
        complain(f"{escape_line(line)}\n")


def _annotations_line(annotations: Mapping[str, int]) -> str:
    """How many device annotations came with the file."""
    listed = ", ".join(f"{escape_line(device)}: {count}" for device, count in annotations.items())
    return f"device annotations in the file: {sum(annotations.values())}{listed and f' ({listed})'}\n"


def _summary(report: Report, form: str) -> Any:
    """The text of the summary, or what it adds to the JSON object."""
    from placesim.inspection.summary import summarise_outcome
    from placesim.report.text.summary import format_summary, summary_document

    found = summarise_outcome(report)
    return {"summary": summary_document(found)} if form == "json" else format_summary(found)


def with_log_filter(report: Report, patterns: tuple[str, ...]) -> Report:
    """The report with only those nodes logged that a pattern matches; all of them where there is no pattern."""
    if not patterns:
        return report
    from dataclasses import replace

    from placesim.inspection.patterns import matcher

    return replace(report, shows_node=matcher(patterns))


def _write_report_text(report: Report) -> bool:
    if not is_terminal(sys.stdout):
        return write(report.text())
    from placesim.report.terminal import styled_report

    return write(styled_report(report, sys.stdout), is_styled=True)


def write_traceback(error: BaseException) -> None:
    """Where an error comes from, under --debug."""
    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(Settings)
    if settings is not None and settings.debug:
        import traceback

        complain("".join(traceback.format_exception(error)))


def write_error(error: PlacesimError) -> None:
    """An error that no report goes with."""
    from placesim.report.text.complaint import format_error

    write_error_text(format_error(error))


def write_error_text(text: Marked) -> None:
    """An error's lines, on a terminal with colour."""
    if is_terminal(sys.stderr):
        from placesim.report.terminal import styled

        write_complaint(styled(text, sys.stderr))
    else:
        complain(text)
