"""Plan study for terminals: the plan's time and bound, compared placements, and moved groups."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TextIO

from rich.table import Table
from rich.text import Text

from placesim.core.escaping import escape_line
from placesim.inspection.short_device_names import short_names
from placesim.planning.graphs.plan_comparison import PlanMeasure, PlanStudy, SimulatedPlacement
from placesim.report.terminal.block_chart import encode_for
from placesim.report.terminal.console import Column, fit_table, make_console, print_wrapped, printed_text
from placesim.report.text.amounts import readable_count, readable_seconds, readable_size
from placesim.report.text.planning import fullest_share, readable_value, summarise_error
from placesim.report.text.tables import NOTHING

_WHAT = {
    PlanMeasure.LATENCY: "a step takes",
    PlanMeasure.THROUGHPUT: "the busiest device takes",
    PlanMeasure.MEMORY: "peak memory is",
}
_MISSED_LEAST = ("interval", "load", "bytes", "transfers", "memory", "peak")
"""Columns that a narrow terminal leaves out, in this order."""


def styled_plan(study: PlanStudy, stream: TextIO, top: int, output: str | None = None) -> str:
    """Return the plan compared with the current placement, the bound, a table of placements, and the moved groups.

    `output` is the file to which the plan is written, or None.
    """
    console = make_console(stream)
    for text in _head(study):
        print_wrapped(console, text)
    console.print()
    console.print(_placements(study, console.width))
    for error in dict.fromkeys(summarise_error(placed) for placed in study.placements if placed.error is not None):
        print_wrapped(console, Text(escape_line(error), "dim"), 2)
    if study.curve:
        console.print()
        for text in _edits(study, output):
            print_wrapped(console, text)
    if len(study.curve) > 1:
        console.print()
        console.print(_curve(study, console.width))
    for staying in study.staying:
        stays = "stays" if len(staying.nodes) == 1 else "stay"
        nodes = readable_count(len(staying.nodes), "node")
        why = f"{nodes} {stays} on {staying.device} ({escape_line(staying.nodes[0])}): {escape_line(staying.reason)}"
        print_wrapped(console, Text(why, "yellow"))
    if study.moves[:top]:
        console.print()
        console.print(_moves(study, top, console.width))
        if len(study.moves) > top:
            console.print(Text(f"{len(study.moves) - top:,} more (see --top)", "dim"))
    if study.asked and not study.curve:
        console.print()
        console.print(Text(_asked(study, output), "dim"))
    if study.assumptions:
        console.print()
    for said in study.assumptions:
        print_wrapped(console, Text(f"assumption: {escape_line(said)}", "dim"))
    return encode_for(printed_text(console), stream)


def plain_plan(study: PlanStudy, top: int) -> str:
    """Return the text of `styled_plan` without styles, for a notebook."""
    return Text.from_ansi(styled_plan(study, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), top)).plain


def _edits(study: PlanStudy, output: str | None) -> Iterator[Text]:
    """Yield the plan's edits, one a line, and the file to which they are written."""
    count = readable_count(len(study.edits), "edit") if study.edits else "no edit"
    where = "" if output is None else f" (in {escape_line(output)})"
    yield Text(f"the plan is {count}{where}" + (":" if study.edits else " of the graph"))
    for edit in study.edits:
        nodes = f" ({readable_count(edit.nodes, 'node')})"
        yield Text(f"  {escape_line(edit.title)} on ").append(edit.device, "bold").append(nodes, "dim")
    if study.by_node is not None:
        found = study.by_node.value(study.sought)
        less = f"{readable_value(study.sought, found)}, {1 - found / study.value:.1%} less"
        yield Text(f"devices node by node give {less}: `--by node` searches for such plans", "dim")


def _curve(study: PlanStudy, width: int) -> Table:
    """Return the table of the best plans for increasing numbers of edits."""
    first = study.curve[0].value
    rows = [
        [
            Text(f"{point.changes}", "bold green" if point.changes == len(study.edits) else ""),
            Text(readable_value(study.sought, point.value)),
            Text(NOTHING if point.value == first else f"{1 - point.value / first:.1%}"),
            Text(escape_line(", ".join(f"{edit.path} {edit.device}" for edit in point.edits)), "dim"),
        ]
        for point in study.curve
    ]
    title = "step" if study.sought is PlanMeasure.LATENCY else study.sought.value
    columns = [Column("edits", True), Column(title, True), Column("saved", True), Column("devices", is_name=True)]
    return fit_table(columns, rows, width)


