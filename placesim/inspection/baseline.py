"""What `place --format json` or `run --format json` wrote -> a snapshot, so that a placement can be kept beside a graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from placesim.devices.inventory import Device
from placesim.devices.names import parse_runtime_name
from placesim.errors import GraphFileError, Location, Problem
from placesim.escapes import escape_line
from placesim.inspection.snapshot import Failure, PlacedNode, Snapshot
from placesim.runtime.outcome import TransferRow

_KEYS = ("devices", "placements", "transfers", "error")


class _Kind(NamedTuple):
    """What a part of a report may be, and how that is said."""

    expected: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_device(value: Any) -> bool:
    spec = parse_runtime_name(value) if isinstance(value, str) else None
    return spec is not None and None not in spec


_TEXT = _Kind("text", lambda value: isinstance(value, str))
_TEXT_OR_NONE = _Kind("text or null", lambda value: value is None or isinstance(value, str))
_BYTES = _Kind("a number of bytes", _is_number)
_BYTES_OR_NONE = _Kind("a number of bytes or null", lambda value: value is None or _is_number(value))
_DEVICE = _Kind("a full device name", _is_device)
_SCHEMA = {
    # part, the kinds of a row's keys; keys that are not read are not looked at
    "devices": {"name": _DEVICE, "type": _TEXT, "memory_limit": _BYTES, "physical_device_desc": _TEXT},
    "placements": {"node": _TEXT, "op": _TEXT, "device": _DEVICE, "requested": _TEXT},
    "transfers": {
        "tensor": _TEXT,
        "src": _DEVICE,
        "dst": _DEVICE,
        "bytes": _BYTES_OR_NONE,
        "send": _TEXT,
        "send_op": _TEXT,
        "recv": _TEXT,
        "recv_op": _TEXT,
    },
    "error": {"type": _TEXT, "message": _TEXT, "node": _TEXT_OR_NONE, "location": _TEXT_OR_NONE},
}
_MOST_SHOWN = 60


def read_baseline(data: bytes, name: str) -> Snapshot | None:
    """The snapshot of a written report; None where the text is something else.

    Raises GraphFileError for a report that is damaged.
    """
    if data.lstrip()[:1] != b"{" or b'"placements"' not in data:
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not all(key in document for key in _KEYS):
        return None
    return baseline_snapshot(document, name)


class _Wrong(Exception):
    """What is wrong with a report, and where in it."""


def _refuse(at: str, value: Any, expected: str) -> _Wrong:
    given = json.dumps(value)
    shown = given if len(given) <= _MOST_SHOWN else given[:_MOST_SHOWN] + "..."
    return _Wrong(f"{at}: got {shown}, expected {expected}")


def _checked(row: Any, part: str, at: str) -> dict[str, Any]:
    """The keys of a row that are read, each of its kind; their texts may be shown, and `message` may have lines."""
    if not isinstance(row, dict):
        raise _refuse(at, row, "a mapping")
    read = {}
    for key, kind in _SCHEMA[part].items():
        if key not in row:
            raise _Wrong(f"{at}: got no key '{key}', expected {kind.expected}")
        value = row[key]
        if not kind.holds(value):
            raise _refuse(f"{at}.{key}", value, kind.expected)
        read[key] = escape_line(value) if isinstance(value, str) and key != "message" else value
    return read


def _rows(document: Mapping[str, Any], part: str) -> list[dict[str, Any]]:
    rows = document.get(part)
    if not isinstance(rows, list):
        raise _refuse(part, rows, "a list")
    return [_checked(row, part, f"{part}[{i}]") for i, row in enumerate(rows)]


def _check_listed(names: Set[str], placements: Sequence[Mapping[str, Any]], transfers: Sequence[TransferRow]) -> None:
    """Every device that something is on, or goes between, is one of the report's."""
    used = [(f"placements[{i}].device", row["device"]) for i, row in enumerate(placements)]
    for i, row in enumerate(transfers):
        used += [(f"transfers[{i}].src", row.src), (f"transfers[{i}].dst", row.dst)]
    for at, name in used:
        if name not in names:
            raise _refuse(at, name, "one of the report's devices")


def _warnings(document: Mapping[str, Any]) -> tuple[str, ...]:
    texts = document.get("warnings", [])
    if not isinstance(texts, list):
        raise _refuse("warnings", texts, "a list")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise _refuse(f"warnings[{i}]", text, _TEXT.expected)
    return tuple(map(escape_line, texts))


def baseline_snapshot(document: Mapping[str, Any], name: str) -> Snapshot:
    """A report's JSON object as a snapshot; GraphFileError where a part of it is missing or of the wrong type."""
    try:
        devices = tuple(Device(**row) for row in _rows(document, "devices"))
        placements = _rows(document, "placements")
        transfers = tuple(TransferRow(**row) for row in _rows(document, "transfers"))
        _check_listed({device.name for device in devices}, placements, transfers)
        error = document.get("error")
        failure = None if error is None else Failure(**_checked(error, "error", "error"))
        warnings = _warnings(document)
    except _Wrong as problem:
        message = f"not a report as `place --format json` writes it: {problem}"
        raise GraphFileError((Problem(Location(name, 1, 1), message),)) from None
    # a graph that grew was placed again: what came last holds
    nodes = {row["node"]: PlacedNode(row["node"], row["op"], row["device"], row["requested"]) for row in placements}
    return Snapshot(name, devices, tuple(nodes.values()), transfers, warnings, failure)
