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
from placesim.report.terminal_console import console_into, facts_lines, shared_widths
from placesim.report.text.amounts import readable_size
from placesim.report.text.memory import device_labels, requirements

MAX_CURVE = 100
MIN_NAME = 17
"""With less room for each name, since when and until when are left out."""
_STYLES = {"variable": "blue", "constant": "cyan", "step": "green", "scratch": "magenta"}


def styled_memory(study: MemoryStudy, stream: TextIO, top: int) -> str:
    """Each device by itself, then what it would take to fit."""
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    labels = device_labels(study)
    for device in study.devices:
        for part in _device(device, labels[device.usage.device], console.width, top):
            console.print(part)
    for line in requirements(study):
        console.print(Text(escape_line(line)))
    for device in study.devices:
        for line in device.dump:
            console.print(Text(escape_line(line)), soft_wrap=True)
    return as_encoded(buffer.getvalue(), stream)


def _device(device: DeviceMemory, label: str, width: int, top: int) -> Iterator[Text | Table]:
    usage, needed = device.usage, device.needed
    first, *facts = _facts(device)
    yield from facts_lines([Text.assemble((label, "bold"), "  ", first), *facts], width)
    yield Text(curve_line(needed.curve, min(width, MAX_CURVE)), "bold red" if (device.room or 0) < 0 else "green")
    yield Text(f"peak at {escape_line(needed.peak_node)}", "dim", overflow="fold")
    holdings = largest_holdings(usage.holders, top)
    if holdings:
        yield _table(holdings, width)
    yield Text()


def _facts(device: DeviceMemory) -> Iterator[Text]:
    usage, peak = device.usage, readable_size(device.needed.peak)
    if usage.limit is None:
        yield Text("no limit")
        yield Text(f"peak {peak}")
        return
    room = device.room or 0
    yield Text(f"limit {readable_size(usage.limit)}")
    yield Text(f"peak {peak} ({device.needed.peak / usage.limit:.1%})" if usage.limit else f"peak {peak}")
    yield Text(f"room left {readable_size(room)}") if room >= 0 else Text(f"{readable_size(-room)} too much", "bold red")
    if device.fragmentation is not None and not math.isnan(device.fragmentation):
        yield Text(f"fragmentation {device.fragmentation:.1%}")


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
    rows = [
        (
            holding.kind,
            escape_line(holding.name) or "all",
            f"{holding.number:,}",
            readable_size(holding.size),
            escape_line(holding.since),
            escape_line(holding.until) or "stays",
        )
        for holding in holdings
    ]
    heads = ("held by", "whose", "number", "bytes", "since", "until")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    numbers, names = [0, 2, 3], [1, 4, 5]
    room = width - sum(widths[i] for i in numbers)
    for left_out in (4, 5):
        fitted = shared_widths([widths[i] for i in names], room - 2 * (len(numbers) + len(names)))
        if all(got == widths[i] or got >= MIN_NAME for got, i in zip(fitted, names, strict=True)):
            break
        names.remove(left_out)
    else:
        fitted = [max(4, min(widths[1], room - 2 * (len(numbers) + 1)))]
    shown = dict(zip(numbers, (widths[i] for i in numbers), strict=True)) | dict(zip(names, fitted, strict=True))
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for i in sorted(shown):
        found.add_column(
            heads[i], width=shown[i], justify="right" if i in (2, 3) else "left", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        found.add_row(*(Text(row[i], _STYLES[row[0]] if i == 0 else "dim" if i > 3 else "") for i in sorted(shown)))
    return found
