"""`placesim explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
from placesim.marked import Marked, joined

if TYPE_CHECKING:
    from placesim.inspection.explaining.inquiry import Inquiry
    from placesim.inspection.snapshot import Snapshot


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
    from placesim.cli.graph_arguments import Wish, Wishes, open_subject
    from placesim.cli.output import write_styled
    from placesim.deadlines import run_within

    wish = Wish.of(cost, values, by_itself=True) if nodes else Wish.NONE
    snapshot = open_subject(graph, given(values), partitioned=False, wishes=Wishes(costs=wish))
    write_styled(run_within(values["timeout"], lambda: _said(snapshot, nodes, edits, form)))
    return 0 if snapshot.error is None else 1


def _said(snapshot: Snapshot, patterns: tuple[str, ...], edits: int, form: str) -> str | Iterator[str]:
    from placesim.inspection.explaining.inquiry import inquire

    inquiry = inquire(snapshot)
    return _recorded(snapshot, patterns, form) if inquiry is None else _explained(snapshot, inquiry, patterns, edits, form)


def _recorded(snapshot: Snapshot, patterns: tuple[str, ...], form: str) -> str | Iterator[str]:
    from placesim.inspection.explaining.inquiry import selected
    from placesim.report.document import json_text
    from placesim.report.text.explanation import format_recorded, recorded_document

    was_placed = bool(snapshot.nodes) or snapshot.error is None
    names = set(selected(snapshot, patterns)) if patterns and was_placed else None
    nodes = [node for node in snapshot.nodes if names is None or node.name in names]
    if form == "json":
        return json_text(recorded_document(nodes, snapshot.error))
    failure = () if snapshot.error is None else (snapshot.error.summary, "\n")
    if snapshot.error is not None and snapshot.error.node is None and snapshot.error.location is not None:
        failure = (*failure, f"  at {snapshot.error.location}\n")
    return Marked(*map(format_recorded, nodes), *failure)


def _explained(snapshot: Snapshot, inquiry: Inquiry, patterns: tuple[str, ...], edits: int, form: str) -> str | Iterator[str]:
    from placesim.inspection.explaining.inquiry import selected
    from placesim.report.document import json_text
    from placesim.report.text.explanation import explained_document, format_brief, format_error_explained, format_explained

    names = selected(snapshot, patterns) if patterns else []
    error = inquiry.explained_error(snapshot, bool(edits))
    if form == "json":
        found = inquiry.explained(names, bool(edits)) if patterns else inquiry.explained_briefly()
        return json_text(explained_document(list(found), error))
    if not patterns and error is None:
        return Marked(*(format_brief(node.proof) for node in inquiry.explained_briefly()))
    told = [format_explained(node, edits) for node in inquiry.explained(names, bool(edits))]
    return joined("\n", told if error is None else [*told, format_error_explained(error, max(edits, 1))])
