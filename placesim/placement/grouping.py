"""Colocation groups of a graph, by the steps in TensorFlow's order (5.2)."""

from __future__ import annotations

from placesim.placement.call_constraints import CallFrame, find_deep_calls, join_deep_calls
from placesim.placement.colocation import ColocationGraph
from placesim.placement.colocation_labels import join_labels
from placesim.placement.edge_constraints import join_edges
from placesim.placement.host_variants import keep_variants_on_host
from placesim.placement.xla_types import exclude_xla_types


def build_groups(groups: ColocationGraph, stack: tuple[CallFrame, ...] = ()) -> None:
    """Apply all grouping steps; `stack` is the chain of calls that leads to this graph if it is a function's body.

    The order determines which conflict is reported and which request is kept: an edge overrides a request that would conflict
    with a label. Raises OpError with TensorFlow's message if constraints contradict each other; earlier joins remain.
    """
    # TensorFlow isolates these calls before it places, so it reports an unknown function first (5.8)
    calls = find_deep_calls(groups.graph, groups.order)
    groups.own.fill(groups.constraints)
    join_edges(groups, calls)
    join_deep_calls(groups, calls, stack, build_groups)
    join_labels(groups)
    rules = groups.graph.registry.rules
    if rules.keeps_variants_on_host:
        keep_variants_on_host(groups)
    if rules.excludes_xla_types:
        exclude_xla_types(groups)
