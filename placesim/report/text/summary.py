"""The summary of each device, as a table with one line per device and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from placesim.inspection.byte_amounts import Amount
from placesim.inspection.short_device_names import short_names
from placesim.inspection.summary import DeviceSummary
from placesim.report.text.amounts import readable_bytes, readable_size

_COLUMNS = ("device", "nodes", "variables", "constants", "sent", "received", "peak")
_AMOUNTS = _COLUMNS[2:-1]


def format_summary(summaries: Sequence[DeviceSummary], width: int | None = None) -> str:
    """Return a table: nodes, then number and bytes of variables, constants, sent and received tensors, then the peak in bytes.

    Without a known peak, that column is left out. A table wider than `width` gets short names and sizes with units. If the
    short table is still too wide, each device gets a paragraph.
    """
    columns = _COLUMNS if any(summary.peak is not None for summary in summaries) else _COLUMNS[:-1]
    full = _table(columns, map(_row, summaries))
    if width is None or _width(full) <= width:
        return full
    rows = [_short_row(*row) for row in zip(summaries, short_names([summary.device for summary in summaries]), strict=True)]
    short = _table(columns, rows)
    if _width(short) <= width:
        return short
    head = max(map(len, columns))
    return "".join(
        f"{row[0]}\n" + "".join(f"  {name:<{head}}  {cell}\n" for name, cell in zip(columns[1:], row[1:], strict=False))
        for row in rows
    )


def _width(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    shown = [columns, *(row[: len(columns)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in shown
    )


def _row(summary: DeviceSummary) -> tuple[str, ...]:
    amounts = (summary.variables, summary.constants, summary.sent, summary.received)
    peak = "?" if summary.peak is None else f"{summary.peak} bytes" if summary.peak else "0"
    return (summary.device, _nodes(summary), *map(_amount, amounts), peak)


def _short_row(summary: DeviceSummary, label: str) -> tuple[str, ...]:
    amounts = (summary.variables, summary.constants, summary.sent, summary.received)
    cells = (
        "?" if amount is None else f"{amount.number} ({readable_bytes(amount)})" if amount.number else "0" for amount in amounts
    )
    return (label, _nodes(summary), *cells, "?" if summary.peak is None else readable_size(summary.peak))


def _nodes(summary: DeviceSummary) -> str:
    return f"{summary.nodes}" + (f" + {summary.nodes_in_bodies} in bodies" if summary.nodes_in_bodies else "")


def _amount(amount: Amount | None) -> str:
    if amount is None:
        return "?"
    unknown = f" + {amount.unknown} unknown" if amount.unknown else ""
    return f"{amount.number} ({amount.bytes} bytes{unknown})" if amount.number else "0"


def summary_document(summaries: Sequence[DeviceSummary]) -> list[dict[str, Any]]:
    """Return the rows of the JSON object's `summary`."""
    return [
        {
            "device": summary.device,
            "nodes": summary.nodes,
            "nodes_in_bodies": summary.nodes_in_bodies,
            **{name: _document(getattr(summary, name)) for name in _AMOUNTS},
            "peak": summary.peak,
        }
        for summary in summaries
    ]


def _document(amount: Amount | None) -> dict[str, int] | None:
    return None if amount is None else amount.document()
