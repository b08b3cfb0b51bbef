"""The part of a report's log that patterns of nodes ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placesim.graph.node_patterns import matcher
from placesim.report.report import Report


def filter_log(report: Report, patterns: tuple[str, ...]) -> Report:
    """Report that logs only nodes matching a pattern; all without patterns."""
    return replace(report, shows_node=matcher(patterns, report.handles)) if patterns else report


def find_unmatched_patterns(report: Report, patterns: tuple[str, ...]) -> Iterator[str]:
    """The patterns that no placed node is matched by; none if nothing was placed."""
    if not patterns or not report.placed:
        return iter(())
    names = [node.name for placement in report.placed for node in placement.graph.nodes]
    if any(placement.graph.functions for placement in report.placed):
        rows = replace(report, shows_node=None).placements
        names += [name for row in rows for name in (row.node, row.lowered_from) if name]
    return (pattern for pattern in patterns if not any(map(matcher([pattern], report.handles), names)))
