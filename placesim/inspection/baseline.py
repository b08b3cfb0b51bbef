"""What `place --format json` or `run --format json` wrote -> a snapshot, so that a placement can be kept beside a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from placesim.devices.inventory import Device
from placesim.errors import GraphFileError, Location, Problem
from placesim.escapes import escape_line
from placesim.inspection.snapshot import Failure, PlacedNode, Snapshot
from placesim.runtime.outcome import TransferRow

_KEYS = ("devices", "placements", "transfers", "error")
_NODE_KEYS = ("node", "op", "device", "requested")


def read_baseline(data: bytes, name: str) -> Snapshot | None:
    """The snapshot of a written report; None where the text is something else.

    Raises GraphFileError for a report that is damaged.
    """
    if data.lstrip()[:1] != b"{" or b'"placements"' not in data:
        return None
    try:
        document = json.loads(data)
    except ValueError:
        return None
    if not isinstance(document, dict) or not all(key in document for key in _KEYS):
        return None
    return baseline_snapshot(document, name)


def _node(row: Mapping[str, Any]) -> PlacedNode:
    name, op, device, requested = (escape_line(str(row[key])) for key in _NODE_KEYS)
    return PlacedNode(name, op, device, requested)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose texts may be shown; `message` may have lines."""
    return {key: escape_line(value) if isinstance(value, str) and key != "message" else value for key, value in row.items()}


def baseline_snapshot(document: Mapping[str, Any], name: str) -> Snapshot:
    """A report's JSON object as a snapshot; GraphFileError where a part of it is missing or of the wrong type."""
    try:
        devices = tuple(Device(**_shown(row)) for row in document["devices"])
        rows = {row["node"]: _node(row) for row in document["placements"]}
        transfers = tuple(TransferRow(**_shown(row)) for row in document["transfers"])
        error = None if document["error"] is None else Failure(**_shown(document["error"]))
        warnings = tuple(escape_line(str(text)) for text in document.get("warnings", ()))
    except (KeyError, TypeError, AttributeError) as problem:
        message = f"not a report as `place --format json` writes it: got {problem}, expected its keys"
        raise GraphFileError((Problem(Location(name, 1, 1), message),)) from None
    return Snapshot(name, devices, tuple(rows.values()), transfers, warnings, error)
