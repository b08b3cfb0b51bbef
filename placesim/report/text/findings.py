"""Text, JSON and GitHub annotations of findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.core.errors import GraphFileError, Location, PlacesimError, Problem, shown_type
from placesim.core.escaping import escape
from placesim.core.styled_text import StyledText, one_line
from placesim.inspection.checking.findings import Finding
from placesim.report.text.tables import TableSpec


def format_findings(findings: Sequence[Finding]) -> StyledText:
    """Return a line `FILE:LINE:COL: rule: message` for each finding."""
    return StyledText(*(part for finding in findings for part in (one_line(finding.text), "\n")))


def findings_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the JSON object; its rows are generated one by one."""
    return {"findings": map(_row, findings)}


TABLES = (TableSpec("findings", ("findings",), ("file", "line", "column", "rule", "message", "node")),)
"""Tables of the JSON object."""


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.location.file,
        "line": finding.location.line,
        "column": finding.location.column,
        "rule": finding.rule,
        "message": finding.message,
        "node": finding.node,
    }


def format_github(findings: Sequence[Finding]) -> str:
    """Return a workflow command for each finding; GitHub shows it at the line of the file."""
    return "".join(_annotation(finding.location, finding.rule, finding.message) for finding in findings)


def format_github_error(graph: str, error: PlacesimError) -> str:
    """Return a workflow command for each problem of a graph that could not be read or placed."""
    problems = error.problems if isinstance(error, GraphFileError) else ()
    problems = problems or (Problem(error.location or Location(graph, 1, 1), error.message),)
    return "".join(_annotation(problem.location, shown_type(error), problem.message) for problem in problems)


def _annotation(place: Location, title: str, message: str) -> str:
    fields = f"file={_property(place.file)},line={max(1, place.line)},col={max(1, place.column)},title={_property(title)}"
    return f"::error {fields}::{_data(message)}\n"


def _data(text: str) -> str:
    """Escape a text for the data part of a GitHub workflow command, and its control characters for display."""
    return escape(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
