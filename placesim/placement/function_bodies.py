"""Placements of function bodies: the body of one call, as TensorFlow places it, and the bodies of all calls in a placed graph.

Lowering replaces some calls by the bodies of their functions, which are then part of the placed graph. All other calls run
their functions at run time; each body is placed for the device of its call (9.8).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import count
from typing import NamedTuple

from placesim.core.dtypes import RESOURCE
from placesim.core.errors import OpError
from placesim.core.process.gc_pause import collector_paused
from placesim.graph.functions import FunctionBody, find_function, instantiate, path_of_body
from placesim.graph.graph import Graph, Node, NodeDef
from placesim.machine.device_names import ANY
from placesim.machine.inventory import Device, DeviceSet
from placesim.ops.attributes import FunctionName
from placesim.ops.categories import CALLS, SINGLE_DEVICE_CALLS, WITHOUT_DEFAULT_DEVICE
from placesim.placement.colocation import ColocationGraph
from placesim.placement.constraints import Constraints
from placesim.placement.placer import Placement
from placesim.placement.reasons import DeviceChoice, Reasons
from placesim.placement.session_placer import SessionPlacer

MAX_DEPTH = 32
"""Maximum depth of nested calls whose bodies are shown; deeper calls are only named."""


class Instantiation(IntEnum):
    """A way in which TensorFlow instantiates a function: placed like a graph, or run whole on the device of its call (9.8)."""

    MULTI_DEVICE = 0
    WITHOUT_DEFAULT_DEVICE = 1
    SINGLE_DEVICE = 2


def instantiation_of(node: Node) -> Instantiation:
    """Return the way in which the functions that a node calls are instantiated."""
    # such a body runs whole where the call is, whatever its nodes request (9.8c)
    if node.op in SINGLE_DEVICE_CALLS or node.signature.definition is None:
        return Instantiation.SINGLE_DEVICE
    return Instantiation.WITHOUT_DEFAULT_DEVICE if node.op in WITHOUT_DEFAULT_DEVICE else Instantiation.MULTI_DEVICE


class PlacedBody(NamedTuple):
    """A placed function body: `written` is the body before any rewrite, `placement` the result."""

    written: FunctionBody
    placement: Placement

    @property
    def targets(self) -> list[int]:
        """Ids in the placed graph of the nodes that a call runs: its results and its control dependencies."""
        names, ids = self.written.graph.nodes, self.placement.graph.ids
        return [ids[names[node_id].name] for node_id in (*self.written.results, *self.written.control_results)]


def place_body(
    graph: Graph,
    function: FunctionName,
    how: Instantiation,
    device: str,
    homes: Sequence[str],
    devices: DeviceSet,
    soft: bool,
) -> PlacedBody:
    """Place the body of a function of the graph's library for a call on `device`; `homes` are the devices of its arguments.

    TensorFlow's errors while placing are part of the result.  Raises InvalidArgumentError for an unknown function, and the
    errors of `instantiate`.
    """
    body = instantiate(graph, find_function(graph, function.name), dict(function.attrs))
    if how is Instantiation.SINGLE_DEVICE:
        return PlacedBody(body, _on_one_device(body.graph, device, devices, soft))
    nodes = body.graph.nodes
    # arguments arrive on known devices, so they are placed before all other nodes (9.8a)
    assigned = {nodes[node_id].name: home for node_id, home in zip(body.args, homes, strict=True)}
    if how is Instantiation.WITHOUT_DEFAULT_DEVICE:
        results = (nodes[node_id] for node_id in body.results)
        # ReduceDataset wants its results back on its own device, except resources (9.8b)
        assigned |= {node.name: device for node in results if node.signature.input_dtypes[0] is not RESOURCE}
    default = None if how is Instantiation.WITHOUT_DEFAULT_DEVICE else device
    placement = SessionPlacer(devices, soft, default).place(body.graph, assigned)
    return PlacedBody(body, replace(placement, is_body=True))


def _on_one_device(graph: Graph, name: str, devices: DeviceSet, soft: bool) -> Placement:
    """Place every node on one device regardless of its request, since TensorFlow neither rewrites nor places such a body."""
    device, order = devices.by_name[name], graph.runtime_order()
    groups = ColocationGraph(graph, order, devices, soft)
    held = Constraints(device.spec, device.spec, ANY, ((device.type, 0),))
    groups.constraints = [held] * len(graph)
    choices = bytearray([DeviceChoice.ASSIGNED]) * len(graph)
    return Placement(graph, devices, order, [device] * len(graph), list(order), choices, groups, Reasons(groups), is_body=True)


def body_node(graph: Graph, name: str) -> NodeDef | None:
    """Return the node of a function's body that lowering copied to this node of a placed graph; None for other nodes."""
    origin = graph.origins.get(name)
    function = graph.functions.get(origin.function) if origin is not None else None
    if origin is None or function is None:
        return None
    return next((node for node in function.nodes if node.name == origin.node), None)


