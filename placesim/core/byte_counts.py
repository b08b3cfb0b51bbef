"""Byte counts in the format of TensorFlow's log."""

from __future__ import annotations

_UNITS = "KMGTPE"


def human_readable_bytes(count: int) -> str:
    """Format a byte count as `512B`, `1.5KiB` or `11.17GiB`: factors of 1,024, one decimal for KiB, two from MiB on (10.4.8).

    Like `strings::HumanReadableNumBytes`, it takes a signed 64-bit integer, and drops the remainder of every division but the
    last.
    """
    count = (count + (1 << 63)) % (1 << 64) - (1 << 63)
    if count == -(1 << 63):
        return "-8E"
    sign, count = ("-", -count) if count < 0 else ("", count)
    if count < 1024:
        return f"{sign}{count}B"
    unit = 0
    while count >= 1 << 20:
        count >>= 10
        unit += 1
    return f"{sign}{count / 1024:.{2 if unit else 1}f}{_UNITS[unit]}iB"
