"""Alternatives to a node's placement: single edits, each tried by placing the edited graph, the smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.graph.graph import Graph, Node
from placesim.inspection.explaining.annotations import Annotation, AnnotationKind
from placesim.inspection.explaining.edits import (
    AnnotationChange,
    BodyDeviceChange,
    DeviceAddition,
    Edit,
    Setting,
    SoftPlacementSwitch,
    TypeChange,
    drop,
    more_devices,
)
from placesim.inspection.explaining.proof import Proof
from placesim.inspection.explaining.trials import Trial, Trials
from placesim.machine.device_names import DeviceName, parse_runtime_name
from placesim.machine.inventory import MAX_COUNT, Device, DeviceSet
from placesim.placement.function_bodies import Instantiation

_MAX_DEVICES = 4
"""Maximum number of devices that are tried instead of a requested device."""
_PREFERRED_TYPES = ("float", "half", "double", "int64", "int32")


class Alternatives(NamedTuple):
    """The edits that change a placement, smallest first, and the number of edits that were not tried."""

    outcomes: tuple[Trial, ...]
    untried: int


def find_alternatives(trials: Trials, found: Proof) -> Alternatives:
    """Return the edits that put a node on another device."""
    outcomes, untried = _try_all(trials, list(candidate_edits(trials.setting, found)), found.node)
    kept = [outcome for outcome in outcomes if outcome.error is None and outcome.device not in (None, found.device)]
    return Alternatives(tuple(sorted(kept, key=_size)), untried)


def find_remedies(trials: Trials, found: Proof | None, conflict: Sequence[Annotation], node: str | None) -> Alternatives:
    """Return the edits that fix a graph that can't be placed; `conflict` has the conflicting annotations.

    Edits after which the graph can be placed come first, then edits after which the error is at another node.
    """
    edits = list(dict.fromkeys(_remedies(trials.setting, found, conflict, node)))
    outcomes, untried = _try_all(trials, edits, node or "")
    mended = [outcome for outcome in outcomes if outcome.error is None or outcome.error.node != node]
    return Alternatives(tuple(sorted(mended, key=lambda outcome: (outcome.error is not None, *_size(outcome)))), untried)


def _try_all(trials: Trials, edits: Sequence[Edit], node: str) -> tuple[list[Trial], int]:
    outcomes: list[Trial] = []
    for edit in edits:
        if trials.remaining <= 0:
            break
        outcomes.append(trials.attempt(edit, node))
    return outcomes, len(edits) - len(outcomes)


def _size(outcome: Trial) -> tuple[int, int, int]:
    """Return a key that sorts edits: by extent, then by the number of moved nodes, then by line."""
    location = outcome.edit.location
    return outcome.edit.reach, outcome.moved, 0 if location is None else location.line


# --- candidates -----------------------------------------------------------------------------------------------------


def candidate_edits(setting: Setting, found: Proof) -> Iterator[Edit]:
    """Yield edits that may change a node's device: first of the node, the session and the machine, then of the node's group."""
    graph = setting.graph
    if found.node in graph.ids:
        yield from _own_edits(setting, graph.node(found.node), found)
    yield from _body_edits(setting, found)
    yield SoftPlacementSwitch(not setting.soft)
    task = parse_runtime_name(found.device or "") or setting.devices.client.spec
    for device_type in found.types:
        if device_type in ("CPU", "GPU"):
            yield more_devices(setting.devices, task.address_space, device_type)
    if "GPU" not in setting.devices.types:
        yield more_devices(setting.devices, task.address_space, "GPU")
    yield from _type_edits(graph, found)
    yield from _group_edits(setting, found)


def _own_edits(setting: Setting, node: Node, found: Proof) -> Iterator[Edit]:
    annotations = setting.annotations.of_node(node)
    for annotation in annotations:
        yield drop(annotation, node.name)
    devices = _other_devices(setting.devices, found.types, found.device)
    for annotation in annotations:
        if annotation.kind != AnnotationKind.LABEL:
            yield from _changes(annotation, node.name, devices)
    if all(annotation.kind in (AnnotationKind.SCOPE, AnnotationKind.LABEL) for annotation in annotations):
        names = tuple(made.name for made in setting.annotations.entry_nodes(node))
        for device in devices if names else ():
            yield DeviceAddition(min(names, key=len), names, device, setting.graph.location(node))


def _body_edits(setting: Setting, found: Proof) -> Iterator[Edit]:
    """Yield edits for a node of a function: of the node's request, if the request has an effect, and of the calling node's."""
    node = found.written_in_body
    if node is not None and (found.body is None or found.body.how is not Instantiation.SINGLE_DEVICE):
        function, definition = node
        devices = ("", *_other_devices(setting.devices, found.types, found.device))
        location = setting.graph.located(definition.location)
        for device in devices:
            if device != definition.device:
                yield BodyDeviceChange(function, definition.name, definition.device, device, location)
    if found.body is not None and found.body.call in setting.graph.ids:
        yield from _own_edits(setting, setting.graph.node(found.body.call), found)


def _group_edits(setting: Setting, found: Proof) -> Iterator[Edit]:
    """Yield edits of the other members of the group, and of the node whose device was used.

    Edits of devices come before edits of labels, since there may be many labels.
    """
    names = [name for name in found.group.members if name != found.node] if found.group else []
    if found.followed is not None and found.followed not in names:
        names.append(found.followed)
    nodes = [setting.graph.node(name) for name in names if name in setting.graph.ids]
    own = set(setting.annotations.of_node(setting.graph.node(found.node))) if found.node in setting.graph.ids else set()
    annotations = list(dict.fromkeys(a for node in nodes for a in setting.annotations.of_node(node) if a not in own))
    devices = _other_devices(setting.devices, found.types, found.device)
    for annotation in sorted(annotations, key=lambda annotation: annotation.kind == AnnotationKind.LABEL):
        yield drop(annotation, found.node)
        if annotation.kind != AnnotationKind.LABEL:
            yield from _changes(annotation, found.node, devices)


def _changes(annotation: Annotation, node: str, devices: Sequence[str]) -> Iterator[Edit]:
    reach = drop(annotation, node).reach
    return (AnnotationChange(annotation, device, reach) for device in devices if device != annotation.text)


def _type_edits(graph: Graph, found: Proof) -> Iterator[Edit]:
    """Yield edits to another element type, if only the type excludes a kernel.

    If possible, an integer type is replaced by another integer type.
    """
    if found.node not in graph.ids:
        return
    members = found.group.members if found.group else ()
    others = tuple(name for name in members if name != found.node and name in graph.ids)
    for support in found.kernels:
        for exclusion in support.exclusions if support.priority is None else ():
            if isinstance(exclusion.value, DataType):
                dtypes = [dtype for dtype in exclusion.allowed if isinstance(dtype, DataType)]
                preferred = ("int64", *_PREFERRED_TYPES) if exclusion.value.is_integer else _PREFERRED_TYPES
                best = min(dtypes, key=lambda dtype: (*preferred, dtype.name).index(dtype.name))
                yield TypeChange(found.node, exclusion.attr, exclusion.value, best, found.location, others)


def _other_devices(devices: DeviceSet, types: Sequence[str], current: str | None) -> list[str]:
    """Return requests for some other devices that the group's kernels allow: the first of each type, then further devices."""
    able = [device for device in devices.ordered if device.type in types and device.name != current]
    firsts = list({(device.type, device.spec.address_space): device for device in reversed(able)}.values())[::-1]
    chosen = [*firsts, *(device for device in able if device not in firsts)][:_MAX_DEVICES]
    return [_request(device, devices) for device in chosen]


