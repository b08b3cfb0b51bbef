"""What a check finds: one row for each place where a rule is broken."""

from __future__ import annotations

from typing import NamedTuple

from placesim.errors import Location, PlacesimError
from placesim.marked import Marked, Role, filled, place

PLACEABLE = "placeable"
"""The rule that every graph is held to: that it can be placed."""


class Finding(NamedTuple):
    """A broken rule: where, which one, and how; `node` is the node that it is about, if one is."""

    location: Location
    rule: str
    message: Marked
    node: str | None = None

    @property
    def text(self) -> Marked:
        """`FILE:LINE:COL: rule: message`."""
        return filled("{}: {}: {}", place(self.location), Marked(self.rule, role=Role.RULE), self.message)

    def __str__(self) -> str:
        return self.text


class Checked(NamedTuple):
    """A graph and what was found; `error` is what kept it from being looked at."""

    name: str
    findings: tuple[Finding, ...] = ()
    error: PlacesimError | None = None
