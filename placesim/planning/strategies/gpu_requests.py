"""Requests of GPUs for the nodes that can run on one."""

from __future__ import annotations

from functools import cached_property

from placesim.graph.graph import Graph, Node
from placesim.graph.session_steps import Config
from placesim.machine.device_names import DeviceName, format_spec, parse_runtime_name
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.placement.colocation import ColocationGraph
from placesim.placement.grouping import build_groups
from placesim.runtime.sessions.visible_devices import build_device_set


class GpuRequests:
    """Device requests for the nodes of a graph: of a GPU, unless a node or a colocated one has no kernel there.

    For example, an optimizer's op for sparse gradients that only has a CPU kernel keeps its variable on the CPU.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _groups(self) -> ColocationGraph:
        graph = self._graph
        devices = build_device_set(build_devices((TaskInventory(cpu=1, gpu=1),)), Config(), graph.registry.rules)
        found = ColocationGraph(graph, graph.runtime_order(), devices, soft=True)
        build_groups(found)
        return found

    def request(self, node: Node, number: int) -> str:
        """Return the request of a GPU by number, or the own request without one if the node must be elsewhere."""
        asked = parse_runtime_name(node.device) or DeviceName()
        if asked.type not in (None, "GPU"):
            return node.device
        groups = self._groups
        if all(kind != "GPU" for kind, _ in groups.constraints[groups.root(node.id)].types):
            return format_spec(asked.address_space)
        return format_spec(asked._replace(type="GPU", id=number))
