"""Printing: results to standard output, warnings and errors to standard error. There is colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from placesim.cli.command import current_settings, own_options, typed_options
from placesim.cli.standard_streams import write_complaint, write_result
from placesim.core.errors import PlacesimError
from placesim.core.escaping import escape, escape_data, escape_line
from placesim.core.files.writer import WholeFiles, join_pieces, unwritable
from placesim.core.styled_text import StyledText

if TYPE_CHECKING:
    from placesim.report.report import Report
    from placesim.report.text.tables import TabLines


def is_terminal(stream: TextIO) -> bool:
    """Whether output is for a person: on a terminal, or if FORCE_COLOR is set."""
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def write(text: str, is_styled: bool = False) -> bool:
    """Print a result, with control characters escaped unless `is_styled`. Returns False if the pipe's reader has closed it."""
    return write_result(text if is_styled else escape(text))


def write_pieces(pieces: Iterable[str]) -> bool:
    """Print a result piece by piece. Returns False if the reader has gone; the remaining pieces are then not generated."""
    return all(write_result(escape_data(text)) for text in join_pieces(pieces))


def complain(text: str) -> None:
    """Print a warning or note to standard error; nothing under --quiet."""
    if not current_settings().quiet:
        tell(text)


def tell(text: str) -> None:
    """Print an error or a requested log to standard error, even under --quiet."""
    from placesim.cli.progress import write_beside_bar

    with write_beside_bar():
        write_complaint(escape(text))


def tell_needless(chosen: Collection[str], where: str) -> None:
    """Print a note about the options on the command line with these names or in these groups: they have no effect there."""
    typed = ((word, option) for word, option in typed_options().items() if option.name != "timeout")
    words = [word for word, option in typed if option.group in chosen or option.name in chosen]
    if words:
        complain(f"Note: {', '.join(words)} {'has' if len(words) == 1 else 'have'} no effect {where}\n")


def write_files(contents: Mapping[Path, Iterable[bytes]], makes_folders: bool = False) -> None:
    """Write files, and their folders if `makes_folders`: all of them, or none.

    A file's content comes in pieces, so that a large one is never in memory completely. Raises UsageError if a file can't be
    written.
    """
    path = None
    try:
        with WholeFiles() as files:
            for path, pieces in contents.items():
                files.write(path, pieces, makes_folders)
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from error


def write_content(content: Iterable[str] | bytes, output: str | None) -> None:
    """Write a result to standard output, or into the file `output`. Raises UsageError if that can't be written."""
    if output is not None:
        write_files(
            {Path(output): [content] if isinstance(content, bytes) else (text.encode() for text in join_pieces(content))}
        )
    elif isinstance(content, bytes):
        write_result(content)
    else:
        write_pieces(content)


def write_trace(path: Path, events: Iterable[dict[str, Any]]) -> None:
    """Write a trace to a file. Raises UsageError if the file can't be written."""
    from placesim.report.trace_json import trace_text

    write_files({path: (text.encode() for text in join_pieces(trace_text(events)))})


def write_styled(text: str | Iterator[str]) -> None:
    """Print a result, in colour if it is styled and standard output is a terminal.

    A result that is not styled is for programs, and may come in pieces.
    """
    if not isinstance(text, str):
        write_pieces(text)
    elif isinstance(text, StyledText) and is_terminal(sys.stdout):
        from placesim.report.terminal.output import styled

        write(styled(text, sys.stdout, is_fitted=True), is_styled=True)
    else:
        write(text)


def tab_text(lines: TabLines, *, is_continued: bool = False) -> Iterator[str]:
    """Yield tab-separated lines, with header lines unless --no-header is given or the lines continue others."""
    return lines.text(has_headers=not (is_continued or current_settings().no_header))


def write_rows(
    rows: Sequence[Mapping[str, Any]], key: str, columns: Sequence[str], form: str, more: Mapping[str, Any] | None = None
) -> None:
    """Print rows with the keys `columns` as JSON (under `key`, beside `more`), CSV, Markdown or text.

    On a terminal, text is a table; in a pipe, tab-separated lines.
    """
    cells = (list(row.values()) for row in rows)
    if form == "json":
        from placesim.report.document import json_line

        write(json_line({key: list(rows)} | dict(more or {})))
    elif form == "csv":
        from placesim.report.text.tables import csv_table

        write(csv_table(columns, cells))
    elif form == "markdown":
        from placesim.report.text.tables import markdown_table

        write(markdown_table(columns, cells))
    elif is_terminal(sys.stdout):
        from placesim.report.terminal.output import table

        write(table(columns, [tuple(map(str, row)) for row in cells], sys.stdout), is_styled=True)
    else:
        from placesim.report.text.tables import TabLines

        write("".join(tab_text(TabLines({"": columns}, cells))))


def write_creation(report: Report) -> None:
    """Print the log that TensorFlow writes about the GPUs when it creates a session."""
    for line in report.creation:
        tell(f"{escape_line(line)}\n")


def write_traceback(error: BaseException) -> None:
    """Print the traceback of an error, under --debug."""
    if current_settings().debug:
        import traceback

        tell("".join(traceback.format_exception(error)))


def write_error(error: PlacesimError) -> None:
    """Print an error; if it has an outcome, locations of the named nodes are printed too."""
    from placesim.report.text.complaint import format_error, format_outcome_error

    outcome = error.outcome
    is_placed = outcome is not None and outcome.error is error
    write_error_text(format_outcome_error(outcome) if is_placed else format_error(error), error)


def write_error_text(text: StyledText, error: PlacesimError | None = None) -> None:
    """Print the lines of an error, and its remedies among the running command's options, in colour on a terminal."""
    if error is not None and error.remedies:
        from placesim.report.text.complaint import format_remedies

        text = StyledText(text, format_remedies(error, own_options()))
    if is_terminal(sys.stderr):
        from placesim.cli.progress import write_beside_bar
        from placesim.report.terminal.output import styled

        with write_beside_bar():
            write_complaint(styled(text, sys.stderr))
    else:
        tell(text)
