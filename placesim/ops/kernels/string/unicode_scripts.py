"""The script of every Unicode character, as ICU numbers scripts, from the table of ranges beside this file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources

import numpy as np

from placesim.ops.kernels.kernel import Tensor

UNKNOWN = 103
"""The script of a code point that no range has."""
LAST_CODE_POINT = 0x10FFFF
RANGES_FILE = "unicode-scripts-13.txt"


def script_ranges() -> Iterator[tuple[int, int, int]]:
    """Yield for every range the number of its script, and its first and last code point."""
    text = resources.files(__package__).joinpath(RANGES_FILE).read_text("utf-8")
    number = 0
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        ranges = line.split()
        if not line.startswith(" "):
            number, ranges = int(ranges[0]), ranges[2:]
        for ends in ranges:
            first, _, last = ends.partition("-")
            yield number, int(first, 16), int(last or first, 16)


@cache
def _table() -> Tensor:
    table = np.full(LAST_CODE_POINT + 1, UNKNOWN, np.int32)
    for number, first, last in script_ranges():
        table[first : last + 1] = number
    return table


def scripts_of(code_points: Tensor) -> Tensor:
    """Return the number of each code point's script, in any shape, in int32; -1 for an invalid code point."""
    inside = (code_points >= 0) & (code_points <= LAST_CODE_POINT)
    return np.where(inside, _table()[np.where(inside, code_points, 0)], np.int32(-1)).astype(np.int32)
