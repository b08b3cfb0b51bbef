"""A predicted step beside measured steps: rows for a pipe, and a JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placesim.prediction.measured_comparison import ComparedNode, MeasuredComparison, UnmatchedNodes
from placesim.report.text.amounts import readable_count
from placesim.report.text.tables import NOTHING, TableSpec

_TIMES = ("predicted", "measured", "ratio", "share")
COLUMNS = {
    "measured": ("format", "steps", *_TIMES[:3], "matched"),
    "measured_op": ("op", "nodes", *_TIMES),
    "measured_node": ("node", "op", "device", "replaced", *_TIMES),
    "unmatched": ("side", "reason", "nodes", "seconds", "names"),
}
"""Columns of each table in a pipe.

- `ratio` is predicted divided by measured seconds; `share` is the share of the measured time of all nodes.
- `matched` is the share of the measured time of all nodes that belongs to nodes with a prediction.
- `replaced` is the number of other graph nodes that the measured node replaces, such as the parts of a fused op. In JSON and
  CSV, it has their names.
- `names` are the longest nodes of the group.
"""
TABLES = (
    TableSpec("measured", ("comparison",), COLUMNS["measured"]),
    TableSpec("measured-ops", ("comparison", "ops"), COLUMNS["measured_op"]),
    TableSpec("measured-nodes", ("comparison", "nodes"), (*COLUMNS["measured_node"], "low", "high")),
    TableSpec("unmatched", ("comparison", "unmatched"), COLUMNS["unmatched"]),
)
"""Tables of the JSON object."""


def measured_rows(comparison: MeasuredComparison, labels: dict[str, str], top: int) -> Iterator[Sequence[object]]:
    """Yield the rows of all tables, with at most `top` ops and nodes."""
    whole = comparison.node_seconds
    shown = *_times(comparison.predicted, comparison.measured), f"{comparison.matched_share:.4f}"
    yield ("measured", comparison.format, comparison.steps, *shown)
    for op in comparison.ops[:top]:
        yield ("measured_op", op.op, op.nodes, *_times(op.predicted, op.measured), _number(op.measured, whole))
    for node in comparison.nodes[:top]:
        shown = *_times(node.predicted, node.measured), _number(node.measured, whole)
        yield ("measured_node", node.node, node.op, labels[node.device], len(node.replaced), *shown)
    for group in comparison.unmatched:
        yield ("unmatched", group.side, group.reason, group.nodes, f"{group.seconds:.6g}", ", ".join(group.names))


def _times(predicted: float, measured: float) -> tuple[str, str, str]:
    return f"{predicted:.6g}", f"{measured:.6g}", _number(predicted, measured)


def _number(value: float, whole: float) -> str:
    return f"{value / whole:.4f}" if whole else NOTHING


def measured_document(comparison: MeasuredComparison) -> dict[str, Any]:
    """Return the JSON object of a comparison; a ratio to 0 seconds is null."""
    whole = comparison.node_seconds
    return {
        "format": comparison.format,
        "steps": comparison.steps,
        "predicted": comparison.predicted,
        "measured": comparison.measured,
        "ratio": ratio(comparison.predicted, comparison.measured),
        "node_seconds": whole,
        "matched": comparison.matched_share,
        "ops": [
            op._asdict() | {"ratio": ratio(op.predicted, op.measured), "share": ratio(op.measured, whole)}
            for op in comparison.ops
        ],
        "nodes": [
            node._asdict() | {"ratio": ratio(node.predicted, node.measured), "share": ratio(node.measured, whole)}
            for node in comparison.nodes
        ],
        "unmatched": [group._asdict() | {"names": list(group.names)} for group in comparison.unmatched],
    }


def ratio(value: float, whole: float) -> float | None:
    """Return the ratio of two durations; None to 0 seconds."""
    return value / whole if whole else None


def replaced_text(nodes: Sequence[ComparedNode]) -> str:
    """Return the number of fused and rewritten nodes as text; empty if there are none."""
    found = [node for node in nodes if node.replaced]
    if not found:
        return ""
    together = sum(len(node.replaced) for node in found) + len(found)
    return f"fused or rewritten: {readable_count(len(found), 'measured node')} for {together:,} nodes of the graph"


def unmatched_text(group: UnmatchedNodes) -> str:
    """Return a group of unmatched nodes as `2 measured: not in the graph (a, b)`."""
    more = "" if group.nodes == len(group.names) else ", ..."
    return f"{group.nodes:,} {group.side}: {group.reason} ({', '.join(group.names)}{more})"
