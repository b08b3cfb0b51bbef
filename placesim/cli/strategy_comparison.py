"""`placesim plan --strategies`: its output and exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placesim.cli.output_forms import Form, Target, table_forms, write_target

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.planning.strategies.strategy_comparison import StrategyComparison
    from placesim.report.text.tables import Tables, TabLines
    from placesim.runtime.cluster.connection_settings import Connection
    from placesim.studies.strategy_study import StrategyRequest


def _text(comparison: StrategyComparison) -> TabLines:
    from placesim.report.text.strategy_comparison import comparison_lines

    return comparison_lines(comparison)


def _json(comparison: StrategyComparison) -> str:
    from placesim.report.document import json_line
    from placesim.report.text.strategy_comparison import comparison_document

    return json_line(comparison_document(comparison))


def _tables(comparison: StrategyComparison) -> Tables:
    from placesim.report.text.strategy_comparison import TABLES, comparison_document
    from placesim.report.text.tables import Tables

    return Tables(TABLES, lambda: comparison_document(comparison))


_FORMS: tuple[Form[Any], ...] = (Form("text", _text), Form("json", _json), *table_forms(_tables))


def compare(
    loaded: LoadedGraph,
    options: SimulationOptions,
    name: str,
    request: StrategyRequest,
    connection: Connection,
    target: Target,
    output: str | None,
    html: str | None,
) -> int:
    """Compare the strategies, write the report, the page and the graph of the best one, and return the exit code."""
    from placesim.cli.output import complain, tell, write, write_files
    from placesim.cli.progress import show_stages
    from placesim.planning.search_processes import spread
    from placesim.report.pictures.comparison_page import strategies_page
    from placesim.studies.strategy_study import compare_strategies, write_strategy

    with spread(request.effort, connection) as effort, show_stages("comparing"):
        found = compare_strategies(loaded, options, name, request._replace(effort=effort))
    if target.is_for_reader:
        from placesim.report.terminal.strategy_comparison import styled_comparison

        write(styled_comparison(found, sys.stdout, output), is_styled=True)
    else:
        write_target(_FORMS, target, found)
    if request.price is not None and found.best is not None and found.dollars_per_million(found.best) is None:
        complain("the price of a million examples is unknown: `--examples N` gives the number of examples in a step\n")
    if html is not None:
        write_files({Path(html): [strategies_page(found).encode()]})
    if found.best is None:
        tell(f"no strategy fits{'' if output is None else f', and {output} is not written'}\n")
        return 1
    if output is not None:
        write_files({Path(output): write_strategy(found.best, loaded, Path(output))})
    return 0
