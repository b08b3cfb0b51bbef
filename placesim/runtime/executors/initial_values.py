"""Assignment of given values to variables before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placesim.graph.graph import Node
from placesim.ops.attributes import Shape
from placesim.ops.kernels.device_resources import VARIABLE_OPS, ResourceHandle, VariableResource
from placesim.placement.placer import Placement
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.executors.variable_handles import variable_handle


def set_initial_values(values: Mapping[str, Any], placement: Placement, states: Mapping[str, DeviceState]) -> None:
    """Set each placed variable that has a value in `values`, by its shared name or node name; `states` are by device name."""
    for node in placement.graph.nodes if values else ():
        device = placement.devices[node.id]
        if node.op not in VARIABLE_OPS or device is None:
            continue
        handle = variable_handle(node, device.name)
        value = values.get(handle.name, values.get(node.name))
        if value is not None:
            set_value(handle, node, np.asarray(value), states)


def set_value(handle: ResourceHandle, node: Node, value: Any, states: Mapping[str, DeviceState]) -> None:
    """Set the variable that a node makes, created if missing; `handle` is the node's, and `states` are by device name."""

    def make() -> VariableResource:
        return VariableResource(handle.name, node.attrs["dtype"], shape=declared_dims(node))

    states[handle.device].resources.lookup_or_create(handle, make).value = value


def declared_dims(node: Node) -> tuple[int, ...] | None:
    """Return a variable's shape as its node declares it; None if it is not fully known."""
    shape = node.attrs.get("shape")
    dims = shape.dims if isinstance(shape, Shape) else None
    return None if dims is None or min(dims, default=0) < 0 else dims
