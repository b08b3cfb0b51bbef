"""Explanations, findings and differences as a person at a terminal sees them: the same text, with what matters in colour."""

from __future__ import annotations

import io
from typing import TextIO

from rich.text import Text

from placesim.report.terminal import MAX_STYLED_LINES
from placesim.report.terminal_console import console_into

_STYLES = (
    (r"^\S.*?: \([^)]*\):", "bold"),
    (r"^(?:--- .*|- .*|gone: .*)$", "red"),
    (r"^(?:\+\+\+ .*|\+ .*|new: .*)$", "green"),
    (r"^\w+Error:", "bold red"),
    (r"^(?:moved|transfers):", "bold"),
    (r"^  what would .*$", "bold"),
    (r"^  [a-z]+(?: [a-z]+)?(?=  )", "dim"),
    (r"(?<=:\d: )[a-z-]+(?=: )|(?<=:\d\d: )[a-z-]+(?=: )", "bold red"),
    (r"\S+:\d+:\d+(?=:| |\)|$)", "blue"),
    (r"GPU:\d+", "green"),
    (r"CPU:\d+", "cyan"),
)
"""Patterns of a line with their styles; a later one goes over an earlier."""


def styled_inspection(text: str, stream: TextIO) -> str:
    """The text in colour; one of very many lines as it is."""
    lines = text.splitlines()
    if len(lines) > MAX_STYLED_LINES:
        return text
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    for line in lines:
        styled = Text(line)
        for pattern, style in _STYLES:
            styled.highlight_regex(pattern, style)
        console.print(styled, soft_wrap=True)
    return buffer.getvalue()
