"""Amounts as text: bytes exact for programs, with units for people; `+` means that some sizes are unknown."""

from __future__ import annotations

from placesim.inspection.byte_amounts import Amount
from placesim.inspection.byte_amounts import readable_seconds as readable_seconds

_OPERATIONS = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def plain_bytes(amount: Amount) -> str:
    """Return exact bytes, such as `1536`; `1536+` if some sizes are unknown."""
    return _open_ended(f"{amount.bytes}", amount)


def readable_bytes(amount: Amount) -> str:
    """Return bytes with a unit, such as `1.5 KiB`; `1.5 KiB+` if some sizes are unknown."""
    return _open_ended(readable_size(amount.bytes), amount)


def _open_ended(shown: str, amount: Amount) -> str:
    return f"{shown}+" if amount.unknown else shown


def readable_count(count: int, noun: str) -> str:
    """Return a count with its noun: `1 node`, `2,000 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def readable_operations(count: int) -> str:
    """Return a count of floating-point operations with a unit: 1500000 becomes `1.5 MFLOP`."""
    factor, unit = next((step for step in _OPERATIONS if count >= step[0]), (1, ""))
    return f"{count / factor:.3g} {unit}FLOP"


def distinct_sizes(*sizes: int) -> tuple[str, ...]:
    """Return sizes with units, with the fewest decimals that distinguish all sizes, at most 6."""
    for decimals in range(7):
        shown = tuple(readable_size(size, decimals) for size in sizes)
        if len(set(shown)) >= len(set(sizes)):
            break
    return shown


def readable_size(size: int, decimals: int = 0) -> str:
    """Return a size with a unit: 1536 becomes `1.5 KiB`. It has at least `decimals` decimals, unless the unit is bytes."""
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    least = 0 if unit == "B" else max(decimals, 1 if value < 9.95 else 0)
    shown = f"{value:.{least}f}"
    return f"{shown} {unit}"
