"""Byte counts as text: exact for programs, with units for people; `+` means that some sizes are unknown."""

from __future__ import annotations

from placesim.inspection.byte_amounts import Amount
from placesim.inspection.byte_amounts import readable_seconds as readable_seconds

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def plain_bytes(amount: Amount) -> str:
    """Return exact bytes, such as `1536`; `1536+` if some sizes are unknown."""
    return _open_ended(f"{amount.bytes}", amount)


def readable_bytes(amount: Amount) -> str:
    """Return bytes with a unit, such as `1.5 KiB`; `1.5 KiB+` if some sizes are unknown."""
    return _open_ended(readable_size(amount.bytes), amount)


def _open_ended(shown: str, amount: Amount) -> str:
    return f"{shown}+" if amount.unknown else shown


def readable_size(size: int) -> str:
    """Return a size with a unit: 1536 becomes `1.5 KiB`."""
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    shown = f"{value:.1f}" if unit != "B" and value < 9.95 else f"{value:.0f}"
    return f"{shown} {unit}"
