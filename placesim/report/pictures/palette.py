"""Colours for devices that the colour-blind can tell apart: Okabe and Ito's (jfly.uni-koeln.de/color), the first device grey.

The page has the same in `assets/looks.js`, with patterns beside them.
"""

from __future__ import annotations

FIRST = "#8D96A3"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#E69F00")
NOT_PLACED = "#FFFFFF"


def device_colour(device: int) -> str:
    """The colour of a device by index; white for none."""
    if device < 0:
        return NOT_PLACED
    return COLOURS[(device - 1) % len(COLOURS)] if device else FIRST


def text_colour(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour (ITU-R BT.601's luma)."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "#000000"
