"""The colours of pictures, pages and the terminal. Each device also has a pattern, so that its colour is not the only sign.

Device colours are Okabe and Ito's (jfly.uni-koeln.de/color), which people with colour blindness can tell apart; the first
device is grey.
"""

from __future__ import annotations

from typing import NamedTuple


class Hue(NamedTuple):
    """A colour for pictures and pages, and the nearest terminal colour."""

    code: str
    terminal: str


GREY = Hue("#8D96A3", "bright_black")
BLUE, GREEN, PURPLE, SKY, YELLOW, ORANGE = HUES = (
    Hue("#0072B2", "blue"),
    Hue("#009E73", "green"),
    Hue("#CC79A7", "magenta"),
    Hue("#56B4E9", "cyan"),
    Hue("#F0E442", "yellow"),
    Hue("#E69F00", "red"),
)
NOT_PLACED = "#FFFFFF"
HOLDERS = {"variable": BLUE, "constant": SKY, "step": GREEN, "scratch": PURPLE}
"""Colours of the kinds of memory."""
CATEGORIES = {"parameters": BLUE, "optimizer": SKY, "activations": GREEN, "gradients": ORANGE, "temporaries": PURPLE}
"""Colours of the categories of memory."""
PAGE = {
    "ground": ("#f6f7f9", "#14171c"),
    "surface": ("#ffffff", "#1b1f26"),
    "raised": ("#ffffff", "#232831"),
    "line": ("#d9dde3", "#363d49"),
    "text": ("#1b1f27", "#e8ebf0"),
    "soft": ("#5b6472", "#a0a9b8"),
    "link": ("#5f6b7a", "#8a95a6"),
    "copy": ("#b54800", "#ff8a3d"),
    "accent": ("#0a5fd0", "#7db4ff"),
    "wash": ("#eef2f8", "#262d39"),
    "warn": ("#fdebe0", "#43291a"),
}
"""Page colours by CSS variable, each for light and dark mode."""
LIGHT = {name: light for name, (light, _) in PAGE.items()}
PATTERNS = (
    "",
    '<path d="M-2 2 2-2M0 8 8 0M6 10 10 6"/>',
    '<circle cx="2" cy="2" r="1.1"/><circle cx="6" cy="6" r="1.1"/>',
    '<path d="M0 2H8M0 6H8"/>',
    '<path d="M-2 6 2 10M0 0 8 8M6-2 10 2"/>',
    '<path d="M2 0V8M6 0V8"/>',
    '<path d="M0 4H8M4 0V8"/>',
)
"""SVG shapes of the patterns, on a tile of 8 by 8; the first is plain."""


def device_colour(device: int) -> str:
    """Return the colour of a device by index; white for -1, which means not placed."""
    if device < 0:
        return NOT_PLACED
    return HUES[(device - 1) % len(HUES)].code if device else GREY.code


def device_pattern(device: int) -> int:
    """Return the pattern of a device by index: the first forty-three pairs of colour and pattern differ."""
    if device < 0:
        return len(PATTERNS) - 1
    turn, hue = divmod(device - 1, len(HUES))
    return (hue + 2 * turn) % len(PATTERNS) if device else 0


def terminal_colour(device: int) -> str:
    """Return the terminal colour of a device by index."""
    return (GREY, *HUES)[device % (len(HUES) + 1)].terminal


def text_colour(colour: str, darkest: int = 140) -> str:
    """Return the colour of text on a colour: black if the colour's luma (ITU-R BT.601) is at least `darkest`, else white."""
    red, green, blue = _parts(colour)
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < darkest else "#000000"


def pattern_colour(colour: str) -> str:
    """Return the colour of a pattern on a colour."""
    return text_colour(colour, 150)


def mix_colours(colour: str, other: str, share: float) -> str:
    """Mix two colours; `share` is the share of the first colour."""
    return "#" + "".join(
        f"{round(one * share + two * (1 - share)):02x}" for one, two in zip(_parts(colour), _parts(other), strict=True)
    )


def _parts(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue
