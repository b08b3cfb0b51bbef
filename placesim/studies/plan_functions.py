"""A plan as a Python file with a device function for `tf.device`, which needs no placesim."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from placesim.formats.device_annotations import assign_devices
from placesim.graph.graph import Graph
from placesim.graph.node_patterns import enclosing_scopes, matcher
from placesim.graph.session_steps import GraphFile
from placesim.inspection.short_device_names import short_names
from placesim.machine.device_names import format_spec, parse_python_spec
from placesim.ops.categories import MOVED_BY_PARTITIONER
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.graphs.plan_annotations import devices_by_name, find_misplaced_nodes
from placesim.planning.graphs.plan_comparison import PlanStudy
from placesim.planning.graphs.requests_by_name import request_words

_FILE = '''"""Devices of {name}, {origin}.

Build the model in a script within the device function, for example:

    import {module}

    with tf.device({module}.planned_device):
        build_model()
{soft}"""

{imports}DEVICES = {devices}
"""The device of an op by its name, or of a scope and its op by the name with `/`. `/` alone is the whole graph."""
{freed}

def planned_device(op):
    """Return the device of an op: its own request if that counts, else the planned one; "" stands for none."""
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


class DeviceRequests(NamedTuple):
    """The device requests that a file must express, from a plan or from other edits of a graph. All devices are full names.

    - `name`: the name of the graph; `origin`: the source of the requests, in words.
    - `asked`: the requests by node with which TensorFlow places the graph as planned.
    - `edits`: the same requests by path: scopes with a slash at the end, nodes, and `*` for the whole graph.
    - `free`: patterns of the nodes whose original requests are ignored.
    - `places`: the allowed devices of each node that is checked. Nodes that the partitioner moves are not.
    """

    name: str
    origin: str
    asked: Mapping[str, str]
    edits: Mapping[str, str]
    free: Sequence[str]
    places: Mapping[str, Set[str]]


def plan_requests(study: PlanStudy, free: Sequence[str]) -> DeviceRequests:
    """Return the requests of a plan, which drops the requests of nodes that match `free`."""
    assert study.plan is not None
    assert study.plan.study is not None
    ran: dict[str, set[str]] = {}
    for run in study.plan.study.nodes:  # nodes in a function's body may have the same names
        if run.op not in MOVED_BY_PARTITIONER:
            ran.setdefault(run.node, set()).add(run.device)
    names = [device.device for device in study.plan.study.devices]
    return DeviceRequests(study.name, "planned by `placesim plan`", study.asked, _edited_paths(study, names), free, ran)


def _edited_paths(study: PlanStudy, names: Sequence[str]) -> dict[str, str]:
    """Return the devices of a plan's edits by path; without edits, the devices of its requests."""
    if not study.curve:
        return {f"{name}/": device for name, device in study.asked.items()}
    full = dict(zip(short_names(names), names, strict=True))
    own = {edit.path if edit.path == "*" else f"{edit.path.rstrip('/')}/": full[edit.device] for edit in study.edits}
    return {path: full[edit.device] for edit in study.edits for path in edit.gradients} | own


def function_text(file: GraphFile, planned: Placement, requests: DeviceRequests, module: str) -> tuple[str, list[str]]:
    """Return the text of a file `module.py` with a device function, and the nodes that the function misplaces.

    `file` is the graph as it was read, and `planned` its placement with the requests.
    """
    words, free = request_words(planned.device_set), requests.free
    where = {
        name: words[device]
        for name, device in devices_by_name(planned).items()
        if name in file.graph.ids and _INITIALIZER not in name
    }
    devices = {path.replace("*", "/"): words[device] for path, device in requests.edits.items()}
    wrong = _misplaced(file, planned, devices, free)
    if wrong:  # the fewest rows: the edits and further nodes, the requests of single nodes, or the devices of all nodes
        ways = (
            devices | {name: where[name] for name in wrong if name in where},
            {name: words[device] for name, device in requests.asked.items()},
            where,
        )
        tried = [(devices, wrong), *((way, _misplaced(file, planned, way, free)) for way in ways)]
        devices, wrong = min(tried, key=lambda row: (len(row[1]), len(row[0])))
    is_all = "*" in free
    text = _FILE.format(
        name=re.sub(r'["\\]', "'", requests.name),
        origin=requests.origin,
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


def _misplaced(file: GraphFile, planned: Placement, devices: Mapping[str, str], free: Sequence[str]) -> list[str]:
    """Return the nodes that are not on their planned devices with a device function; all if TensorFlow rejects the graph."""
    where = {name: device for name, device in devices_by_name(planned).items() if name in file.graph.ids}
    asked = requests_in_script(file.graph, _device_function(devices, matcher(free) if free else lambda name: False))
    placed = SessionPlacer(planned.device_set, planned.groups.soft).place(assign_devices(file, asked).graph)
    return list(where) if placed.error is not None else find_misplaced_nodes(placed, where)


def _device_function(devices: Mapping[str, str], is_freed: Callable[[str], bool]) -> Callable[[str, str], str]:
    """Return the device function of the written file, which takes a node's name and its own request."""

    def device_of(name: str, own: str) -> str:
        if own and not is_freed(name):
            return own
        scopes = reversed(list(enclosing_scopes(f"{name}/")))
        return next((devices[path] for path in (name, *scopes, "/") if path in devices), "" if is_freed(name) else own)

    return device_of


def requests_in_script(graph: Graph, device_of: Callable[[str, str], str]) -> dict[str, str]:
    """Return the requests of all nodes if a script had built the graph within a device function.

    `colocate_with` hides the function, so a node that copied the request of a colocated node copies the new one. Variables
    build their initial values under `tf.device(None)`, which also hides the function (resource_variable_ops.py,
    `_init_from_args`).
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
