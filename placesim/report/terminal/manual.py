"""The manual's Markdown formatted for terminals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TextIO

from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from placesim.report.terminal.block_chart import encode_for
from placesim.report.terminal.console import make_console, printed_text

_FILLING = re.compile(r"(?:\x1b\[[0-9;]*m| )+$", re.MULTILINE)
"""Spaces with which Rich fills every line up to the width."""


def styled_page(text: str, stream: TextIO) -> str:
    """Return a page, or a part of one, wrapped between words to the width of the terminal."""
    return _rendered(Markdown(text, code_theme="ansi_dark", hyperlinks=False), stream)


def styled_topics(topics: Mapping[str, str], stream: TextIO) -> str:
    """Return a list of the pages by name and title."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column()
    for name, title in topics.items():
        grid.add_row(Text(name), Text(title))
    return _rendered(grid, stream)


def _rendered(page: Markdown | Table, stream: TextIO) -> str:
    console = make_console(stream)
    console.print(page)
    return encode_for(_FILLING.sub(lambda found: found[0].replace(" ", ""), printed_text(console)), stream)
