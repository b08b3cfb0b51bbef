"""A study of a plan -> what a person at a terminal sees: the plan's time and bound, what it is held against, and what moves."""

from __future__ import annotations

import io
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.escapes import escape_line
from placesim.graph_plans.study import PlanStudy, Sought
from placesim.report.terminal_blocks import as_encoded
from placesim.report.terminal_console import console_into
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.planning import NOTHING, fullest_share, summary

_WHAT = {Sought.LATENCY: "a step", Sought.THROUGHPUT: "the busiest device", Sought.MEMORY: "the highest peak"}


def styled_plan(study: PlanStudy, stream: TextIO, top: int) -> str:
    """A line of the plan, a table of placements, the groups that move, and how much TensorFlow has to be told."""
    buffer = io.StringIO()
    console = console_into(stream, buffer)
    console.print(_head(study), soft_wrap=True)
    console.print()
    console.print(_placements(study))
    if study.moves[:top]:
        console.print()
        console.print(_moves(study, top))
    if study.asked:
        console.print()
        devices = len(set(study.asked.values()))
        text = f"{len(study.asked):,} nodes have to ask for one of {devices} devices; `--output planned.yaml` writes them"
        console.print(Text(text, "dim"), soft_wrap=True)
    return as_encoded(buffer.getvalue(), stream)


def _head(study: PlanStudy) -> Text:
    if study.plan is None:
        return Text("no plan fits", "bold red")
    head = Text(f"plan, {_WHAT[study.sought]} ").append(_readable(study, study.value), "bold")
    if study.is_optimal:
        return head.append(f"   optimal: {study.bound.why}")
    bound = _readable(study, study.bound.value)
    return head.append(f"   none can be below {bound} ({study.gap:.0%} less): {study.bound.why}")


def _readable(study: PlanStudy, value: float) -> str:
    return readable_size(round(value)) if study.sought is Sought.MEMORY else readable_seconds(value)


def _table(first: str, *columns: str) -> Table:
    """A column whose name begins with `>` is of numbers."""
    found = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    found.add_column(first, no_wrap=True, overflow="ellipsis", max_width=44)
    for column in columns:
        justify = "right" if column.startswith(">") else "left"
        found.add_column(column.removeprefix(">"), justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    return found


def _placements(study: PlanStudy) -> Table:
    found = _table("placement", ">step", ">load", ">peak", ">transfers", ">bytes", ">memory", "")
    for placed in study.placements:
        style = "bold green" if placed is study.plan else ""
        timed, fullest = placed.study, fullest_share(placed)
        cells = [NOTHING] * 5
        if timed is not None:
            size = readable_size(sum(transfer.bytes for transfer in timed.transfers))
            load, peak = placed.value(Sought.THROUGHPUT), placed.value(Sought.MEMORY)
            values = readable_seconds(placed.seconds), readable_seconds(load), readable_size(round(peak))
            cells = [*values, str(len(timed.transfers)), size]
        memory = NOTHING if fullest is None else f"{fullest:.0%}"
        note = "" if placed.fits else summary(placed)
        found.add_row(*(Text(escape_line(cell), style) for cell in (placed.label, *cells, memory, note)))
    return found


def _moves(study: PlanStudy, top: int) -> Table:
    is_told = any(move.loss is not None for move in study.moves)
    found = _table("what moves", ">nodes", "from", "to", *([">lost where it stays"] if is_told else []))
    for move in study.moves[:top]:
        cells = [str(len(move.nodes)), move.source, move.target]
        if is_told:
            cells.append(NOTHING if move.loss is None else _signed(study, move.loss))
        found.add_row(Text(escape_line(move.nodes[0])), *map(Text, cells))
    return found


def _signed(study: PlanStudy, loss: float) -> str:
    """A group may lose nothing by its move, where others come along."""
    return f"-{_readable(study, -loss)}" if loss < 0 else _readable(study, loss)
