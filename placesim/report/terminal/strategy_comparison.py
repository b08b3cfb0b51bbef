"""A comparison of strategies for terminals: the best one, and a table."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TextIO

from rich.text import Text

from placesim.core.escaping import escape_line
from placesim.planning.strategies.strategy_comparison import StrategyComparison, StrategyResult
from placesim.report.terminal.block_chart import encode_for
from placesim.report.terminal.console import Column, fit_table, make_console, print_wrapped, printed_text
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.planning import summarise_error
from placesim.report.text.tables import NOTHING

_COLUMNS = (
    Column("strategy", is_name=True),
    Column("GPUs", True),
    Column("step", True),
    Column("interval", True, missed=1),
    Column("examples/s", True),
    Column("efficiency", True, missed=4),
    Column("$/million", True, missed=3),
    Column("peak", True),
    Column("limit", True, missed=2),
    Column(""),
)


def styled_comparison(comparison: StrategyComparison, stream: TextIO, output: str | None = None) -> str:
    """Return the best strategy, and a table of all. `output` is the file to which its graph is written, or None."""
    console = make_console(stream)
    for text in _head(comparison, output):
        print_wrapped(console, text)
    console.print()
    rows = [_cells(comparison, result) for result in comparison.results]
    shown = [i for i in range(len(_COLUMNS)) if any(row[i] not in ("", NOTHING) for row in rows)]
    styles = ["bold green" if row is comparison.best else "" if row.placed.fits else "red" for row in comparison.results]
    cells = [[Text(row[i], style) for i in shown] for row, style in zip(rows, styles, strict=True)]
    console.print(fit_table([_COLUMNS[i] for i in shown], cells, console.width))
    for error in dict.fromkeys(summarise_error(row.placed) for row in comparison.results if row.placed.error is not None):
        print_wrapped(console, Text(escape_line(error), "dim"), 2)
    for said in comparison.assumptions:
        print_wrapped(console, Text(f"assumption: {escape_line(said)}", "dim"))
    return encode_for(printed_text(console), stream)


def plain_comparison(comparison: StrategyComparison) -> str:
    """Return the text of `styled_comparison` without styles, for a notebook."""
    return Text.from_ansi(styled_comparison(comparison, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))).plain


def _head(comparison: StrategyComparison, output: str | None) -> Iterator[Text]:
    best, one = comparison.best, comparison.one_device
    if best is None:
        yield Text("no strategy fits", "bold red")
        return
    text = f"a step takes {readable_seconds(best.placed.seconds)}, {best.speed / one.speed:.3g} times as fast as one device"
    yield Text(f"{best.case.label}: ", "bold").append(text, "default")
    if output is not None:
        yield Text(f"{escape_line(output)} has its graph")
    elif best.case.options:
        yield Text(f"`placesim parallelize` with {best.case.options} writes its graph", "dim")


def _cells(comparison: StrategyComparison, result: StrategyResult) -> tuple[str, ...]:
    study, case = result.placed.study, result.case
    error = result.placed.error
    note = "" if error is None else "refused" if study is None else error.type_name
    if study is None:
        return (case.name, str(case.devices), *[NOTHING] * (len(_COLUMNS) - 3), note)
    step, device = study.step, study.fullest_device
    speed, share, price = result.examples_per_second, comparison.efficiency(result), comparison.dollars_per_million(result)
    return (
        case.name,
        str(case.devices),
        readable_seconds(step.seconds),
        f"{readable_seconds(step.low)} to {readable_seconds(step.high)}",
        NOTHING if speed is None else f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}",
        NOTHING if share is None else f"{share:.0%}",
        NOTHING if price is None else f"{price:.3g}",
        readable_size(device.peak or 0),
        NOTHING if device.limit is None else readable_size(device.limit),
        note,
    )
