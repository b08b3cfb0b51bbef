"""Text and JSON of a difference between placements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from placesim.core.escaping import escape_line
from placesim.core.styled_text import Role, StyledText, fill_template
from placesim.inspection.difference import Difference, PeakChange, ScopeMove, TransferChange, largest_first, tensor_text
from placesim.inspection.short_device_names import short_device
from placesim.inspection.snapshot import ReportedError
from placesim.inspection.time_difference import Duration, StepDifference, StepInterval, TimeChange
from placesim.report.readings import counted
from placesim.report.text.amounts import readable_seconds
from placesim.report.text.tables import TableSpec

MAX_LISTED = 40
"""Maximum rows of each kind in the text, followed by the count of the rest; JSON has all."""
MAX_TIMES = 8
MAX_NEW_TRANSFERS = 3
LEAST_SHARE = 0.005
"""Minimum share of the longer step's time for a change to be listed."""


def side_label(name: str, side: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the label of one side of a comparison: its name, and the options that differ from the other side's."""
    own = ", ".join(f"{key.replace('_', '-')}={_written(value)}" for key, value in side.items() if other.get(key) != value)
    return f"{name} ({own})" if own else name


def _written(value: Any) -> str:
    """Return the value of an option as a command line has it; the values of a repeated option stand side by side."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        value = [f"{key}={','.join(map(str, one)) if isinstance(one, tuple | list) else one}" for key, one in value.items()]
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def format_difference(difference: Difference, before: str, after: str) -> StyledText:
    """Return the names of both sides and their differences; empty if there are none."""
    if not difference:
        return StyledText()
    return StyledText(
        *(
            StyledText(line, "\n")
            for line in (_gone(f"--- {escape_line(before)}"), _new(f"+++ {escape_line(after)}"), *_lines(difference))
        )
    )


def _lines(difference: Difference) -> Iterator[StyledText]:
    for sign, mark, error in (("-", _gone, difference.error_before), ("+", _new, difference.error_after)):
        if error is not None:
            yield mark(f"{sign} ", error.summary)
    if difference.moved:
        yield StyledText(_head("moved:"), f" {counted(len(difference.moved), 'node')}")
        yield from _limited([fill_template("  {}", _moved(move)) for move in difference.folded])
    for title, sign, mark, names in (("gone", "-", _gone, difference.removed), ("new", "+", _new, difference.added)):
        if names:
            yield mark(f"{title}: {counted(len(names), 'node')}")
            yield from _limited([mark(f"{sign} {name}") for name in names])
    if difference.transfers:
        yield _head("transfers:")
        for change in difference.transfers:
            yield fill_template("  {}", change.text)
            yield from _new_transfers(change)
    if difference.memory:
        yield _head("peak memory:")
        yield from (fill_template("  {}", change.text) for change in difference.memory)
    if difference.time is not None:
        yield from _time_lines(difference.time)


def _new_transfers(change: TransferChange) -> Iterator[StyledText]:
    """Yield a line with the largest transfers of tensors that were not sent before, if there are any."""
    shown = [
        f"{tensor_text(row)} ({'unknown size' if row.bytes is None else f'{row.bytes} bytes'})"
        for row in largest_first(change.new)[:MAX_NEW_TRANSFERS]
    ]
    if shown:
        more = len(change.new) - len(shown)
        yield _new(f"    new: {', '.join(shown)}{f' and {more} more' if more else ''}")


# --- time -----------------------------------------------------------------------------------------------------------

_TITLES = {
    "device": "busy",
    "node": "nodes",
    "transfer": "transfers",
    "link": "link use",
    "path": "critical path",
}


def _time_lines(found: StepDifference) -> Iterator[StyledText]:
    longest = max(found.before.seconds, found.after.seconds)
    change = f"{_signed(found.seconds)}{_percent(found)}"
    sure = (
        "the intervals overlap, so the difference may not be real"
        if found.is_within_intervals
        else "the intervals do not overlap"
    )
    said = f" {_interval(found.before)} -> {_interval(found.after)}, {change}: {sure}"
    yield StyledText(_head("step time:"), said if found.seconds else f" {_interval(found.after)}, unchanged")
    for what, title in _TITLES.items():
        changes = [change for change in found.changes if change.what == what]
        shown = [change for change in changes if abs(change.seconds) >= LEAST_SHARE * longest][:MAX_TIMES]
        if shown:
            yield StyledText(f"  {title}:")
            yield from (fill_template("    {}", _time_change(change)) for change in shown)
            rest = [change.seconds for change in changes if change not in shown]
            if rest:
                yield StyledText(f"    {len(rest)} more, {_signed(sum(rest))} in total")


def _interval(step: StepInterval) -> str:
    return f"{readable_seconds(step.seconds)} ({readable_seconds(step.low)} to {readable_seconds(step.high)})"


def _percent(found: StepDifference) -> str:
    share = found.seconds / found.before.seconds if found.before.seconds else 0.0
    return f" ({share:+.{0 if abs(share) >= 1 else 1}%})" if share else ""


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{readable_seconds(abs(seconds))}"


def _time_change(change: TimeChange) -> StyledText:
    name = short_device(change.name) if change.what == "device" else escape_line(change.name)
    kind = f" ({escape_line(change.kind)})" if change.what == "node" else f" {escape_line(change.kind)}" if change.kind else ""
    before, after = change.before, change.after
    is_elsewhere = before is None or after is None or before.where != after.where
    ends = f"{_took(before, is_elsewhere)} -> {_took(after, is_elsewhere)}"
    where = "" if is_elsewhere or after is None else _where(after)
    return fill_template("{}{}{}: {} ({})", name, kind, where, ends, _signed(change.seconds))


def _took(took: Duration | None, says_where: bool) -> str:
    if took is None:
        return "none"
    return f"{readable_seconds(took.seconds)}{_where(took) if says_where else ''}"


def _where(took: Duration) -> str:
    ends = [short_device(name) for name in took.where.split(" -> ")] if took.where else []
    return f" from {ends[0]} to {ends[1]}" if len(ends) > 1 else f" on {ends[0]}" if ends else ""


def _head(*parts: str) -> StyledText:
    return StyledText(*parts, role=Role.HEAD)


def _gone(*parts: str) -> StyledText:
    return StyledText(*parts, role=Role.GONE)


def _new(*parts: str) -> StyledText:
    return StyledText(*parts, role=Role.NEW)


def _moved(move: ScopeMove) -> StyledText:
    count = f" ({counted(move.nodes, 'node')})" if move.name.endswith("/") else ""
    return fill_template("{}{}: {} -> {}", move.name, count, short_device(move.before), short_device(move.after))


def _limited(lines: Sequence[StyledText]) -> Iterator[StyledText]:
    yield from lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        yield StyledText(f"  {len(lines) - MAX_LISTED} more")


def difference_document(difference: Difference) -> dict[str, Any]:
    """Return the JSON object with every moved node and the rows folded by scope; rows are generated one by one."""
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
                "new": [{"tensor": tensor_text(row), "bytes": row.bytes} for row in change.new],
            }
            for change in difference.transfers
        ],
        "memory": None if difference.memory is None else [change._asdict() for change in difference.memory],
        "time": None if difference.time is None else _time_document(difference.time),
        "error": {"before": _failure(difference.error_before), "after": _failure(difference.error_after)},
    }


TABLES = (
    TableSpec("nodes", ("nodes",), ("change", "node", "before", "after")),
    TableSpec(
        "transfers",
        ("transfers",),
        (*("src", "dst"), *(f"{side}.{part}" for side in ("before", "after") for part in ("count", "bytes", "unknown"))),
    ),
    TableSpec("memory", ("memory",), PeakChange._fields),
    TableSpec(
        "time",
        ("time", "changes"),
        ("what", "name", "kind", "seconds", "before.seconds", "before.where", "after.seconds", "after.where"),
    ),
    TableSpec("errors", ("errors",), ("side", "type", "message", "node", "location")),
)
"""Tables of `difference_tables`."""


def difference_tables(difference: Difference) -> dict[str, Any]:
    """Return the JSON object with all nodes in one list and all errors in another."""
    nodes = chain(
        ({"change": "moved", "node": move.name, "before": move.before, "after": move.after} for move in difference.moved),
        ({"change": "gone", "node": name} for name in difference.removed),
        ({"change": "new", "node": name} for name in difference.added),
    )
    failures = (("before", difference.error_before), ("after", difference.error_after))
    errors = [{"side": side, **failure._asdict()} for side, failure in failures if failure is not None]
    return difference_document(difference) | {"nodes": nodes, "errors": errors}


def _time_document(found: StepDifference) -> dict[str, Any]:
    changes: Iterator[dict[str, Any]] = (
        {
            "what": change.what,
            "name": change.name,
            "kind": change.kind or None,
            "seconds": change.seconds,
            "before": _took_document(change.before),
            "after": _took_document(change.after),
        }
        for change in found.changes
    )
    return {
        "before": found.before._asdict(),
        "after": found.after._asdict(),
        "seconds": found.seconds,
        "is_within_intervals": found.is_within_intervals,
        "changes": changes,
    }


def _took_document(took: Duration | None) -> dict[str, Any] | None:
    return None if took is None else {"seconds": took.seconds, "where": took.where or None, "bytes": took.bytes}


def _failure(failure: ReportedError | None) -> dict[str, Any] | None:
    return None if failure is None else failure._asdict()
