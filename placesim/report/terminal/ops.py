"""The facts about an op for terminals: coloured, with each line wrapped beside its keyword."""

from __future__ import annotations

from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.inspection.op_facts import OpFacts
from placesim.ops.notation import format_signature
from placesim.report.terminal.console import make_console, printed_text
from placesim.report.text.ops import fact_lines

_STYLES = {"CPU": "cyan", "GPU": "green"}


def styled_facts(facts: OpFacts, stream: TextIO) -> str:
    """Return the text of `format_facts`, fitted to the width of the terminal."""
    console = make_console(stream)
    console.print(Text.assemble((facts.op.name, "bold"), format_signature(facts.op)))
    lines = Table.grid(padding=(0, 1))
    lines.add_column(style="dim")
    lines.add_column(overflow="fold")
    for line in fact_lines(facts):
        text = Text(line.text)
        name = line.text.partition(":")[0]
        text.stylize(_STYLES.get(name, "magenta") if line.keyword == "kernel" else "bold", 0, len(name))
        lines.add_row(f"  {line.keyword}", text if line.keyword in ("attr", "kernel") else line.text)
    console.print(lines)
    return printed_text(console)
