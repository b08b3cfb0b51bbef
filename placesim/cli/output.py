"""Printing: results to standard output, warnings and errors to standard error; colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from placesim.cli.options import Settings
from placesim.errors import PlacesimError, UsageError
from placesim.files.writing import WholeFiles
from placesim.marked import Marked

if TYPE_CHECKING:
    from placesim.report.report import Report


def is_terminal(stream: TextIO) -> bool:
    """Whether to write for a person: on a terminal, or where FORCE_COLOR says so."""
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def write(text: str) -> None:
    """A result."""
    sys.stdout.write(text)
    sys.stdout.flush()


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

        text = styled(text, sys.stdout)
    write(text)


def write_report(report: Report, form: str = "text", graph: str | None = None, with_summary: bool = False) -> None:
    """A report as text or as one line of JSON; `graph` is its name where there are several."""
    if form == "json":
        from placesim.report.document import json_line

        document: dict[str, Any] = report.document() | (_summary(report, form) if with_summary else {})
        write(json_line(document if graph is None else {"graph": graph, **document}))
    else:
        if graph is not None:
            write(f"==> {graph} <==\n")
        write(_report_text(report))
        if with_summary and report.placed:
            write(_summary(report, form))
        if report.annotations is not None:
            sys.stderr.write(_annotations_line(report.annotations))
    for message in report.warnings:
        sys.stderr.write(f"{message}\n")
    if report.error is not None:
        write_traceback(report.error)
        write_error_text(report.error_text())


def _annotations_line(annotations: Mapping[str, int]) -> str:
    """How many device annotations came with the file."""
    listed = ", ".join(f"{device}: {count}" for device, count in annotations.items())
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


def _report_text(report: Report) -> str:
    if not is_terminal(sys.stdout):
        return report.text()
    from placesim.report.terminal import styled_report

    return styled_report(report, sys.stdout)


def write_traceback(error: BaseException) -> None:
    """Where an error comes from, under --debug."""
    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(Settings)
    if settings is not None and settings.debug:
        import traceback

        traceback.print_exception(error)


def write_error(error: PlacesimError) -> None:
    """An error that no report goes with."""
    from placesim.report.text.complaint import format_error

    write_error_text(format_error(error))


def write_error_text(text: Marked) -> None:
    """An error's lines, on a terminal with colour."""
    sys.stdout.flush()
    if is_terminal(sys.stderr):
        from placesim.report.terminal import styled

        sys.stderr.write(styled(text, sys.stderr))
    else:
        sys.stderr.write(text)
