"""A plan as a Python file with a device function for `tf.device`, which needs no placesim."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from placesim.formats.device_annotations import assign_devices
from placesim.graph.graph import Graph
from placesim.graph.node_patterns import enclosing_scopes, matcher
from placesim.graph.session_steps import GraphFile
from placesim.inspection.short_device_names import short_names
from placesim.machine.device_names import format_spec, parse_python_spec
from placesim.machine.inventory import DeviceSet
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.graphs.plan_annotations import devices_by_name, find_misplaced_nodes
from placesim.planning.graphs.plan_comparison import PlanStudy
from placesim.planning.graphs.requests_by_name import request_words

_FILE = '''"""Devices of {name}, planned by `placesim plan`.

Build the model in a script within the device function, for example:

    import {module}

    with tf.device({module}.planned_device):
        build_model()
{soft}"""

{imports}DEVICES = {devices}
"""The device of an op by its name, or of a scope and its op by the name with `/`. `/` alone is the whole graph."""
{freed}

def planned_device(op):
    """Return the device of an op: a planned one, or the one that it requests itself."""
{held}    parts = op.name.split("/")
    scopes = ["/".join(parts[:end]) + "/" for end in range(len(parts), 0, -1)]
    for path in (op.name, *scopes, "/"):
        if path in DEVICES:
            return DEVICES[path]
    return {otherwise}
'''
_INITIALIZER = "/Initializer/"
"""Part of the names of nodes that make a variable's initial value."""
_SOFT = "\nThe plan needs `allow_soft_placement=True` in the session's config.\n"
_FREED = '''
FREED = {patterns}
"""Patterns of the ops whose own requests do not count."""

'''
_IS_FREED = """
def _is_freed(op):
    return any(
        op.name == pattern or fnmatchcase(op.name, pattern) or (pattern.endswith("/") and op.name.startswith(pattern))
        for pattern in FREED
    )

"""


def function_text(
    file: GraphFile, planned: Placement, study: PlanStudy, free: Sequence[str], module: str
) -> tuple[str, list[str]]:
    """Return the text of a file `module`.py with the plan's device function, and the nodes that it places otherwise.

    `file` is the graph as it was read, and `planned` its placement with the plan.
    """
    words = request_words(planned.device_set)
    # the edits of scopes, if they suffice, else the requests of single nodes, else the devices of all nodes
    ways = (
        {path.replace("*", "/"): word for path, word in edit_words(study, planned.device_set).items()},
        {name: words[device] for name, device in study.asked.items()},
        {
            name: words[device]
            for name, device in devices_by_name(planned).items()
            if name in file.graph.ids and _INITIALIZER not in name
        },
    )
    devices, wrong = min(((way, _misplaced(file, planned, way, free)) for way in ways), key=lambda row: len(row[1]))
    is_all = "*" in free
    text = _FILE.format(
        name=re.sub(r'["\\]', "'", study.name),
        module=module,
        soft=_SOFT if planned.groups.soft else "",
        imports="from fnmatch import fnmatchcase\n\n" if free and not is_all else "",
        devices="".join(
            ["{\n", *(f"    {json.dumps(path)}: {json.dumps(device)},\n" for path, device in devices.items()), "}"]
        ),
        freed=_FREED.format(patterns=repr(tuple(free))) + _IS_FREED if free and not is_all else "",
        held="" if is_all else f"    if op.device{' and not _is_freed(op)' if free else ''}:\n        return op.device\n",
        otherwise='""' if free else "op.device",
    )
    return text, wrong


def edit_words(study: PlanStudy, device_set: DeviceSet) -> dict[str, str]:
    """Return the devices of a plan's edits by path, as `tf.device` takes them; without edits, those of its requests."""
    words = request_words(device_set)
    if not study.curve:
        return {f"{name}/": words[device] for name, device in study.asked.items()}
    names = [device.name for device in device_set.devices]
    full = dict(zip(short_names(names), names, strict=True))
    own = {edit.path: words[full[edit.device]] for edit in study.edits}
    return {path: words[full[edit.device]] for edit in study.edits for path in edit.gradients} | own


def _misplaced(file: GraphFile, planned: Placement, devices: Mapping[str, str], free: Sequence[str]) -> list[str]:
    """Return the nodes that TensorFlow places otherwise than planned with a device function; all if it refuses the graph."""
    where = {name: device for name, device in devices_by_name(planned).items() if name in file.graph.ids}
    asked = requests_in_script(file.graph, _device_function(devices, matcher(free) if free else lambda name: False))
    placed = SessionPlacer(planned.device_set, planned.groups.soft).place(assign_devices(file, asked).graph)
    return list(where) if placed.error is not None else find_misplaced_nodes(placed, where)


def _device_function(devices: Mapping[str, str], is_freed: Callable[[str], bool]) -> Callable[[str, str], str]:
    """Return the function of the written file, of a node's name and its own request."""

    def device_of(name: str, own: str) -> str:
        if own and not is_freed(name):
            return own
        scopes = reversed(list(enclosing_scopes(f"{name}/")))
        return next((devices[path] for path in (name, *scopes, "/") if path in devices), "" if is_freed(name) else own)

    return device_of


def requests_in_script(graph: Graph, device_of: Callable[[str, str], str]) -> dict[str, str]:
    """Return the requests of all nodes if a script had built the graph within a device function.

    `colocate_with` hides the function, so a node that copied the request of a colocated node copies the new one.  Variables
    build their initial values under `tf.device(None)`, which hides it too (resource_variable_ops.py, `_init_from_args`).
    """
    asked: dict[str, str] = {}
    for node in graph.nodes:
        if _INITIALIZER in node.name:
            asked[node.name] = node.device
            continue
        labels = node.attrs.get("_class")
        names = [str(label).removeprefix("loc:@") for label in labels] if isinstance(labels, tuple) else []
        copied = (asked[name] for name in names if name in asked and graph.node(name).device == node.device)
        own = next(copied, None)
        asked[node.name] = format_spec(parse_python_spec(device_of(node.name, node.device))) if own is None else own
    return asked
