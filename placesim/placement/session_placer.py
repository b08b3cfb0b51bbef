"""Placement of graphs as a session does it: once as written, and again whenever the graph has grown."""

from __future__ import annotations

from collections.abc import Mapping

from placesim.graph.graph import Graph
from placesim.machine.inventory import DeviceSet
from placesim.placement.placer import Placement, place_graph
from placesim.placement.rewrites import rewrite


class SessionPlacer:
    """Places graphs one after another; stateful ops stay on their first device (9.5).

    `default_device` is preferred wherever possible; for a function's body, it is the device of its call (9.8).
    """

    def __init__(self, devices: DeviceSet, soft: bool = False, default_device: str | None = None) -> None:
        self._devices = devices
        self._soft = soft
        self._default_device = default_device
        self._stateful: dict[str, str] = {}
        self._last: Placement | None = None

    def place(self, graph: Graph, assigned: Mapping[str, str] | None = None) -> Placement:
        """Place a graph as written; the result holds TensorFlow's error if there is one.

        `assigned` has the full device names of nodes that are already placed.
        """
        return self.place_rewritten(rewrite(graph), assigned)

    def place_rewritten(self, graph: Graph, assigned: Mapping[str, str] | None = None) -> Placement:
        """Place a graph that `rewrite` has already processed. A second `rewrite` would apply some rewrites twice."""
        self._remember_stateful()
        # a remembered device has priority: a stateful op never moves (9.5)
        named = {**(assigned or {}), **self._stateful}
        # a pruned graph lacks some of them (9.4)
        known = {graph.ids[name]: device for name, device in named.items() if name in graph.ids}
        placement = place_graph(graph, self._devices, self._soft, known, self._default_device)
        # Most graphs are placed once, so stateful nodes are only collected before the next placement.  A failed placement is
        # ignored.
        self._last = placement if placement.error is None else None
        return placement

    def _remember_stateful(self) -> None:
        if self._last is None:
            return
        for node, device in zip(self._last.graph.nodes, self._last.devices, strict=False):  # the graph may have grown since
            # by TensorFlow's flag of the op: Assign is not stateful, and may move (9.5)
            if node.signature.is_stateful and device is not None:
                self._stateful[node.name] = device.name
        self._last = None
