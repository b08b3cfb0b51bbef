"""Output of a report while it is produced: the results of each step are written, and then no longer kept."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby, islice
from typing import IO, TYPE_CHECKING, Any

from placesim.cli.output import complain, is_terminal, write, write_error_text, write_traceback
from placesim.cli.standard_streams import reader_is_gone
from placesim.core.errors import Interruption, UsageError
from placesim.core.escaping import escape_line
from placesim.core.files.writer import PIECE_LETTERS
from placesim.core.process.interrupts import InterruptDelay

if TYPE_CHECKING:
    from placesim.cli.progress import TerminalProgress
    from placesim.report.report import Report
    from placesim.runtime.sessions.outcome import Outcome
    from placesim.runtime.sessions.results import Result
    from placesim.studies.simulation.simulation import PartialResults

PATIENCE_SECONDS = 0.2
"""Maximum delay in seconds of pending output while a progress bar occupies the terminal line."""
MAX_WAITING = 1 << 20
"""Maximum number of characters of results that wait in memory.

In text output, results wait until the log is complete, or until they exceed this size. In JSON they wait as long as needed,
beyond this size in a temporary file.
"""


def write_report(
    report: Report, form: str = "text", graph: str | None = None, with_summary: bool = False, log_filters: tuple[str, ...] = ()
) -> bool:
    """Write a report as text or as one line of JSON. Returns False if the reader of the output has gone.

    `graph` is the report's name, given if several graphs are reported.
    """
    with ReportWriter(form, graph, with_summary, log_filters) as writer:
        return writer.finish(report)


class ReportWriter:
    """Writer of a report.

    The results of a step are written when the step ends, unless earlier parts of the report may still change. A `progress` bar
    is removed before something is written. `opening` is called before all output.
    """

    def __init__(
        self,
        form: str,
        graph: str | None = None,
        with_summary: bool = False,
        log_filters: tuple[str, ...] = (),
        progress: TerminalProgress | None = None,
        opening: Callable[[Report], None] | None = None,
    ) -> None:
        self._opening = opening
        self._format = _FORMATS[form](graph, with_summary)
        self._filters = log_filters
        self._out = _OutputBuffer(progress)
        self._size = 0
        self._waiting = _PendingTexts()
        self._looked = time.monotonic()
        self._has_head = False

    def __enter__(self) -> ReportWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        """Write pending output, even after an interrupt."""
        self._waiting.close()
        if self._has_head:
            self._out.flush()

    def take(self, rows: Sequence[Result], so_far: PartialResults) -> bool:
        """Take and write the results of a step. Returns False if the reader of the output has gone."""
        with InterruptDelay():
            return self._taken(rows, so_far)

    def _taken(self, rows: Sequence[Result], so_far: PartialResults) -> bool:
        if not self._has_head and self._format.needs_no_more(self._waiting.letters, so_far):
            self._begin(self._filtered(_read(so_far.outcome())))
        elif self._has_head and so_far.size != self._size:
            self._out.add(self._format.growth(self._filtered(_read(so_far.outcome()))))
        self._size = so_far.size
        if self._has_head:
            self._out.add(self._format.rows(rows))
            self._out.settle()
            return self._out.is_read
        self._waiting.add(self._format.rows(rows))
        if time.monotonic() - self._looked > PATIENCE_SECONDS:
            self._looked = time.monotonic()
            return not reader_is_gone()
        return True

    def _filtered(self, report: Report) -> Report:
        if not self._filters:
            return report
        from placesim.report.log_filter import filter_log

        return filter_log(report, self._filters)

    def leave(self, outcome: Outcome) -> None:
        """Write the end of the report like `finish`, while a kernel blocks the main thread."""
        self._out.end()
        self.finish(_read(outcome))

    def settle(self) -> None:
        """Write the text that was held back while a progress bar was shown."""
        with InterruptDelay():
            self._out.settle()

    def finish(self, report: Report) -> bool:
        """Write the end of the report: a summary, warnings, the error. Returns False if the reader of the output has gone."""
        report = self._filtered(report)
        if not self._has_head:
            self._begin(report)
        for _, rows in groupby(report.results, lambda row: row.step):
            self._out.add(self._format.rows(list(rows)))
        self._out.add(self._format.tail(report))
        self._out.flush()
        if self._filters:
            from placesim.report.log_filter import warn_unmatched

            for warning in warn_unmatched(report, self._filters):
                complain(f"{warning}\n")
        if report.annotations is not None and self._format.tells_annotations:
            complain(_annotations_line(report.annotations))
        for message in report.warnings:
            complain(f"{message}\n")
        if report.error is not None and not isinstance(report.error, Interruption):
            write_traceback(report.error)
            write_error_text(report.error_text(), report.error)
        return self._out.is_read

    def _begin(self, report: Report) -> None:
        self._has_head = True
        if self._opening is not None:
            with self._out.aside():
                self._opening(report)
        self._out.add(self._format.head(report))
        self._out.add(self._waiting.pieces())


def _read(outcome: Outcome) -> Report:
    from placesim.report.report import Report

    return Report.of(outcome)


class _PendingTexts:
    """Texts that can't be written yet: in memory while they are short, then in a file."""

    def __init__(self) -> None:
        self.letters = 0
        self._file: IO[str] = io.StringIO(newline="")
        self._is_in_memory = True

    def add(self, pieces: Iterator[str]) -> None:
        """Add texts. Raises UsageError if the disk is full."""
        try:
            for piece in pieces:
                self.letters += len(piece)
                self._file.write(piece)
            if self._is_in_memory and self.letters > MAX_WAITING:
                self._move()
        except OSError as error:
            found = f"got '{error.strerror}', expected room in the folder for temporary files"
            raise UsageError(f"cannot store results: {found}") from error

    def _move(self) -> None:
        from tempfile import TemporaryFile

        short, self._is_in_memory = self._file, False
        self._file = TemporaryFile("w+", encoding="utf-8", errors="surrogatepass", newline="")  # noqa: SIM115 - see `close`
        short.seek(0)
        self._file.write(short.read())

    def pieces(self) -> Iterator[str]:
        """Yield all added texts."""
        self._file.seek(0)
        return iter(lambda: self._file.read(PIECE_LETTERS), "")

    def close(self) -> None:
        self._file.close()


