"""Initial values of variables that a graph comes with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from placesim.ops.kernels.device_resources import VARIABLE_OPS, ResourceHandle, VariableResource
from placesim.placement.placer import Placement
from placesim.runtime.executors.program import DeviceState


def set_initial_values(values: Mapping[str, Any], placement: Placement, states: Mapping[str, DeviceState]) -> None:
    """Set each placed variable that has a value in `values`, by its shared name or node name; `states` are by device name."""
    for node in placement.graph.nodes if values else ():
        name = node.attrs.get("shared_name") or node.name
        value = values.get(name, values.get(node.name))
        kind, device = VARIABLE_OPS.get(node.op), placement.devices[node.id]
        if value is None or kind is None or device is None:
            continue
        dtype = node.attrs["dtype"]
        handle = ResourceHandle(device.name, node.attrs.get("container") or "localhost", name, kind, dtype)
        states[device.name].resources.lookup_or_create(handle, partial(VariableResource, name, dtype)).value = np.asarray(value)
