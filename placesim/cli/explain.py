"""`placesim explain`."""

from __future__ import annotations

from typing import Any

import click

from placesim.cli.command import command
from placesim.cli.options import (
    format_option,
    given,
    machine_options,
    placement_options,
    profile_option,
    size_options,
    source_options,
)


@command("explain")
@click.argument("graph")
@click.argument("nodes", nargs=-1, metavar="[NODE|PATTERN]...")
@machine_options
@source_options
@placement_options
@click.option("--edits", type=click.IntRange(0), default=8, metavar="N", help="Show at most N edits for a node; 0 tries none.")
@click.option(
    "--cost/--no-cost", "cost", default=None, help="What each NODE takes in a step; without it where that is quickly found."
)
@size_options("the cost")
@profile_option
@format_option
def explain_command(graph: str, nodes: tuple[str, ...], edits: int, cost: bool | None, form: str, **values: Any) -> int:
    """Explain why nodes are where they are, and what would change that.

    GRAPH is whatever `run` takes, or a report that `--format json` wrote (which says what was asked for, not why).  A PATTERN
    is a shell pattern over names (`tower_0/*`), or a name scope that ends in `/`.  Without one, each node gets one line.  For a
    graph that can't be placed: the annotations in conflict, and the edits that mend it.  Each edit was tried by placing.  What
    a node takes is predicted from its shapes, on its device and on the others that it has a kernel for.

    \b
    Examples:
      placesim explain graphs/logging.yaml MatMul
      placesim explain graphs/towers.yaml --gpu 1 --soft-placement 'MatMul*'
      placesim explain graphs/missing-gpu.yaml
      placesim explain model.yaml loss --format json | jq .nodes[0].edits
      placesim explain model.yaml conv1 --batch 64 --format json | jq .nodes[0].cost
    """
    from placesim.cli.graph_arguments import open_subject
    from placesim.cli.output import write_styled
    from placesim.deadlines import run_within
    from placesim.report.explain_report import explain_snapshot
    from placesim.subjects import Wish, Wishes

    wish = Wish.of(cost, values, by_itself=True) if nodes else Wish.NONE
    snapshot = open_subject(graph, given(values), partitioned=False, wishes=Wishes(costs=wish))
    report = run_within(values["timeout"], lambda: explain_snapshot(snapshot, nodes, edits))
    write_styled(report.marked() if form == "text" else report.json())
    return 0 if snapshot.error is None else 1