# --- the calls of a placed graph ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CalledBody:
    """The body of a function at a calling node; its nodes are named `path/NAME`.

    - `path`: the calling node and the function's name.
    - `depth`: 1 for calls in the graph itself.
    - `placed`: the placed body; None if it cannot be instantiated.
    - `error`: the error of instantiating or placing the body, if any.
    """

    path: str
    call: str
    op: str
    function: str
    how: Instantiation
    device: str
    depth: int
    placed: PlacedBody | None
    error: OpError | None = None

    @property
    def placement(self) -> Placement | None:
        """Placement of the body's nodes; None if it could not be instantiated."""
        return None if self.placed is None else self.placed.placement

    def path_of(self, name: str) -> str:
        """Return the path of one of the body's nodes."""
        return f"{self.path}/{name}"


class Repeat(NamedTuple):
    """A body that is placed exactly like an earlier body: its path, and the path of the earlier body, shown in its place."""

    path: str
    of: str


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies that a placed graph calls, in the order of the calling nodes; each body comes before the bodies that it calls.

    Calls of one function on one device, with arguments from the same devices, share the first body; the others are in
    `repeats`.  `deeper` has the paths of calls that are nested too deep.
    """

    bodies: tuple[CalledBody, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    deeper: tuple[str, ...] = ()

    def standing_for(self, path: str) -> str:
        """Return the path of the body that is shown for this path: for a repeated body, the path of the first one."""
        for _ in range(len(self.repeats) + 1):
            found = next((r for r in self.repeats if path == r.path or path.startswith(f"{r.path}/")), None)
            if found is None:
                break
            path = found.of + path[len(found.path) :]
        return path


NO_BODIES = Bodies()


class LoggedNode(NamedTuple):
    """A node with its device and path; `body` is the path of its body (empty for the main graph), and `graph` contains it.

    If lowering made the node, `lowered_from` is the path of the original node.
    """

    path: str
    node: Node
    device: Device
    graph: Graph
    body: str = ""
    lowered_from: str = ""


def logged_nodes(placement: Placement) -> Iterator[LoggedNode]:
    """Yield all placed nodes of a graph in log order, followed by those of each called body."""
    yield from _logged(placement, None)
    for body in bodies_of(placement).bodies:
        if body.placement is not None:
            yield from _logged(body.placement, body)


def device_at(placement: Placement, path: str) -> Device | None:
    """Return the device of a node by its name, or by its path in a body; None if it does not exist or has no device."""
    if path in placement.graph.ids:
        return placement.devices[placement.graph.ids[path]]
    for body in bodies_of(placement).bodies:
        found = body.placement
        name = path.removeprefix(f"{body.path}/")
        if found is not None and name != path and name in found.graph.ids:
            return found.devices[found.graph.ids[name]]
    return None


def _logged(placement: Placement, body: CalledBody | None) -> Iterator[LoggedNode]:
    graph, devices = placement.graph, placement.devices
    nodes, origins = graph.nodes, graph.origins
    path, prefix = ("", "") if body is None else (body.path, f"{body.path}/")
    for node_id in placement.log:
        node, device = nodes[node_id], devices[node_id]
        if device is not None:
            origin = origins.get(node.name) if origins else None
            yield LoggedNode(prefix + node.name, node, device, graph, path, prefix + origin.path if origin else "")


def bodies_of(placement: Placement) -> Bodies:
    """Return the bodies that the nodes of a placed graph call; none if placing the graph failed."""
    if placement.error is not None or not placement.graph.functions:
        return NO_BODIES
    found = placement.known.get("bodies")
    if found is None:
        with collector_paused():
            found = placement.known["bodies"] = _Finder(placement).find()
    return found


class _Call(NamedTuple):
    """A function that a node calls: its path, the device of each argument (`homes`), and its depth."""

    path: str
    caller: str
    node: Node
    function: FunctionName
    device: str
    homes: tuple[str, ...]
    depth: int


class _Finder:
    """Finds the bodies of all calls, including calls in bodies."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._known: dict[Hashable, str] = {}
        self._taken: set[str] = set()
        self._bodies: list[CalledBody] = []
        self._repeats: list[Repeat] = []
        self._deeper: list[str] = []

    def find(self) -> Bodies:
        waiting = list(self._calls(self._placement, "", 1))[::-1]
        while waiting:
            call = waiting.pop()
            found = self._look_into(call)
            if found is not None and found.error is None and found.placement is not None:
                waiting += list(self._calls(found.placement, f"{found.path}/", call.depth + 1))[::-1]
        return Bodies(tuple(self._bodies), tuple(self._repeats), tuple(self._deeper))

    def _look_into(self, call: _Call) -> CalledBody | None:
        """Add the body of a call and return it; None if it is already known or nested too deep."""
        how = instantiation_of(call.node)
        # TensorFlow instantiates a function once for equal calls (9.8)
        key = (call.function.key, how, call.device, call.homes)
        first = self._known.get(key)
        if first is not None:
            if first != call.path:
                self._repeats.append(Repeat(call.path, first))
            return None
        if call.depth > MAX_DEPTH:
            self._deeper.append(call.path)
            return None
        path = self._known[key] = self._free(call.path)
        placed, error = self._place(call, how)
        made = CalledBody(
            path=path,
            call=call.caller,
            op=call.node.op,
            function=call.function.name,
            how=how,
            device=call.device,
            depth=call.depth,
            placed=placed,
            error=error,
        )
        self._bodies.append(made)
        return made

    def _place(self, call: _Call, how: Instantiation) -> tuple[PlacedBody | None, OpError | None]:
        devices, soft = self._placement.device_set, self._placement.groups.soft
        try:
            placed = place_body(self._placement.graph, call.function, how, call.device, call.homes, devices, soft)
        except OpError as error:
            return None, error
        return placed, placed.placement.error

    def _free(self, path: str) -> str:
        """Return the path, numbered if a scope or the same function with other attrs already has it."""
        found = path if path not in self._taken else next(p for n in count(1) if (p := f"{path}_{n}") not in self._taken)
        self._taken.add(found)
        return found

    # --- which nodes call what

    def _calls(self, placement: Placement, prefix: str, depth: int) -> Iterator[_Call]:
        """Yield the functions that a placed graph's nodes call, in the order of the nodes."""
        graph = placement.graph
        ops = {op for op, node in {node.signature.op: node for node in graph.nodes}.items() if calls_bodies(node)}
        calling = [node for node in graph.nodes if node.signature.op in ops] if ops else []
        if not calling:
            return
        self._taken.update(prefix + scope for scope in _scopes_under({node.name for node in calling}, graph))
        for node in calling:
            device = placement.devices[node.id]
            if device is None:
                continue
            caller = prefix + node.name
            for attr, function in called_functions(node):
                homes = tuple(_homes(placement, node, attr, function, device.name))
                yield _Call(path_of_body(caller, function.name), caller, node, function, device.name, homes, depth)


