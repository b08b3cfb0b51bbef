"""Joins groups by the nodes' `_class` labels: nodes that mention the same label share a group (5.7)."""

from __future__ import annotations

from functools import lru_cache

from placesim.graph.graph import Node
from placesim.graph.node_text import node_error
from placesim.ops.attributes import AttrValue
from placesim.placement.colocation import Cause, ColocationGraph, IgnoredLabel
from placesim.placement.group_messages import conflict_message


def join_labels(groups: ColocationGraph) -> None:
    """Join each node, by runtime id, with the first node that has the same label, or whose name is the label.

    Raises InvalidArgumentError for a label that cannot be satisfied; with soft placement, it is ignored.
    """
    if not any(is_labelled for _, _, is_labelled in groups.classes.classes):
        return
    nodes = groups.graph.nodes
    labelled = {i: class_labels(nodes[i].attrs["_class"]) for i in groups.order if "_class" in nodes[i].attrs}
    mentioned = {label for labels in labelled.values() for label in labels}
    if not mentioned:
        return
    # A label need not name a node.  If it does, this node is treated like the others: the holder, which messages mention,
    # is the first node with the label, often an initializer.
    holders: dict[str, int] = {}
    # in 1.15, a node that has a label does not also count as having its own name as a label (13.7)
    holds_name = groups.graph.registry.rules.labelled_nodes_hold_their_name
    for node_id in groups.order:
        name = nodes[node_id].name
        labels = labelled.get(node_id, ())
        is_holder = name in mentioned and (holds_name or not labels)
        for label in (*labels, name) if is_holder else labels:
            holder = holders.setdefault(label, node_id)
            if holder != node_id:
                _join_label(groups, nodes[node_id], label, holder)


def _join_label(groups: ColocationGraph, node: Node, label: str, holder: int) -> None:
    conflict = groups.join(node.id, holder, Cause.LABEL, label)
    if conflict is None:
        return
    # before 1.13 such a conflict was an error with soft placement too (5.7)
    if not groups.soft:
        raise node_error(groups.graph, node, conflict_message(groups, conflict))
    groups.ignored.setdefault(node.id, []).append(IgnoredLabel(label, conflict))


@lru_cache(maxsize=4096)
def class_labels(value: AttrValue) -> tuple[str, ...]:
    """Return the node names in a `_class` attr, without `loc:@`; none if it is not a list (2.2.7)."""
    # TensorFlow logs an error for a single string, and goes on without it (2.2.7)
    if not isinstance(value, tuple):
        return ()
    # labels are bytes on the wire, and need not be UTF-8
    labels = (label.decode(errors="replace") if isinstance(label, bytes) else str(label) for label in value)
    return tuple(label[5:] for label in labels if label.startswith("loc:@"))
