"""A picture for terminals: the tree of name scopes with bars of devices, and the matrix of transferred bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.core.escaping import escape_line
from placesim.inspection.byte_amounts import Amount, merge_amounts, sum_amounts
from placesim.inspection.picturing.picture import Picture, PictureNode
from placesim.inspection.picturing.scopes import Scope
from placesim.report.palette import terminal_colour
from placesim.report.terminal.block_chart import encode_for
from placesim.report.terminal.console import facts_lines, make_console, printed_text, shared_widths
from placesim.report.text.amounts import readable_bytes, readable_size
from placesim.report.text.scopes import Row, device_labels, folded_rows

MIN_ROWS = 6
BAR_CELLS = 24
INDENT = "  "
WIDE = 100
"""Terminal width, in columns, from which bars have their full length."""
MIN_PAIRS = 3
"""Minimum rows of the list that replaces a matrix too wide for the terminal.

The list has the pairs with the most bytes and fills a third of the height.
"""
MIN_MATRIX = 6
"""Maximum number of devices for which the matrix is shown at any terminal height."""
_CORNER = "copied from \\ to"
_CELLS = ("█", "▓", "▒", "▚", "░", "▞", "▤")
"""Characters of bars; they differ by device, so that bars can be read without colour."""


def styled_tree(picture: Picture, stream: TextIO, depth: int | None = None) -> str:
    """Return tree, legend and matrix, folded to the height of the terminal unless a depth is given.

    One line is left for the prompt.
    """
    labels = device_labels(picture)
    height = shutil.get_terminal_size().lines
    width = make_console(stream).width
    legend = [Text(), *_legend(picture, labels, width)] if picture.nodes else []
    below = _printed(stream, [*legend, Text(), *_copied(picture, labels, width, height)])
    below += _printed(stream, _memory(picture, labels, width))
    rows = folded_rows(picture, max(MIN_ROWS, height - below.count("\n") - 2), depth)
    text = _printed(stream, [_tree(picture, rows, labels, width)]) + below
    return encode_for(text, stream)


def _printed(stream: TextIO, parts: Iterable[Table | Text]) -> str:
    console = make_console(stream)
    for part in parts:
        console.print(part)
    return printed_text(console)


def _tree(picture: Picture, rows: Sequence[Row], labels: dict[int, str], width: int) -> Table:
    cells = BAR_CELLS if width >= WIDE else BAR_CELLS // 2
    lines = [
        _node_line(row, picture.nodes[row.item], labels)
        if isinstance(row.item, int)
        else _scope_line(row, row.item, labels, cells)
        for row in rows
    ]
    heads = ("scope", "nodes", "bytes", "devices")
    widths = [max(len(head), *(len(line[i]) for line in lines)) for i, head in enumerate(heads)]
    widths[0] = min(widths[0], max(16, width - widths[1] - widths[2] - cells - 20))
    widths[3] = min(widths[3], max(cells, width - sum(widths[:3]) - 6))
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for i, head in enumerate(heads):
        found.add_column(head, width=widths[i], justify="right" if i in (1, 2) else "left", no_wrap=True, overflow="ellipsis")
    for line in lines:
        found.add_row(*line)
    return found


def _scope_line(row: Row, item: Scope | tuple[Scope, ...], labels: dict[int, str], cells: int) -> tuple[Text, ...]:
    scopes = item if isinstance(item, tuple) else (item,)
    by_device = merge_amounts(scope.by_device for scope in scopes)
    total = sum_amounts(by_device.values())
    size = readable_bytes(total) if total.unknown < total.number else ""
    if isinstance(item, tuple):
        name = Text(f"{INDENT * (row.level - 1)}{len(scopes):,} more", "dim")
    else:
        style = "bold" if not row.level else "italic" if item.is_folded else ""
        name = Text(f"{INDENT * (row.level - 1)}{item.label or 'all nodes'}", style)
    if row.is_closed:
        name.append(f"  +{sum(len(scope.scopes) for scope in scopes)}", "dim")
    return name, Text(f"{total.number:,}"), Text(size), _bar(by_device, cells) + _shares(by_device, labels)


def _node_line(row: Row, node: PictureNode, labels: dict[int, str]) -> tuple[Text, ...]:
    name = Text(f"{INDENT * (row.level - 1)}{node.name.rpartition('/')[2]} ").append(escape_line(node.op), "dim")
    size = "" if node.bytes is None else readable_size(node.bytes)
    device = Text(_cell(node.device) * 2, _style(node.device)).append(f" {labels[node.device]}", "default")
    return name, Text(), Text(size), device


def _bar(by_device: Mapping[int, Amount], width: int) -> Text:
    """Return a bar with cells for each device in proportion to its nodes."""
    bar = Text()
    whole, done, cells = sum(amount.number for amount in by_device.values()), 0, 0
    for device, amount in by_device.items():
        done += amount.number
        until = round(done * width / whole)
        bar.append(_cell(device) * (until - cells), _style(device))
        cells = until
    return bar.append(" ")


def _shares(by_device: Mapping[int, Amount], labels: dict[int, str]) -> Text:
    if len(by_device) == 1:
        return Text(labels[next(iter(by_device))])
    return Text(", ".join(f"{labels[device]} {amount.number:,}" for device, amount in by_device.items()), "dim")


def _style(device: int) -> str:
    return "bold red" if device < 0 else terminal_colour(device)


def _cell(device: int) -> str:
    return "·" if device < 0 else _CELLS[device % len(_CELLS)]


def _legend(picture: Picture, labels: dict[int, str], width: int) -> Iterator[Text]:
    devices = dict.fromkeys(node.device for node in sorted(picture.nodes, key=lambda node: node.device))
    return facts_lines(
        [Text(_cell(device) * 2, _style(device)).append(f" {labels[device]}", "default") for device in devices], width
    )


# --- memory ---------------------------------------------------------------------------------------------------------


def _memory(picture: Picture, labels: dict[int, str], width: int) -> list[Table | Text]:
    """Return the peak of each device, or the reason why it is unknown; nothing if memory was not requested."""
    if not picture.memory:
        return [Text(), Text(picture.memory_note, "dim")] if picture.memory_note else []
    indices = {name: index for index, name in enumerate(picture.devices)}
    heads = ("memory", "peak", "of limit", "at")
    rows = []
    for usage in picture.memory:
        limit = "no limit" if not usage.limit else f"{usage.peak / usage.limit:.1%} of {readable_size(usage.limit)}"
        rows.append((labels[indices[usage.device]], readable_size(usage.peak), limit, escape_line(usage.peak_node)))
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for i, (head, room) in enumerate(zip(heads, shared_widths(widths, width - 3 * len(heads)), strict=True)):
        found.add_column(head, width=room, justify="right" if i in (1, 2) else "left", no_wrap=True, overflow="ellipsis")
    for usage, (label, peak, limit, node) in zip(picture.memory, rows, strict=True):
        style = "" if usage.room is None or usage.room >= 0 else "bold red"
        found.add_row(Text(label, _style(indices[usage.device])), Text(peak, style), Text(limit, style), Text(node, "dim"))
    return [Text(), found]


# --- what is copied -------------------------------------------------------------------------------------------------


def _copied(picture: Picture, labels: dict[int, str], width: int, height: int) -> Iterator[Table | Text]:
    """Yield the matrix of transfers, and a sentence for each other kind of copy."""
    yield _matrix(picture, labels, width, max(MIN_PAIRS, height // 3))
    host, signals = picture.asides
    if host:
        listed = ", ".join(f"{labels[device]} {readable_bytes(total)} ({total.number:,})" for device, total in host.items())
        yield Text(f"between device memory and host memory: {listed}", "dim")
    if signals:
        listed = ", ".join(f"{labels[src]} to {labels[dst]} ({count:,})" for (src, dst), count in signals.items())
        yield Text(f"control edges (no bytes): {listed}", "dim")


def _matrix(picture: Picture, labels: dict[int, str], width: int, max_pairs: int) -> Table:
    totals = picture.matrix()
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    if not totals:
        found.add_column("no transfers between devices")
        return found
    devices = sorted({device for pair in totals for device in pair})
    rows = [[_matrix_cell(totals.get((src, dst))) for dst in devices] for src in devices]
    is_too_wide = sum(3 + max(map(len, column)) for column in zip(*rows, strict=True)) + len(_CORNER) > width
    if is_too_wide or len(rows) > max(max_pairs, MIN_MATRIX):
        return _pairs(found, totals, labels, max_pairs)
    found.add_column(_CORNER, no_wrap=True)
    for device in devices:
        found.add_column(labels[device], justify="right", no_wrap=True)
    for src, cells in zip(devices, rows, strict=True):
        found.add_row(Text(labels[src], _style(src)), *cells)
    return found


def _pairs(found: Table, totals: Mapping[tuple[int, int], Amount], labels: dict[int, str], limit: int) -> Table:
    for title in ("copied from", "to"):
        found.add_column(title, no_wrap=True)
    for title in ("tensors", "bytes"):
        found.add_column(title, justify="right", no_wrap=True)
    by_size = sorted(totals.items(), key=lambda item: -item[1].bytes)
    for (src, dst), total in by_size[:limit]:
        found.add_row(labels[src], labels[dst], f"{total.number:,}", readable_bytes(total))
    if len(by_size) > limit:
        found.add_row(Text(f"{len(by_size) - limit} more", "dim"), "", "", "")
    return found


def _matrix_cell(total: Amount | None) -> Text:
    return Text("·", "dim") if total is None else Text(f"{readable_bytes(total)} ({total.number:,})")
