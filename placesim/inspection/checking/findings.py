"""What a check finds: one row for each place where a rule is broken."""

from __future__ import annotations

from typing import NamedTuple

from placesim.errors import Location


class Finding(NamedTuple):
    """A broken rule: where, which one, and how; `node` is the node that it is about, if one is."""

    location: Location
    rule: str
    message: str
    node: str | None = None

    def __str__(self) -> str:
        return f"{self.location}: {self.rule}: {self.message}"
