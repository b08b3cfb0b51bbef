"""`placesim explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command
from placesim.cli.option_types import own_option
from placesim.cli.options import given, graph_options, guess_options, output_option, profile_option, size_options
from placesim.cli.output_forms import Form, document_forms, form_option, table_option, take_target, write_target

if TYPE_CHECKING:
    from placesim.report.explain_report import ExplainReport
    from placesim.report.text.tables import Tables


def _tables(report: ExplainReport) -> Tables:
    from placesim.report.text.explanation import TABLES
    from placesim.report.text.tables import Tables

    return Tables(TABLES, report.pieces)


FORMS: tuple[Form[Any], ...] = (
    Form("text", lambda report: report.marked(), (".txt",)),
    *document_forms(_tables),
)


@command("explain")
@click.argument("graph")
@click.argument("nodes", nargs=-1, metavar="[NODE|PATTERN]...")
@graph_options
@own_option(
    "--edits",
    type=click.IntRange(0),
    default=8,
    metavar="N",
    help="Show at most N edits for a node; 0 tries none (default: 8).",
)
@own_option(
    "--cost/--no-cost",
    "cost",
    default=None,
    help="Show the predicted cost of each NODE in a step (default: only if cheap to compute).",
)
@size_options("the cost")
@guess_options
@profile_option
@form_option(FORMS, "Output format (default: text).")
@table_option("nodes", "edits", "elsewhere", "kernels")
@output_option()
def explain_command(graph: str, nodes: tuple[str, ...], edits: int, cost: bool | None, **values: Any) -> int:
    """Explain why nodes are on their devices, and which edits would move them.

    GRAPH is any graph that `run` reads, or a report written by `--format json`.  For a report, the command shows the requested
    devices, but not the reasons for the placement.  A PATTERN is a shell pattern for names (`tower_0/*`), or a name scope that
    ends in `/`. Without NODE or PATTERN, each node gets one line.  If the graph can't be placed, the command shows the
    conflicting annotations and the edits that resolve the conflict.  Every suggested edit was tested by placing the edited
    graph.  The cost of a node is predicted from its shapes, for each device that has a kernel for it.

    \b
    Examples:
      placesim explain graphs/logging.yaml MatMul
      placesim explain graphs/towers.yaml --gpu 1 --soft-placement 'MatMul*'
      placesim explain graphs/missing-gpu.yaml
      placesim explain model.yaml --output placement.csv
      placesim explain model.yaml loss --format json | jq .nodes[0].edits
      placesim explain model.yaml conv1 --batch 64 --format json | jq .nodes[0].cost
    """
    from placesim.cli.graph_arguments import open_subject
    from placesim.cli.output import tell_needless
    from placesim.cli.progress import show_stages
    from placesim.core.process.deadlines import run_within
    from placesim.report.explain_report import explain_snapshot
    from placesim.studies.snapshots import DryRunNeed, DryRunNeeds

    target = take_target(FORMS, values)
    if not nodes:
        tell_needless(("cost",), "without a NODE")
    wish = DryRunNeed.of(cost, values, by_itself=True) if nodes else DryRunNeed.NONE
    snapshot = open_subject(graph, given(values), partitioned=False, wishes=DryRunNeeds(costs=wish))
    with show_stages("explaining"):
        report = run_within(values["timeout"], lambda: explain_snapshot(snapshot, nodes, edits))
    write_target(FORMS, target, report)
    return 0 if snapshot.error is None else 1
