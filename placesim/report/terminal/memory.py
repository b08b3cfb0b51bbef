"""Memory study for terminals: curves of devices, the largest holders, and possible fixes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.core.escaping import escape, escape_line
from placesim.inspection.memory_requirements import DeviceMemory, Holding, MemoryStudy, largest_holdings
from placesim.report.palette import HOLDERS
from placesim.report.terminal.block_chart import blocks_line, encode_for
from placesim.report.terminal.console import (
    Column,
    facts_lines,
    fit_table,
    make_console,
    print_wrapped,
    printed_text,
    wrap_text,
)
from placesim.report.text.amounts import distinct_sizes, readable_size
from placesim.report.text.memory import device_labels, requirements

MAX_CURVE = 100


def styled_memory(study: MemoryStudy, stream: TextIO, top: int) -> str:
    """Return the text about each device, the fullest first, then ways to make the graph fit."""
    console = make_console(stream)
    labels = device_labels(study)
    for number, device in enumerate(study.by_fullness):
        if number:
            console.print()
        for part in _device(device, labels[device.usage.device], console.width, top):
            console.print(part)
    for number, sentence in enumerate(requirements(study)):
        if study.devices and not number:
            console.print()
        print_wrapped(console, Text(escape_line(sentence)), 2)
    for device in study.devices:
        for line in device.dump:
            console.print(Text(escape(line)), soft_wrap=True)
    return encode_for(printed_text(console), stream)


def _device(device: DeviceMemory, label: str, width: int, top: int) -> Iterator[Text | Table]:
    needed = device.needed
    first, *facts = _facts(device)
    yield from facts_lines([Text.assemble((label, "bold"), "  ", first), *facts], width)
    yield Text(curve_line(needed.curve, min(width, MAX_CURVE)), "bold red" if (device.room or 0) < 0 else "green")
    yield from wrap_text(Text(f"peak at {escape_line(needed.peak_node)}", "dim"), width, 2)
    yield from facts_lines([Text(f"{name} {readable_size(size)}") for name, size in device.categories.items() if size], width)
    holdings = largest_holdings(needed.holders, top)
    if holdings:
        yield _table(holdings, width)


def _facts(device: DeviceMemory) -> Iterator[Text]:
    usage = device.usage
    if usage.limit is None:
        yield Text("no limit")
        yield Text(f"peak {readable_size(device.needed.peak)}")
        return
    room = device.room or 0
    limit, peak, most = distinct_sizes(usage.limit, device.needed.peak, device.most or device.needed.peak)
    yield Text(f"limit {limit}")
    yield Text(f"peak {peak} ({device.needed.peak / usage.limit:.1%})" if usage.limit else f"peak {peak}")
    if device.most is not None:
        yield Text(f"up to {most} with cuDNN workspaces")
    yield Text(f"room left {readable_size(room)}") if room >= 0 else Text(f"{readable_size(-room)} over", "bold red")
    if device.fragmentation is not None and not math.isnan(device.fragmentation):
        yield Text(f"fragmentation {device.fragmentation:.1%}")


def curve_line(curve: Sequence[int], width: int) -> str:
    """Return one block per part of the steps, as high as the part's peak; the device's peak has full height."""
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
    columns = (
        Column("held by"),
        Column("owner", is_name=True),
        Column("number", is_number=True),
        Column("bytes", is_number=True),
        Column("since", is_name=True, missed=1),
        Column("until", is_name=True, missed=2),
    )
    styled = [
        [Text(cell, HOLDERS[row[0]].terminal if not i else "dim" if columns[i].missed else "") for i, cell in enumerate(row)]
        for row in rows
    ]
    return fit_table(columns, styled, width)
