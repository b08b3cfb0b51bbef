"""`placesim place`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from placesim.cli.command import command
from placesim.cli.options import format_option, given, graph_options, in_shell, report_options


@command("place")
@click.argument("graphs", nargs=-1, required=True, metavar="GRAPH...")
@graph_options
@report_options
@format_option
def place_command(graphs: tuple[str, ...], form: str, summary: bool, log_filters: tuple[str, ...], **values: Any) -> int:
    """Place graphs without executing them, and print the device mapping and the log.

    GRAPH is any graph that `run` reads, or a .jsonl file in which each line is a graph as JSON.  All graphs are placed, even
    if one fails; the exit code is the highest of the graphs' exit codes.

    \b
    Examples:
      placesim place graphs/towers.yaml --gpu 4
      placesim place graphs/*.yaml --soft-placement
      placesim place graphs.jsonl --format json | jq -r 'select(.error) | .graph'
    """
    return place_graphs(graphs, form, given(values), summary, log_filters)


def place_graphs(
    graphs: Sequence[str],
    form: str,
    values: Mapping[str, Any],
    summary: bool = False,
    log_filters: tuple[str, ...] = (),
    log_creation: bool = False,
) -> int:
    """Place each graph and print its report. Returns the worst exit code."""
    from placesim.cli.graph_arguments import load_graphs
    from placesim.cli.output import tell, write_creation
    from placesim.cli.progress import show_stages
    from placesim.cli.report_output import write_report
    from placesim.core.process.gc_pause import collector_paused, keep_until_exit
    from placesim.report.report import Report
    from placesim.studies.simulation.simulation import SimulationStage, simulate

    options = in_shell({"log_placement": True, **values})
    several = len(graphs) > 1 or graphs[0].endswith(".jsonl")
    worst = told = 0
    try:
        loading = load_graphs(graphs, options)
        while True:
            # The collector would look at a million new nodes, so it is paused from the first node to the last line.
            with collector_paused():
                name, loaded = next(loading, (None, None))
                if loaded is None:
                    break
                # only the JSON object and the summary contain transfers
                with show_stages("placing"):
                    stage = SimulationStage.PARTITIONED if form != "text" or summary else SimulationStage.PLACED
                    report = Report.of(simulate(loaded, options, stage))
                if log_creation:
                    write_creation(report)
                is_read = write_report(report, form, name if several else None, summary, log_filters)
                if not several:
                    keep_until_exit(loaded, report)
            worst = max(worst, report.error.exit_code if report.error is not None else 0)
            told += 1
            if not is_read:
                break
    except KeyboardInterrupt:
        if told:
            tell(f"interrupted: placed {told} graphs\n")
        raise
    return worst