def calls_bodies(node: Node) -> bool:
    """Return whether a node's op is known to run its functions in this session."""
    definition = node.signature.definition
    if definition is None or node.op in CALLS or node.op in SINGLE_DEVICE_CALLS:
        return True
    # of other ops with function attrs it is not known where they run their functions
    return "Dataset" in node.op and any(attr.type in _FUNCTION_TYPES for attr in definition.attrs.values())


_FUNCTION_TYPES = ("func", "list(func)")


def called_functions(node: Node) -> Iterator[tuple[str, FunctionName]]:
    """Yield the functions that a node's attrs name, each with the attr, in the order of the op's definition.

    If the op is itself the name of a function, yield that function with the node's attrs, and an empty attr name.
    """
    definition = node.signature.definition
    if definition is None:
        yield "", FunctionName(node.op, tuple(node.attrs.items()))
        return
    for attr in definition.attrs.values():
        value = node.attrs.get(attr.name) if attr.type in _FUNCTION_TYPES else None
        for function in (value,) if isinstance(value, FunctionName) else value or ():
            if function.name:
                yield attr.name, function


def _homes(placement: Placement, node: Node, attr: str, function: FunctionName, device: str) -> Iterator[str]:
    """Yield the device of each argument: a resource stays on its own device, all other arguments are on the call's device."""
    if instantiation_of(node) is Instantiation.SINGLE_DEVICE:
        return
    found = placement.graph.functions.get(function.name)
    count = 0 if found is None else len(found.inputs)
    given = _captured(node, attr) if node.op not in CALLS else range(len(node.input_nodes))
    # the first arguments of a dataset's function are the elements, which no input of the node holds
    positions = [None] * (count - len(given)) + list(given)
    for position in positions[:count]:
        source = None if position is None else placement.devices[node.input_nodes[position]]
        is_resource = position is not None and node.signature.input_dtypes[position] is RESOURCE
        # a resource cannot be copied: it stays where it is (9.8a)
        yield source.name if is_resource and source is not None else device


def _captured(node: Node, attr: str) -> range:
    """Return the range of a dataset's inputs that its function gets as arguments after the element. An attr has their types."""
    definition, attrs = node.signature.definition, node.signature.attrs
    start = 0
    for arg in definition.inputs if definition is not None else ():
        width = len(arg.dtypes(attrs))
        if arg.type_list_attr in (f"T{attr}_other_arguments", f"T{attr}_args", "Targuments"):
            return range(start, start + width)
        start += width
    return range(0)


def _scopes_under(calls: set[str], graph: Graph) -> Iterator[str]:
    """Yield `call/f` for each node `call/f` or `call/f/x` of the graph itself."""
    for node in graph.nodes:
        end = node.name.find("/")
        while end >= 0:
            following = node.name.find("/", end + 1)
            if node.name[:end] in calls:
                yield node.name if following < 0 else node.name[:following]
            end = following
