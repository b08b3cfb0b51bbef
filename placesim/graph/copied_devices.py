"""Nodes whose device `colocate_with` copied from another node (2.2)."""

from __future__ import annotations

from collections.abc import Container

from placesim.graph.graph import Graph

_LABEL = "loc:@"


def colocated_copies(graph: Graph, named: Container[str]) -> dict[str, str]:
    """Map nodes to the nodes of `named` with which they are colocated, if they also request the same device; all by name.

    Examples are gradients with `colocate_gradients_with_ops`, and an optimizer's slots. Nodes that are themselves in `named`
    are left out.
    """
    found = {}
    for node in graph.nodes:
        labels = node.attrs.get("_class") if node.device and node.name not in named else None
        for label in labels if isinstance(labels, tuple) else ():
            holder = label.removeprefix(_LABEL) if isinstance(label, str) else ""
            # another device in the same group was requested for its own sake
            if holder in named and graph.node(holder).device == node.device:
                found[node.name] = holder
                break
    return found
