"""A comparison of strategies as lines for a pipe, and as a JSON object.

In a pipe, each line is one strategy, the best first. Seconds have six digits, bytes are whole numbers, and `-` stands for a
missing value.
"""

from __future__ import annotations

from typing import Any

from placesim.inspection.short_device_names import short_names
from placesim.planning.strategies.strategy_comparison import StrategyComparison, StrategyResult
from placesim.report.text.planning import summarise_error
from placesim.report.text.tables import TableSpec, TabLines, line_cell

COLUMNS = (
    *("strategy", "devices", "fits", "seconds", "low", "high", "examples_per_second", "efficiency", "dollars_per_million"),
    *("peak_device", "peak_bytes", "limit_bytes", "options", "error"),
)
"""Names of a strategy's values.

- `fits` is whether all devices have enough memory. If not, the times ignore memory limits. - `efficiency` is the speed divided
by the speed of one device times the number of devices. - `dollars_per_million` is the price of a million examples. -
`peak_device` is the device nearest to its memory limit. - `options` are the options of `placesim parallelize` that apply the
strategy.
"""
TABLES = (TableSpec("strategies", ("strategies",), COLUMNS),)


def comparison_lines(comparison: StrategyComparison) -> TabLines:
    """Return a line for each strategy."""
    rows = (result_document(comparison, result) for result in comparison.results)
    return TabLines({"": COLUMNS}, ([line_cell(row[name]) for name in COLUMNS] for row in rows))


def comparison_document(comparison: StrategyComparison) -> dict[str, Any]:
    """Return the JSON object; missing values are null."""
    return {
        "graph": comparison.name,
        "price": comparison.price,
        "best": None if comparison.best is None else comparison.best.case.label,
        "strategies": [result_document(comparison, result) for result in comparison.results],
        "assumptions": list(comparison.assumptions),
    }


def result_document(comparison: StrategyComparison, result: StrategyResult) -> dict[str, Any]:
    """Return a strategy's values by the names in `COLUMNS`."""
    placed = result.placed
    found: dict[str, Any] = dict.fromkeys(COLUMNS)
    found |= {"strategy": result.case.name, "devices": result.case.devices, "options": result.case.options or None}
    found |= {"fits": placed.fits if placed.study is not None else None}
    found |= {"error": None if placed.error is None else summarise_error(placed)}
    if placed.study is None:
        return found
    step, device = placed.study.step, placed.study.fullest_device
    found |= {"seconds": step.seconds, "low": step.low, "high": step.high}
    found |= {"examples_per_second": result.examples_per_second, "efficiency": comparison.efficiency(result)}
    found |= {"dollars_per_million": comparison.dollars_per_million(result), "peak_device": short_names([device.device])[0]}
    return found | {"peak_bytes": device.peak, "limit_bytes": device.limit}
