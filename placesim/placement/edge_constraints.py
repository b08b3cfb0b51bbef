"""Joins groups along edges: a node shares the group of the reference, resource or dataset that it reads (5.6)."""

from __future__ import annotations

from collections.abc import Container

from placesim.core.dtypes import VARIANT
from placesim.graph.graph import Node, Signature
from placesim.graph.node_text import node_error
from placesim.ops.categories import FREE_OF_RESOURCES
from placesim.placement.colocation import Cause, ColocationGraph
from placesim.placement.constraints import TieConflict
from placesim.placement.dataset_ops import is_dataset_op
from placesim.placement.group_messages import conflict_message, incompatible_edge


def join_edges(groups: ColocationGraph, passed_over: Container[int]) -> None:
    """Join each node, by runtime id, with the source of each of its reference and resource edges.

    Nodes in `passed_over` are skipped.  Raises InvalidArgumentError if the two ends of an edge are incompatible.
    """
    # 1.15 does not join datasets along edges (13.6)
    ties_datasets = groups.graph.registry.rules.ties_datasets
    slots_of = {signature: slots for signature in groups.own.signatures if (slots := tying_slots(signature, ties_datasets))}
    if not slots_of:
        return
    graph, nodes, back_edges = groups.graph, groups.graph.nodes, []
    for node_id in groups.order:
        node = nodes[node_id]
        for slot, needs_dataset in slots_of.get(node.signature, ()):
            source = nodes[node.input_nodes[slot]]
            # a call that returns resources is not constrained itself; its body constrains the nodes around it (5.8)
            if passed_over and (source.id in passed_over or node_id in passed_over):
                continue
            # of variants, only datasets are tied: lists and optionals may be copied between devices (5.6)
            if needs_dataset and not is_dataset_op(source.signature.definition):
                continue
            if graph.is_back_edge(source.id, node):
                back_edges.append((source.id, node, slot))
            else:
                join_edge(groups, source.id, node, Cause.EDGE, slot)
    # TensorFlow uses the order of edge ids (5.2), and its importer adds edges that close a loop after all nodes.
    for source_id, node, slot in back_edges:
        join_edge(groups, source_id, node, Cause.EDGE, slot)


def join_edge(groups: ColocationGraph, source: int, node: Node, cause: Cause, detail: str | int) -> None:
    """Join a node with its source; a conflicting request of the node is dropped, even without soft placement.

    Raises InvalidArgumentError if the two ends are incompatible.
    """
    try:
        conflict = groups.tie(source, node.id, cause, detail)
    except TieConflict as ends:
        # soft placement does not help here (5.6.2)
        raise incompatible_edge(groups, source, node, ends) from None
    if conflict is not None:
        raise node_error(
            groups.graph,
            node,
            f"Nodes were connected by {groups.graph.registry.rules.tied_by} (requiring them to be on the same device), "
            f"but the two nodes were assigned two different devices: {conflict_message(groups, conflict)}",
        )


def tying_slots(signature: Signature, ties_datasets: bool = True) -> tuple[tuple[int, bool], ...]:
    """Return the slots of inputs whose source may join the node's colocation group, each with whether only a dataset joins."""
    # calls and datasets only pass a resource on, so they may be on another device (5.6)
    tied = () if signature.op in FREE_OF_RESOURCES else signature.tied_inputs
    if not ties_datasets or VARIANT not in signature.input_dtypes or not is_dataset_op(signature.definition):
        return tuple((slot, False) for slot in tied)
    variants = {slot for slot, dtype in enumerate(signature.input_dtypes) if dtype is VARIANT}
    return tuple((slot, slot in variants) for slot in sorted({*tied, *variants}))
