"""Numbers as a line of block characters, each as high as its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

BLOCKS = " ▁▂▃▄▅▆▇█"
SHADES = " ░▒▓"
_ASCII = str.maketrans("▁▂▃▄▅▆▇█░▒▓▚▞▤·…\N{NO-BREAK SPACE}•─━═│┃►◄▲▼→", "__.--=##:%@x/=.~ *--=||><^v>")
"""ASCII substitutes for terminals that cannot show other characters."""


def blocks_line(values: Sequence[float], most: float) -> str:
    """Return one block per number, with full height for `most`; any number above 0 is visible."""
    return "".join(BLOCKS[min(len(BLOCKS) - 1, -int(-value * (len(BLOCKS) - 1) // most))] for value in values)


def shades_line(shares: Sequence[float]) -> str:
    """Return one shade per share, darkest for 1; any share above 0 is visible."""
    return "".join(SHADES[min(len(SHADES) - 1, -int(-share * (len(SHADES) - 1) // 1))] for share in shares)


def encode_for(text: str, stream: TextIO) -> str:
    """Return the text, with ASCII substitutes unless the stream's encoding is UTF-8."""
    return text if (stream.encoding or "").lower().startswith("utf") else text.translate(_ASCII)
