"""A study of memory -> what a person at a terminal sees: each device's curve, the largest holders, what it would take."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.escapes import escape_line
from placesim.inspection.memory_study import DeviceMemory, Holding, MemoryStudy, largest_holdings
from placesim.report.terminal_blocks import as_encoded, blocks_line
from placesim.report.terminal_console import console_into
from placesim.report.text.amounts import readable_size
from placesim.report.text.memory import device_labels, requirements

MAX_CURVE = 100
_STYLES = {"variable": "blue", "constant": "cyan", "step": "green", "scratch": "magenta"}


def styled_memory(study: MemoryStudy, stream: TextIO, top: int) -> str:
    """Each device by itself, then what it would take to fit."""
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    labels = device_labels(study)
    for device in study.devices:
        for part in _device(device, labels[device.usage.device], console.width, top):
            console.print(part, soft_wrap=isinstance(part, Text))
    for line in requirements(study):
        console.print(Text(escape_line(line)), soft_wrap=True)
    for device in study.devices:
        for line in device.dump:
            console.print(Text(escape_line(line)), soft_wrap=True)
    return as_encoded(buffer.getvalue(), stream)


def _device(device: DeviceMemory, label: str, width: int, top: int) -> Iterator[Text | Table]:
    usage, needed = device.usage, device.needed
    head = Text(label, "bold")
    if usage.limit is None:
        head.append(f"  no limit   peak {readable_size(needed.peak)}")
    else:
        share = f"{needed.peak / usage.limit:.1%}" if usage.limit else "-"
        head.append(f"  limit {readable_size(usage.limit)}   peak {readable_size(needed.peak)} ({share})   ")
        room = device.room or 0
        said = f"room left {readable_size(room)}" if room >= 0 else f"{readable_size(-room)} too much"
        head.append(said, "bold red" if room < 0 else "")
        if device.fragmentation is not None and not math.isnan(device.fragmentation):
            head.append(f"   fragmentation {device.fragmentation:.1%}")
    yield head
    yield Text(curve_line(needed.curve, min(width, MAX_CURVE)), "bold red" if (device.room or 0) < 0 else "green")
    yield Text(f"peak at {escape_line(needed.peak_node)}", "dim")
    holdings = largest_holdings(usage.holders, top)
    if holdings:
        yield _table(holdings, width)
    yield Text()


def curve_line(curve: Sequence[int], width: int) -> str:
    """One block for each part of the steps, as high as the most that was in use there; the highest is the peak."""
    most = max(curve, default=0)
    if not most:
        return ""
    cells = min(width, len(curve))
    parts = (
        curve[len(curve) * i // cells : max(len(curve) * (i + 1) // cells, len(curve) * i // cells + 1)] for i in range(cells)
    )
    return blocks_line([max(part) for part in parts], most)


def _table(holdings: Sequence[Holding], width: int) -> Table:
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    found.add_column("held by", no_wrap=True)
    found.add_column("whose", no_wrap=True, overflow="ellipsis", max_width=max(12, width - 74))
    found.add_column("number", justify="right", no_wrap=True)
    found.add_column("bytes", justify="right", no_wrap=True)
    found.add_column("since", no_wrap=True, overflow="ellipsis", max_width=20)
    found.add_column("until", no_wrap=True, overflow="ellipsis", max_width=20)
    for holding in holdings:
        found.add_row(
            Text(holding.kind, _STYLES[holding.kind]),
            Text(escape_line(holding.name) or "all"),
            f"{holding.number:,}",
            readable_size(holding.size),
            Text(escape_line(holding.since), "dim"),
            Text(escape_line(holding.until) or "stays", "dim"),
        )
    return found
