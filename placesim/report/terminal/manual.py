"""The manual's Markdown formatted for terminals."""

from __future__ import annotations

import re
from typing import TextIO

from rich.markdown import Markdown

from placesim.report.terminal.block_chart import encode_for
from placesim.report.terminal.console import make_console, printed_text

_FILLING = re.compile(r"(?:\x1b\[[0-9;]*m| )+$", re.MULTILINE)
"""Spaces with which Rich fills every line up to the width."""


def styled_page(text: str, stream: TextIO) -> str:
    """Return a page, or a part of one, wrapped between words to the width of the terminal."""
    console = make_console(stream)
    console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
    return encode_for(_FILLING.sub(lambda found: found[0].replace(" ", ""), printed_text(console)), stream)
