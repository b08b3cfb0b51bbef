"""Selection of a report's log lines by patterns of node names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from placesim.graph.node_patterns import did_you_mean_node, matcher
from placesim.report.report import Report


def filter_log(report: Report, patterns: tuple[str, ...]) -> Report:
    """Return a report that logs only nodes matching a pattern."""
    return replace(report, shows_node=matcher(patterns, report.handles))


def warn_unmatched(report: Report, patterns: tuple[str, ...]) -> Iterator[str]:
    """Return a warning for each pattern that matches no placed node; none if nothing was placed."""
    if not report.placed:
        return iter(())
    names = [node.name for placement in report.placed for node in placement.graph.nodes]
    if any(placement.graph.functions for placement in report.placed):
        rows = replace(report, shows_node=None).placements
        names += [name for row in rows for name in (row.node, row.lowered_from) if name]
    missing = (pattern for pattern in patterns if not any(map(matcher([pattern], report.handles), names)))
    return (unmatched_warning(pattern, [*names, *report.handles]) for pattern in missing)


def unmatched_warning(pattern: str, names: Iterable[str]) -> str:
    """Return the warning about a pattern that matches none of the names."""
    expected = f"expected a node's name or id, a pattern, or a scope that ends in '/'{did_you_mean_node(pattern, names)}"
    return f"no node matches '{pattern}' in --log-filter: {expected}"
