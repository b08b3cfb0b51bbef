"""Record of the nodes whose device `colocate_with` copied from another node (2.2)."""

from __future__ import annotations

from collections.abc import Container

from placesim.graph.graph import Graph

_LABEL = "loc:@"


def colocated_copies(graph: Graph, named: Container[str]) -> dict[str, str]:
    """Map nodes colocated with a named node, and requesting the same device, to that node.

    Gradients with `colocate_gradients_with_ops` are such, and an optimizer's slots. Those that are named themselves are not.
    """
    found = {}
    for node in graph.nodes:
        labels = node.attrs.get("_class") if node.device and node.name not in named else None
        for label in labels if isinstance(labels, tuple) else ():
            holder = label.removeprefix(_LABEL) if isinstance(label, str) else ""
            if holder in named and graph.node(holder).device == node.device:
                found[node.name] = holder
                break
    return found
