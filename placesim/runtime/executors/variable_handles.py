"""Handles of variables: the names under which devices keep them."""

from __future__ import annotations

from placesim.graph.graph import Node
from placesim.ops.kernels.device_resources import DEFAULT_CONTAINER, VARIABLE_OPS, ResourceHandle


def variable_handle(node: Node, device: str) -> ResourceHandle:
    """Return the handle under which a device keeps the variable that a node makes."""
    attrs = node.attrs
    name, container = attrs.get("shared_name") or node.name, attrs.get("container") or DEFAULT_CONTAINER
    return ResourceHandle(device, container, name, VARIABLE_OPS[node.op], attrs["dtype"])