def _asked(study: PlanStudy, output: str | None) -> str:
    devices = sorted(set(study.asked.values()))
    which = short_names(devices)[0] if len(devices) == 1 else f"{len(devices)} devices"
    who = readable_count(len(study.asked), "node")
    if output is None:
        return f"{who} to pin to {which}; write them with `--output planned.yaml`"
    return f"{escape_line(output)} pins {who} to {which}"


def _head(study: PlanStudy) -> Iterator[Text]:
    early = [Text(study.ended_early, "yellow")] if study.ended_early else []
    if study.plan is None:
        yield Text("no plan fits", "bold red")
        yield from early
        return
    head = Text(f"{_WHAT[study.sought]} ").append(readable_value(study.sought, study.value), "bold")
    before = study.before
    if before is not None and before is not study.plan and not before.fits:
        head.append(f" ({escape_line(study.plan.label)}); {escape_line(before.label)} runs out of memory")
    elif study.plan is study.current:
        head.append(f" ({escape_line(study.plan.label)}): no better placement was found")
    elif before is not None and before is not study.plan:
        was = before.value(study.sought)
        head.append(
            f" ({escape_line(study.plan.label)}), {readable_value(study.sought, was)} before ({escape_line(before.label)})"
        )
        if was and study.value < was:
            head.append(f": {1 - study.value / was:.0%} less", "green")
        if study.sought is PlanMeasure.LATENCY and _is_unsure(before, study.plan):
            head.append("; the intervals overlap, so the difference may not be real", "dim")
    if study.sought is PlanMeasure.MEMORY:
        head.append(f"; a step takes {readable_value(PlanMeasure.LATENCY, study.plan.seconds)}")
        if before is not None and before.fits and study.plan is not study.current:
            head.append(f", {readable_value(PlanMeasure.LATENCY, before.seconds)} before")
    yield head
    if study.is_optimal:
        yield Text(f"optimal, by the lower bound: {study.bound.why}")
    else:
        yield Text(f"lower bound {readable_value(study.sought, study.bound.value)} ({study.gap:.0%} below): {study.bound.why}")
    if study.is_interrupted:
        yield Text("search interrupted; this is the best plan so far", "yellow")
    yield from early


def _is_unsure(before: SimulatedPlacement, after: SimulatedPlacement) -> bool:
    if before.study is None or after.study is None:
        return False
    return before.study.step.low <= after.study.step.high and after.study.step.low <= before.study.step.high


def _placements(study: PlanStudy, width: int) -> Table:
    """Return the table of placements, with fewer columns on narrow terminals."""
    rows = []
    for placed in study.placements:
        style = "bold green" if placed is study.plan else ""
        timed, fullest = placed.study, fullest_share(placed)
        cells = [NOTHING] * 6
        if timed is not None:
            transfers = timed.counted_transfers
            size = readable_size(sum(transfer.bytes for transfer in transfers))
            load, peak = placed.value(PlanMeasure.THROUGHPUT), placed.value(PlanMeasure.MEMORY)
            interval = f"{readable_seconds(timed.step.low)} to {readable_seconds(timed.step.high)}"
            values = readable_seconds(placed.seconds), interval, readable_seconds(load), readable_size(round(peak))
            cells = [*values, f"{len(transfers):,}", size]
        note = "" if placed.error is None else placed.error.type_name
        told = (placed.label, *cells, NOTHING if fullest is None else _share(fullest), note)
        rows.append([Text(escape_line(cell), style) for cell in told])
    missed = {title: number for number, title in enumerate(_MISSED_LEAST, 1)}
    titles = ("step", "interval", "load", "peak", "transfers", "bytes", "memory")
    columns = [Column("placement", is_name=True), *(Column(title, True, missed=missed.get(title, 0)) for title in titles)]
    if any(row[-1].plain for row in rows):
        columns.append(Column(""))
    return fit_table(columns, [row[: len(columns)] for row in rows], width)


def _share(share: float) -> str:
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def _moves(study: PlanStudy, top: int, width: int) -> Table:
    is_told = any(move.loss is not None for move in study.moves)
    rows = []
    for move in study.moves[:top]:
        gain = [NOTHING if move.loss is None else _signed(study, move.loss)] if is_told else []
        rows.append(
            [Text(escape_line(cell)) for cell in (move.nodes[0], f"{len(move.nodes):,}", move.source, move.target, *gain)]
        )
    columns = [Column("moved nodes", is_name=True), Column("nodes", True), Column("from"), Column("to")]
    return fit_table(columns + [Column("gain", True)] * is_told, rows, width)


def _signed(study: PlanStudy, loss: float) -> str:
    """Return a group's loss as text. A loss may be negative, since moves may help only together."""
    return f"-{readable_value(study.sought, -loss)}" if loss < 0 else readable_value(study.sought, loss)
