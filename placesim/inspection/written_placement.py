"""Reader of placements in the JSON output of `place` or `run`, for comparisons with a stored baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from placesim.core.errors import GraphFileError, Location, Problem
from placesim.core.escaping import escape_line
from placesim.inspection.snapshot import PlacedNode, ReportedError, Snapshot
from placesim.inspection.written_reports import (
    BYTES,
    BYTES_OR_NONE,
    DEVICE,
    TEXT,
    TEXT_OR_NONE,
    WrongPartError,
    checked,
    checked_rows,
    read_document,
    refusal,
)
from placesim.machine.inventory import Device
from placesim.runtime.sessions.outcome import TransferRow

_KEYS = ("placements", "devices", "transfers", "error")


_SCHEMA = {
    # for each part of the document: the kind of value of each key in its rows; other keys are ignored
    "devices": {"name": DEVICE, "type": TEXT, "memory_limit": BYTES, "physical_device_desc": TEXT},
    "placements": {"node": TEXT, "op": TEXT, "device": DEVICE, "requested": TEXT},
    "transfers": {
        "tensor": TEXT,
        "src": DEVICE,
        "dst": DEVICE,
        "bytes": BYTES_OR_NONE,
        "send": TEXT,
        "send_op": TEXT,
        "recv": TEXT,
        "recv_op": TEXT,
    },
    "error": {"type": TEXT, "message": TEXT, "node": TEXT_OR_NONE, "location": TEXT_OR_NONE},
}


def read_baseline(data: bytes, name: str) -> Snapshot | None:
    """Parse a written report as a snapshot. Returns None if the text is something else.

    Raises GraphFileError for a damaged report.
    """
    document = read_document(data, _KEYS)
    if document is None:
        return None
    return baseline_snapshot(document, name)


def _check_listed(names: Set[str], placements: Sequence[Mapping[str, Any]], transfers: Sequence[TransferRow]) -> None:
    """Raise an error unless all devices of placements and transfers are among the report's devices."""
    used = [(f"placements[{i}].device", row["device"]) for i, row in enumerate(placements)]
    for i, row in enumerate(transfers):
        used += [(f"transfers[{i}].src", row.src), (f"transfers[{i}].dst", row.dst)]
    for at, name in used:
        if name not in names:
            raise refusal(at, name, "one of the report's devices")


def _origin(index: int, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a node's body, and the node that lowering replaced by it; both are empty for nodes that lowering did not make."""
    given = [row.get(key, "") for key in ("body", "lowered_from")]
    for key, value in zip(("body", "lowered_from"), given, strict=True):
        if not isinstance(value, str):
            raise refusal(f"placements[{index}].{key}", value, TEXT.expected)
    body, lowered_from = map(escape_line, given)
    return body, lowered_from


def _warnings(document: Mapping[str, Any]) -> tuple[str, ...]:
    texts = document.get("warnings", [])
    if not isinstance(texts, list):
        raise refusal("warnings", texts, "a list")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise refusal(f"warnings[{i}]", text, TEXT.expected)
    return tuple(map(escape_line, texts))


def baseline_snapshot(document: Mapping[str, Any], name: str) -> Snapshot:
    """Return the snapshot of a report's JSON object. Raises GraphFileError if a part is missing or has the wrong type."""
    try:
        devices = tuple(Device(**row) for row in checked_rows(document, "devices", _SCHEMA["devices"]))
        placements = checked_rows(document, "placements", _SCHEMA["placements"])
        rows = list(zip(placements, map(_origin, range(len(placements)), document["placements"]), strict=True))
        transfers = tuple(TransferRow(**row) for row in checked_rows(document, "transfers", _SCHEMA["transfers"]))
        _check_listed({device.name for device in devices}, placements, transfers)
        error = document.get("error")
        failure = None if error is None else ReportedError(**checked(error, _SCHEMA["error"], "error"))
        warnings = _warnings(document)
    except WrongPartError as problem:
        message = f"not a report from `place --format json`: {problem}"
        raise GraphFileError((Problem(Location(name, 1, 1), message),)) from None
    # a graph that grew was placed again: the last device of a node is valid
    nodes = {
        row["node"]: PlacedNode(row["node"], row["op"], row["device"], row["requested"], None, *beside) for row, beside in rows
    }
    return Snapshot(name, devices, tuple(nodes.values()), transfers, warnings, failure)
