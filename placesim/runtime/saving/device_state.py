"""Conversion of a device's state to a record of JSON values and tensors, and back, for checkpoints and cluster connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import DataLossError, FailedPreconditionError
from placesim.graph.graph import Graph
from placesim.ops.kernels.device_resources import VARIABLE_OPS, ResourceHandle, ResourceManager
from placesim.placement.placer import Placement
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.executors.variable_handles import variable_handle
from placesim.runtime.saving.saved_values import NamedTensor, Packer, UnsavableError, file_name, unpack

Tensor = np.ndarray[Any, Any]


class DeviceRecord(NamedTuple):
    """State of a device, as JSON values and the tensors to which these refer.

    `makers` are the nodes that initialize the device's iterators: after a restart, they run again, and the iterators skip the
    elements that were consumed. `left` names state that could not be saved.
    """

    device: str
    state: Any
    tensors: tuple[NamedTensor, ...]
    makers: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class SavedState(NamedTuple):
    """Restored state of a device: its resources, and the state of its stateful kernels (such as generators) by node name."""

    resources: ResourceManager
    node_states: dict[str, dict[str, Any]]

    def before(self) -> SavedState:
        """Return the part that a new session needs before its first step: resources, and the names that nodes gave them."""
        named = {name: {key: own[key] for key in ("resource_name",) if key in own} for name, own in self.node_states.items()}
        return SavedState(self.resources, named)

    def give(self, state: DeviceState) -> None:
        """Move the state to a device."""
        state.resources.adopt(self.resources)
        for name, own in self.node_states.items():
            state.node_states.setdefault(name, {}).update(own)  # in place, because prepared steps refer to this dict


def record_state(state: DeviceState) -> DeviceRecord:
    """Return the state of a device between two steps; its tensors are shared, not copied."""
    packer = Packer()
    left: list[str] = []
    resources = []
    makers: list[str] = []
    for handle, resource in state.resources.named():
        try:
            makers += filter(None, [getattr(resource, "maker", "")])
            resources.append([handle.container, handle.name, handle.type, packer.pack(resource)])
        except UnsavableError:
            left.append(f"{file_name(resource)} '{handle.name}'")
    nodes = {}
    for name, own in state.node_states.items():
        packed = {}
        for key, value in own.items():
            try:
                packed[key] = packer.pack(value)
            except UnsavableError:
                continue  # values that the node computes again from its attrs
        if packed:
            nodes[name] = packed
    kept = {"resources": resources, "names": state.resources.private_count, "nodes": nodes}
    return DeviceRecord(state.device.name, kept, tuple(packer.tensors), tuple(dict.fromkeys(makers)), tuple(left))


def restore_state(record: DeviceRecord) -> SavedState:
    """Return the state in a record. Raises DataLossError for a record of another version."""
    tensors = [tensor.value for tensor in record.tensors]
    kept = SavedState(ResourceManager(), {})
    try:
        rows, nodes = record.state["resources"], record.state["nodes"]
        kept.resources.private_count = record.state["names"]
        for container, name, kind, packed in rows:
            handle = ResourceHandle(record.device, container, name, kind)
            kept.resources.put(handle, unpack(packed, tensors))
        for name, own in nodes.items():
            kept.node_states[name] = {key: unpack(value, tensors) for key, value in own.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataLossError(f"the session's state is not valid in this release of placesim: {error}") from None
    return kept


def settle(found: Mapping[str, SavedState], placement: Placement, states: Mapping[str, DeviceState]) -> None:
    """Restore each device's state; a variable goes to the device on which it is placed now.

    Raises FailedPreconditionError for a resource of a device that no longer exists, unless it is a variable.
    """
    gone = [kept for device, kept in found.items() if device not in states]
    homes: dict[tuple[str, str, str], ResourceManager] = {}
    """The resource manager that has each variable."""
    for device, kept in found.items():
        if device in states:
            kept.give(states[device])
        manager = states[device].resources if device in states else kept.resources
        homes |= {_key(handle): manager for handle, _ in kept.resources.named() if handle.type in VARIABLE_OPS.values()}
        _check_gone(device, kept, states)
    for node in placement.graph.nodes:
        placed = placement.devices[node.id]
        if placed is None:
            continue
        own = states[placed.name]
        if node.op in VARIABLE_OPS:
            handle = variable_handle(node, placed.name)
            _move(homes.get(_key(handle)), own.resources, handle)
        for kept in gone:
            if node.name in kept.node_states:
                own.node_states.setdefault(node.name, {}).update(kept.node_states[node.name])


def _key(handle: ResourceHandle) -> tuple[str, str, str]:
    return handle.container, handle.name, handle.type


def _move(owner: ResourceManager | None, own: ResourceManager, handle: ResourceHandle) -> None:
    """Move a variable to the device on which it is placed."""
    if owner is None or owner is own or own.find(handle) is not None:
        return
    variable = owner.find(handle)
    if variable is not None:
        owner.delete(handle)
        own.put(handle, variable)


def _check_gone(device: str, kept: SavedState, states: Mapping[str, DeviceState]) -> None:
    for handle, resource in () if device in states else kept.resources.named():
        if handle.type not in VARIABLE_OPS.values():
            error = FailedPreconditionError(
                f"the checkpoint has {file_name(resource)} '{handle.name}' of {device}, which this machine lacks"
            )
            error.help = ("restart with the devices of the original run",)
            raise error


def find_missing_state(records: Iterable[DeviceRecord], graph: Graph) -> list[str]:
    """Return the names of state that is missing in these records; a restarted session of the graph initializes it anew."""
    unknown = [(f"iterator of {maker}", record) for record in records for maker in record.makers if maker not in graph.ids]
    left = [(name, record) for record in records for name in record.left]
    return [f"{name} of {record.device}" for name, record in (*unknown, *left)]
