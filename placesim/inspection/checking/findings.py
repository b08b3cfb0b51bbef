"""Findings of a check: one row for each violation of a rule."""

from __future__ import annotations

from typing import NamedTuple

from placesim.core.errors import Location, PlacesimError
from placesim.core.styled_text import Role, StyledText, fill_template, place

PLACEABLE = "placeable"
"""The rule that every graph is held to: that it can be placed."""


class Finding(NamedTuple):
    """A broken rule: where, which one, and how; `node` is the node that it is about, if one is."""

    location: Location
    rule: str
    message: StyledText
    node: str | None = None

    @property
    def text(self) -> StyledText:
        """`FILE:LINE:COL: rule: message`."""
        return fill_template("{}: {}: {}", place(self.location), StyledText(self.rule, role=Role.RULE), self.message)

    def __str__(self) -> str:
        return self.text


class CheckResult(NamedTuple):
    """A graph and what was found; `error` is what kept it from being looked at."""

    name: str
    findings: tuple[Finding, ...] = ()
    error: PlacesimError | None = None

    @property
    def exit_code(self) -> int:
        """The error's, else 1 for findings."""
        return int(bool(self.findings)) if self.error is None else self.error.exit_code