def _request(device: Device, devices: DeviceSet) -> str:
    """Return a short request for a device, without the task if there is only one."""
    spec = device.spec
    several = len({other.spec.address_space for other in devices.devices}) > 1
    return str(spec if several else DeviceName(type=spec.type, id=spec.id))


# --- remedies -------------------------------------------------------------------------------------------------------


def _remedies(setting: Setting, found: Proof | None, conflict: Sequence[Annotation], node: str | None) -> Iterator[Edit]:
    types = found.types if found is not None else setting.devices.types
    devices = _other_devices(setting.devices, types, None)
    for annotation in conflict:
        yield drop(annotation, node or "")
        if annotation.kind != AnnotationKind.LABEL:
            yield from _changes(annotation, node or "", devices)
    if not setting.soft:
        yield SoftPlacementSwitch(True)
    for spec in (parse_runtime_name(a.text) for a in conflict if a.kind != AnnotationKind.LABEL):
        yield from _missing_devices(setting, spec)
    if setting.devices.devices and "GPU" not in setting.devices.types:
        yield more_devices(setting.devices, setting.devices.client.spec.address_space, "GPU")
    if found is not None:
        yield from _type_edits(setting.graph, found)


def _missing_devices(setting: Setting, spec: DeviceName | None) -> Iterator[Edit]:
    """Yield edits that add devices: enough for one request, or enough for all requests for the same device type.

    There are no edits if the number of devices would exceed the limit of a machine.
    """
    if spec is None or spec.type not in ("CPU", "GPU"):
        return
    tasks = [d.spec.address_space for d in setting.devices.devices if spec.address_space.matches(d.spec.address_space)]
    asked = [parse_runtime_name(device) for device in {node.device for node in setting.graph.nodes}]
    highest = [other.id for other in asked if other is not None and other.type == spec.type and other.id is not None]
    for task in dict.fromkeys(tasks[:1]):
        for total in dict.fromkeys(((spec.id or 0) + 1, max(highest, default=0) + 1)):
            edit = more_devices(setting.devices, task, spec.type, total)
            if edit.count > 0 and total <= MAX_COUNT:
                yield edit
