"""Keys of transfers, under which a send and its receive find each other."""

from __future__ import annotations

from placesim.graph.graph import Node

TransferKey = tuple[str, str, str]
"""Sending device, receiving device, and the tensor's name."""


def transfer_key(node: Node) -> TransferKey:
    """Return the key that a send shares with its receive."""
    attrs = node.attrs
    return (attrs["send_device"], attrs["recv_device"], attrs["tensor_name"])
