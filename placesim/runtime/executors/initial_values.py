"""Assignment of given values to variables before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from placesim.ops.kernels.device_resources import VARIABLE_OPS, VariableResource
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
            make = partial(VariableResource, handle.name, node.attrs["dtype"])
            states[device.name].resources.lookup_or_create(handle, make).value = np.asarray(value)