class _OutputBuffer:
    """A buffer of text pieces, which is written when it is full and after each step."""

    def __init__(self, progress: TerminalProgress | None) -> None:
        self.is_read = True
        self._progress = progress
        self._pieces: list[str] = []
        self._letters = 0
        self._written = time.monotonic()

    def add(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            if isinstance(piece, _StyledText):
                self.flush()
                self._write(piece, is_styled=True)
                continue
            self._pieces.append(piece)
            self._letters += len(piece)
            if self._letters >= PIECE_LETTERS:
                self.flush()

    def aside(self) -> AbstractContextManager[None]:
        """Hide the progress bar during the block."""
        return nullcontext() if self._progress is None else self._progress.aside()

    def end(self) -> None:
        """Remove the progress bar permanently."""
        if self._progress is not None:
            self._progress.close()

    def settle(self) -> None:
        """Write all pieces, unless a progress bar is shown and the last write was a moment ago."""
        is_free = self._progress is None or not self._progress.is_up
        if self._pieces and (is_free or time.monotonic() - self._written > PATIENCE_SECONDS):
            self.flush()

    def flush(self) -> None:
        pieces, self._pieces, self._letters = self._pieces, [], 0
        self._written = time.monotonic()
        if pieces:
            self._write("".join(pieces))

    def _write(self, text: str, is_styled: bool = False) -> None:
        if not self.is_read:
            return
        with self.aside():
            self.is_read = write(text, is_styled)


class _StyledText(str):
    """A text with colour codes, which must not be escaped."""

    __slots__ = ()


class _Text:
    """The text format: the log, the printed results and the summary."""

    tells_annotations = True

    def __init__(self, graph: str | None, with_summary: bool) -> None:
        self._graph = graph
        self._with_summary = with_summary
        self._is_classic = False
        self._log: list[str] = []
        self._told: Report | None = None
        self._has_log: bool | None = None

    def needs_no_more(self, waiting: int, so_far: PartialResults) -> bool:
        """Whether the part before the results is final.

        It is final if there is no log, if no more nodes are added, or if too many results are waiting. The log of a function's
        body comes where TensorFlow has it: before the results of the step that first calls it.
        """
        if self._has_log is None:
            outcome = so_far.outcome()
            self._has_log, self._is_classic = outcome.shows_log, outcome.style == "classic"
        from placesim.studies.simulation.simulation import Growth

        return not self._has_log or so_far.growth < Growth.NODES or waiting > MAX_WAITING

    def head(self, report: Report) -> Iterator[str]:
        self._is_classic = report.style == "classic"
        if self._graph is not None:
            yield f"==> {escape_line(self._graph)} <==\n"
        self._told = report
        pieces = report.log_pieces()
        if is_terminal(sys.stdout) and (log := "".join(pieces)):
            from placesim.report.terminal.output import styled_log

            self._log = [log]
            yield _StyledText(styled_log(report, sys.stdout))
        for piece in pieces:
            self._log.append(piece)
            yield piece

    def rows(self, rows: Sequence[Result]) -> Iterator[str]:
        from placesim.report.results import format_step

        return format_step(rows, self._is_classic)

    def growth(self, report: Report) -> Iterator[str]:
        if report is self._told:  # making a log of a million lines takes long
            return
        log, self._told = report.log(), report
        known = "".join(self._log)
        if log.startswith(known):
            yield log[len(known) :]
            self._log = [log]

    def tail(self, report: Report) -> Iterator[str]:
        yield from self.growth(report)
        if self._with_summary and report.placed:
            from shutil import get_terminal_size

            from placesim.inspection.summary import summarise_outcome
            from placesim.report.text.summary import format_summary

            width = get_terminal_size().columns if is_terminal(sys.stdout) else None
            yield format_summary(summarise_outcome(report), width)


class _Json:
    """The JSON format: an object on one line."""

    tells_annotations = False

    def __init__(self, graph: str | None, with_summary: bool) -> None:
        self._named = {} if graph is None else {"graph": graph}
        self._with_summary = with_summary
        self._before = ""

    def needs_no_more(self, waiting: int, so_far: PartialResults) -> bool:
        """Whether all placements and transfers, which come before the results, are known."""
        from placesim.studies.simulation.simulation import Growth

        return so_far.growth is Growth.NOTHING

    def head(self, report: Report) -> Iterator[str]:
        from placesim.report.document import json_pieces

        yield from json_pieces({**self._named, **report.document_head()}, is_open=True)
        yield ',"results":['

    def growth(self, report: Report) -> Iterator[str]:
        """Yield nothing, because the report already has the whole graph."""
        yield from ()

    def rows(self, rows: Sequence[Result]) -> Iterator[str]:
        from placesim.report.document import result_pieces

        for row in rows:
            yield self._before
            yield from result_pieces(row)
            self._before = ","

    def tail(self, report: Report) -> Iterator[str]:
        from placesim.report.document import json_pieces

        yield "],"
        yield from json_pieces(_tail_document(report, self._with_summary), is_begun=True)
        yield "\n"


class _JsonLines:
    """The JSON Lines format. Each line is written when it is known: placements and transfers, results of a step, the end."""

    tells_annotations = False

    def __init__(self, graph: str | None, with_summary: bool) -> None:
        self._named = {} if graph is None else {"graph": graph}
        self._with_summary = with_summary
        self._told: dict[str, int] = {}

    def needs_no_more(self, waiting: int, so_far: PartialResults) -> bool:
        """Return True, since later results have their own lines."""
        return True

    def head(self, report: Report) -> Iterator[str]:
        return self._placed(report, is_first=True)

    def growth(self, report: Report) -> Iterator[str]:
        return self._placed(report, is_first=False)

    def _placed(self, report: Report, is_first: bool) -> Iterator[str]:
        """Yield a line with the rows that are new since the previous such line. The first line has all keys."""
        from placesim.report.document import json_text

        new = {key: list(islice(rows, self._told.get(key, 0), None)) for key, rows in report.document_head().items()}
        for key, rows in new.items():
            self._told[key] = self._told.get(key, 0) + len(rows)
        if is_first or any(new.values()):
            shown = {key: iter(rows) for key, rows in new.items() if rows or is_first}
            yield from json_text({"kind": "placed", **self._named, **shown})

    def rows(self, rows: Sequence[Result]) -> Iterator[str]:
        from placesim.report.document import json_pieces, result_pieces

        if rows:
            yield from json_pieces({"kind": "step", **self._named, "step": rows[0].step}, is_open=True)
            before = ',"results":['
            for row in rows:
                yield before
                yield from result_pieces(row)
                before = ","
            yield "]}\n"

    def tail(self, report: Report) -> Iterator[str]:
        from placesim.report.document import json_text

        yield from self.growth(report)
        yield from json_text({"kind": "end", **self._named, **_tail_document(report, self._with_summary)})


def _tail_document(report: Report, with_summary: bool) -> dict[str, Any]:
    """Return the part of the document after the results."""
    document = report.document_tail()
    if with_summary:
        from placesim.inspection.summary import summarise_outcome
        from placesim.report.text.summary import summary_document

        document |= {"summary": summary_document(summarise_outcome(report))}
    return document


_FORMATS: Mapping[str, Callable[[str | None, bool], _Text | _Json | _JsonLines]] = {
    "text": _Text,
    "json": _Json,
    "jsonl": _JsonLines,
}


def _annotations_line(annotations: Mapping[str, int]) -> str:
    """Return the line with the number of device annotations in the file."""
    listed = ", ".join(f"{escape_line(device)}: {count}" for device, count in annotations.items())
    return f"device annotations in the file: {sum(annotations.values())}{listed and f' ({listed})'}\n"
