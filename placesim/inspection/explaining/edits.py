"""Single edits of a graph, a session or a machine; each can be applied to a setting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from placesim.core.dtypes import DataType
from placesim.core.errors import Location
from placesim.core.escaping import escape_line
from placesim.core.styled_text import StyledText, device, fill_template
from placesim.graph.graph import Graph, Node
from placesim.inspection.explaining.annotations import Annotation, AnnotationKind, Annotations, copy_node, replace_nodes
from placesim.machine.device_names import DeviceName
from placesim.machine.gpu_memory import describe_gpu, gpu_memory_limit
from placesim.machine.gpu_models import DEFAULT_MODEL
from placesim.machine.inventory import Device, DeviceSet


class Reach(IntEnum):
    """The extent of an edit, by which edits are sorted."""

    NODE = 0
    GROUP = 1
    SESSION = 2
    MACHINE = 3
    PROGRAM = 4


@dataclass(frozen=True, slots=True)
class Setting:
    """The input of a placement: a graph as written, its annotations, and the devices.

    `sizes` has the number of nodes at each placement of the session, as steps may have added nodes.
    """

    graph: Graph
    annotations: Annotations
    devices: DeviceSet
    soft: bool
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnnotationChange:
    """An edit of an annotation's device; an empty device removes the annotation."""

    annotation: Annotation
    device: str
    reach: Reach

    @property
    def location(self) -> Location | None:
        """Return the location of the line to change."""
        return self.annotation.location

    @property
    def text(self) -> StyledText:
        """Return the edit as an instruction."""
        if not self.device:
            return fill_template("drop the {}", self.annotation)
        return fill_template("change the {} to {}", self.annotation, device(self.device))

    def apply(self, setting: Setting) -> Setting:
        """Return the edited setting; the original is unchanged."""
        changes = {self.annotation: self.device}
        return replace(setting, graph=setting.annotations.changed(setting.graph, changes, changes))


@dataclass(frozen=True, slots=True)
class DeviceAddition:
    """An edit that gives a device to an entry without a request. `nodes` are its nodes, and `node` is its displayed name."""

    node: str
    nodes: tuple[str, ...]
    device: str
    location: Location | None
    reach: Reach = Reach.NODE

    @property
    def text(self) -> StyledText:
        """Return the edit as an instruction."""
        return fill_template("set the device of {} to {}", self.node, device(self.device))

    def apply(self, setting: Setting) -> Setting:
        """Return the edited setting. Enclosing scopes still provide the unset fields of the device."""
        return replace(setting, graph=setting.annotations.given(setting.graph, self.nodes, self.device))


@dataclass(frozen=True, slots=True)
class BodyDeviceChange:
    """An edit of the device of a function's node in all calls; an empty device removes its request."""

    function: str
    node: str
    before: str
    device: str
    location: Location | None
    reach: Reach = Reach.GROUP

    @property
    def text(self) -> StyledText:
        """Return the edit as an instruction."""
        if not self.device:
            return fill_template(
                "drop the device {} of {} in the function {}", device(self.before), self.node, escape_line(self.function)
            )
        if self.before:
            sentence = "change the device {} of {} in the function {} to {}"
            return fill_template(sentence, device(self.before), self.node, escape_line(self.function), device(self.device))
        return fill_template(
            "give {} in the function {} the device {}", self.node, escape_line(self.function), device(self.device)
        )

    def apply(self, setting: Setting) -> Setting:
        """Return the edited setting."""
        graph = replace_nodes(setting.graph, ())
        function = graph.functions[self.function]
        nodes = (node._replace(device=self.device) if node.name == self.node else node for node in function.nodes)
        graph.functions = {**graph.functions, self.function: replace(function, nodes=tuple(nodes))}
        return replace(setting, graph=graph)


