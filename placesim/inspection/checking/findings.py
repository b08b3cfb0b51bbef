"""Findings of a check: one row for each violation of a rule."""

from __future__ import annotations

from typing import NamedTuple

from placesim.core.errors import Location, PlacesimError
from placesim.core.styled_text import Role, StyledText, fill_template, place

PLACEABLE = "placeable"
"""Name of the rule that the graph can be placed. `check` always checks this rule."""


class Finding(NamedTuple):
    """A violation of a rule: place, rule and description. `node` is set if it concerns one node."""

    location: Location
    rule: str
    message: StyledText
    node: str | None = None

    @property
    def text(self) -> StyledText:
        """Return the finding as `FILE:LINE:COL: rule: message`."""
        return fill_template("{}: {}: {}", place(self.location), StyledText(self.rule, role=Role.RULE), self.message)

    def __str__(self) -> str:
        return self.text


class CheckResult(NamedTuple):
    """A graph and its findings; `error` is set if the graph could not be checked."""

    name: str
    findings: tuple[Finding, ...] = ()
    error: PlacesimError | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code of the error, else 1 if there are findings, else 0."""
        return int(bool(self.findings)) if self.error is None else self.error.exit_code
