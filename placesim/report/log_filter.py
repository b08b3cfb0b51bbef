"""Selection of a report's log lines by patterns of node names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placesim.graph.node_patterns import matcher
from placesim.report.report import Report


def filter_log(report: Report, patterns: tuple[str, ...]) -> Report:
    """Return a report that logs only nodes matching a pattern."""
    return replace(report, shows_node=matcher(patterns, report.handles))


def find_unmatched_patterns(report: Report, patterns: tuple[str, ...]) -> Iterator[str]:
    """Return the patterns that match no placed node; none if nothing was placed."""
    if not report.placed:
        return iter(())
    names = [node.name for placement in report.placed for node in placement.graph.nodes]
    if any(placement.graph.functions for placement in report.placed):
        rows = replace(report, shows_node=None).placements
        names += [name for row in rows for name in (row.node, row.lowered_from) if name]
    return (pattern for pattern in patterns if not any(map(matcher([pattern], report.handles), names)))