@dataclass(frozen=True, slots=True)
class TypeChange:
    """An edit of the element type of a node, and of the `colocated` nodes that share a variable with the node.

    The types of their inputs and readers would also have to change.
    """

    node: str
    attr: str
    before: DataType
    dtype: DataType
    location: Location | None
    colocated: tuple[str, ...] = ()
    reach: Reach = Reach.PROGRAM

    @property
    def text(self) -> StyledText:
        """Return the edit as an instruction."""
        return StyledText(f"change {self.attr} of {self.node} from {self.before.python_name} to {self.dtype.python_name}")

    def apply(self, setting: Setting) -> Setting:
        """Return the edited setting."""
        changed = [self._changed(setting.graph, self.node, (self.attr,))]
        for name in self.colocated:
            attrs = setting.graph.node(name).attrs
            changed.append(self._changed(setting.graph, name, [attr for attr, value in attrs.items() if value is self.before]))
        return replace(setting, graph=replace_nodes(setting.graph, changed))

    def _changed(self, graph: Graph, name: str, attrs: Iterable[str]) -> Node:
        node = copy_node(graph.node(name))
        node.attrs = {**node.attrs, **dict.fromkeys(attrs, self.dtype)}
        node.signature = graph.signatures.signature(node.op, node.attrs)
        return node


@dataclass(frozen=True, slots=True)
class SoftPlacementSwitch:
    """An edit that turns `allow_soft_placement` on or off."""

    soft: bool
    location: Location | None = None
    reach: Reach = Reach.SESSION

    @property
    def text(self) -> StyledText:
        """Return the edit as an instruction."""
        return StyledText(f"turn soft placement {'on (--soft-placement)' if self.soft else 'off (--no-soft-placement)'}")

    def apply(self, setting: Setting) -> Setting:
        """Return the edited setting."""
        return replace(setting, soft=self.soft)


@dataclass(frozen=True, slots=True)
class HardwareAddition:
    """An edit that gives a task `count` more devices of a type, so that the task has `total` devices of this type."""

    task: DeviceName
    device_type: str
    count: int
    total: int
    location: Location | None = None
    reach: Reach = Reach.MACHINE

    @property
    def text(self) -> StyledText:
        """Return the edit as an instruction."""
        number = "one" if self.count == 1 else str(self.count)
        where = "" if self.task.job in (None, "localhost") else f" in {self.task}"
        flag = f" (--{self.device_type.lower()} {self.total})" if self.device_type in ("CPU", "GPU") else ""
        return StyledText(f"{number} more {self.device_type}{where}{flag}")

    def apply(self, setting: Setting) -> Setting:
        """Return the edited setting."""
        old = setting.devices
        ids = range(self.total - self.count, self.total)
        added = [_new_device(old, self.task._replace(type=self.device_type, id=i)) for i in ids]
        return replace(setting, devices=DeviceSet((*old.devices, *added), old.local, old.priorities, old.release))


Edit = AnnotationChange | DeviceAddition | BodyDeviceChange | TypeChange | SoftPlacementSwitch | HardwareAddition


def _new_device(devices: DeviceSet, spec: DeviceName) -> Device:
    """Return a new device with the properties of the last device of its type; without one, a GPU of the default model."""
    alike = [device for device in devices.devices if device.type == spec.type]
    if alike:
        last = alike[-1]
        gpu = None if last.gpu is None else last.gpu._replace(tf_id=spec.id or 0)
        return last._replace(name=str(spec), gpu=gpu)
    return Device(str(spec), "GPU", gpu_memory_limit(DEFAULT_MODEL), describe_gpu(DEFAULT_MODEL, spec.id or 0))


def more_devices(devices: DeviceSet, task: DeviceName, device_type: str, total: int | None = None) -> HardwareAddition:
    """Return an edit that adds one device of a type to a task, or enough devices for a total of `total`."""
    present = [d.spec.id or 0 for d in devices.devices if d.type == device_type and d.spec.address_space == task]
    count = max(present, default=-1) + 1
    wanted = count + 1 if total is None else total
    return HardwareAddition(task, device_type, wanted - count, wanted)


def drop(annotation: Annotation, node: str) -> AnnotationChange:
    """Return an edit that removes an annotation; its reach is larger if the annotation does not belong to `node` alone."""
    is_own = annotation.node == node and annotation.kind != AnnotationKind.SCOPE
    return AnnotationChange(annotation, "", Reach.NODE if is_own else Reach.GROUP)
