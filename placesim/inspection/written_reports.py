"""Reader of the JSON output of commands, which checks each part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from placesim.core.escaping import escape_line
from placesim.machine.device_names import parse_runtime_name

_MOST_SHOWN = 60
_MOST = 1e300
"""Largest number accepted, so that sums stay finite."""


def read_document(data: bytes, keys: Sequence[str]) -> dict[str, Any] | None:
    """Parse a JSON object that has all these keys. Returns None if the text is something else.

    Texts without the first key are not parsed.
    """
    if data.lstrip()[:1] != b"{" or f'"{keys[0]}"'.encode() not in data:
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and all(key in document for key in keys) else None


class PartKind(NamedTuple):
    """The kind of a part's value: a test, and the name of valid values in messages."""

    expected: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_device(value: Any) -> bool:
    spec = parse_runtime_name(value) if isinstance(value, str) else None
    return spec is not None and None not in spec


TEXT = PartKind("text", lambda value: isinstance(value, str))
TEXT_OR_NONE = PartKind("string or null", lambda value: value is None or isinstance(value, str))
BYTES = PartKind("a number of bytes", _is_number)
BYTES_OR_NONE = PartKind("a number of bytes or null", lambda value: value is None or _is_number(value))
SECONDS = PartKind("a number of seconds", _is_amount)
AMOUNT = PartKind("a number from 0", _is_amount)
DEVICE = PartKind("a full device name", _is_device)
Kinds = Mapping[str, PartKind]


class WrongPartError(Exception):
    """An error in a document, with its position."""


def refusal(at: str, value: Any, expected: str) -> WrongPartError:
    """Return the error for a part of the wrong type."""
    given = json.dumps(value)
    shown = given if len(given) <= _MOST_SHOWN else given[:_MOST_SHOWN] + "..."
    return WrongPartError(f"{at}: got {shown}, expected {expected}")


def checked(row: Any, kinds: Kinds, at: str) -> dict[str, Any]:
    """Return the values of a row by key, each checked. Raises WrongPartError.

    Texts are escaped so that they can be printed; only `message` may have several lines.
    """
    if not isinstance(row, dict):
        raise refusal(at, row, "a mapping")
    read = {}
    for key, kind in kinds.items():
        place = f"{at}.{key}" if at else key
        if key not in row:
            raise WrongPartError(f"{at or 'the object'}: got no key '{key}', expected {kind.expected}")
        value = row[key]
        if not kind.holds(value):
            raise refusal(place, value, kind.expected)
        read[key] = escape_line(value) if isinstance(value, str) and key != "message" else value
    return read


def checked_rows(document: Mapping[str, Any], part: str, kinds: Kinds) -> list[dict[str, Any]]:
    """Check the rows of a part that must be a list, and return them. Raises WrongPartError for a wrong part or row."""
    rows = document.get(part)
    if not isinstance(rows, list):
        raise refusal(part, rows, "a list")
    return [checked(row, kinds, f"{part}[{i}]") for i, row in enumerate(rows)]
