"""A difference -> text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placesim.escapes import escape_line
from placesim.inspection.device_names import short_device
from placesim.inspection.difference import Difference, ScopeMove
from placesim.inspection.snapshot import Failure
from placesim.marked import Marked, Role, filled

MAX_LISTED = 40
"""A text lists so many rows of each kind, and counts the rest; JSON has all."""


def format_difference(difference: Difference, before: str, after: str) -> Marked:
    """The names of both, and what differs; empty where nothing does."""
    if not difference:
        return Marked()
    return Marked(
        *(
            Marked(line, "\n")
            for line in (_gone(f"--- {escape_line(before)}"), _new(f"+++ {escape_line(after)}"), *_lines(difference))
        )
    )


def _lines(difference: Difference) -> Iterator[Marked]:
    for sign, mark, error in (("-", _gone, difference.error_before), ("+", _new, difference.error_after)):
        if error is not None:
            yield mark(f"{sign} ", error.summary)
    if difference.moved:
        yield Marked(_head("moved:"), f" {_nodes(len(difference.moved))}")
        yield from _limited([filled("  {}", _moved(move)) for move in difference.folded])
    for title, sign, mark, names in (("gone", "-", _gone, difference.removed), ("new", "+", _new, difference.added)):
        if names:
            yield mark(f"{title}: {_nodes(len(names))}")
            yield from _limited([mark(f"{sign} {name}") for name in names])
    if difference.transfers:
        yield _head("transfers:")
        yield from (filled("  {}", change.text) for change in difference.transfers)
    if difference.memory:
        yield _head("memory at the peak:")
        yield from (filled("  {}", change.text) for change in difference.memory)


def _head(*parts: str) -> Marked:
    return Marked(*parts, role=Role.HEAD)


def _gone(*parts: str) -> Marked:
    return Marked(*parts, role=Role.GONE)


def _new(*parts: str) -> Marked:
    return Marked(*parts, role=Role.NEW)


def _moved(move: ScopeMove) -> Marked:
    count = f" ({_nodes(move.nodes)})" if move.name.endswith("/") else ""
    return filled("{}{}: {} -> {}", move.name, count, short_device(move.before), short_device(move.after))


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _limited(lines: Sequence[Marked]) -> Iterator[Marked]:
    yield from lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        yield Marked(f"  and {len(lines) - MAX_LISTED} more")


def difference_document(difference: Difference) -> dict[str, Any]:
    """The JSON object: every node by itself, and the folded rows beside them; rows come one by one."""
    return {
        "same": not difference,
        "moved": (move._asdict() for move in difference.moved),
        "folded": (move._asdict() for move in difference.folded),
        "removed": iter(difference.removed),
        "added": iter(difference.added),
        "transfers": [
            {
                "src": change.source,
                "dst": change.target,
                "before": change.before.document(),
                "after": change.after.document(),
            }
            for change in difference.transfers
        ],
        "memory": None if difference.memory is None else [change._asdict() for change in difference.memory],
        "error": {"before": _failure(difference.error_before), "after": _failure(difference.error_after)},
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    return None if failure is None else failure._asdict()
