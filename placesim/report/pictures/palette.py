"""Colours for devices that the colour-blind can tell apart: Okabe and Ito's (jfly.uni-koeln.de/color), the first device grey.

With each a pattern, so that none stands by colour alone.  The pages have the same in `assets/looks.js`.
"""

from __future__ import annotations

FIRST = "#8D96A3"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#E69F00")
NOT_PLACED = "#FFFFFF"
PATTERNS = (
    "",
    '<path d="M-2 2 2-2M0 8 8 0M6 10 10 6"/>',
    '<circle cx="2" cy="2" r="1.1"/><circle cx="6" cy="6" r="1.1"/>',
    '<path d="M0 2H8M0 6H8"/>',
    '<path d="M-2 6 2 10M0 0 8 8M6-2 10 2"/>',
    '<path d="M2 0V8M6 0V8"/>',
    '<path d="M0 4H8M4 0V8"/>',
)
"""SVG shapes on a tile of 8 by 8; the first is plain."""


def device_colour(device: int) -> str:
    """The colour of a device by index; white for none."""
    if device < 0:
        return NOT_PLACED
    return COLOURS[(device - 1) % len(COLOURS)] if device else FIRST


def device_pattern(device: int) -> int:
    """The pattern of a device by index: no two of the first forty-three look alike."""
    if device < 0:
        return len(PATTERNS) - 1
    turn, colour = divmod(device - 1, len(COLOURS))
    return (colour + 2 * turn) % len(PATTERNS) if device else 0


def text_colour(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    return "#FFFFFF" if _is_dark(colour, 140) else "#000000"


def pattern_colour(colour: str) -> str:
    """Black or white, whichever a pattern is drawn with on a colour."""
    return "#FFFFFF" if _is_dark(colour, 150) else "#000000"


def _is_dark(colour: str, limit: int) -> bool:
    red, green, blue = _parts(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < limit  # ITU-R BT.601's luma


def mix_colours(colour: str, other: str, share: float) -> str:
    """`share` of one colour in another."""
    return "#" + "".join(
        f"{round(one * share + two * (1 - share)):02x}" for one, two in zip(_parts(colour), _parts(other), strict=True)
    )


def _parts(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue
