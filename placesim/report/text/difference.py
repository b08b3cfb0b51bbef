"""A difference -> text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placesim.inspection.difference import Difference, ScopeMove
from placesim.inspection.snapshot import Failure

MAX_LISTED = 40
"""A text lists so many rows of each kind, and counts the rest; JSON has all."""
_LOCAL = "/job:localhost/replica:0/task:0/device:"


def format_difference(difference: Difference, before: str, after: str) -> str:
    """The names of both, and what differs; empty where nothing does."""
    if not difference:
        return ""
    return "".join(f"{line}\n" for line in (f"--- {before}", f"+++ {after}", *_lines(difference)))


def _lines(difference: Difference) -> Iterator[str]:
    for sign, error in (("-", difference.error_before), ("+", difference.error_after)):
        if error is not None:
            yield f"{sign} {error.summary}"
    if difference.moved:
        yield f"moved: {_nodes(len(difference.moved))}"
        yield from _limited([f"  {_moved(move)}" for move in difference.folded])
    for title, sign, names in (("gone", "-", difference.removed), ("new", "+", difference.added)):
        if names:
            yield f"{title}: {_nodes(len(names))}"
            yield from _limited([f"{sign} {name}" for name in names])
    if difference.transfers:
        yield "transfers:"
        yield from (f"  {change.text}" for change in difference.transfers)


def _moved(move: ScopeMove) -> str:
    count = f" ({_nodes(move.nodes)})" if move.name.endswith("/") else ""
    return f"{move.name}{count}: {move.before.removeprefix(_LOCAL)} -> {move.after.removeprefix(_LOCAL)}"


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _limited(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        yield f"  and {len(lines) - MAX_LISTED} more"


def difference_document(difference: Difference) -> dict[str, Any]:
    """The JSON object: every node by itself, and the folded rows beside them."""
    return {
        "same": not difference,
        "moved": [move._asdict() for move in difference.moved],
        "folded": [move._asdict() for move in difference.folded],
        "removed": list(difference.removed),
        "added": list(difference.added),
        "transfers": [
            {
                "src": change.source,
                "dst": change.target,
                "before": change.before.document(),
                "after": change.after.document(),
            }
            for change in difference.transfers
        ],
        "error": {"before": _failure(difference.error_before), "after": _failure(difference.error_after)},
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    return None if failure is None else failure._asdict()
