"""Constraints that a function's body sets for the nodes around a call that returns resources (5.8).

The groups of the body join its arguments and results. In the same way, the nodes outside that feed these arguments or read
these results are joined, and limited to the devices of the body's group. The call itself is neither joined nor limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from placesim.core.dtypes import RESOURCE
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.graph.functions import find_function, instantiate
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import function_tag, node_tag
from placesim.machine.device_names import MergeConflict
from placesim.ops.attributes import FunctionName
from placesim.ops.categories import CALLS
from placesim.placement.colocation import Cause, ColocationGraph
from placesim.placement.constraints import Constraints
from placesim.placement.edge_constraints import join_edge
from placesim.placement.group_messages import conflict_message, log_lines
from placesim.placement.rewrites import isolate_calls_in, returns_resource


class CallFrame(NamedTuple):
    """One call in a chain of calls: the calling node, the function that contains it (empty for the graph), and the called
    function.
    """

    node: str
    caller: str
    called: str


Build = Callable[[ColocationGraph, tuple[CallFrame, ...]], None]
"""Builds the groups of a body at the end of a chain of calls, by all steps of grouping (5.2)."""


class IoGroup(NamedTuple):
    """A group of a function's body that contains arguments (`inputs`) or results (`outputs`), given by their positions."""

    constraints: Constraints
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


# nested calls multiply these lines, and a graph of a few functions could fill the memory with its log
MAX_BODY_LOG_LINES = 1 << 16
"""Maximum number of log lines from bodies in a graph; each call repeats the lines of its function and of nested calls."""


class GroupedBody(NamedTuple):
    """Constraints that a function's body sets for the nodes around any call of it, and the log lines of each call."""

    groups: tuple[IoGroup, ...]
    log: tuple[str, ...]


class _Reader(NamedTuple):
    """A node that reads an output of a call, and the input slot that reads it."""

    node: Node
    slot: int


def find_deep_calls(graph: Graph, order: Sequence[int]) -> dict[int, Node]:
    """Return the calls whose function returns a resource, by runtime id.

    Raises InvalidArgumentError for an unknown function.
    """
    if not any(signature.op in CALLS for signature in graph.signatures.all()):
        return {}
    calls = (node for i in order if (node := graph.nodes[i]).op in CALLS)
    return {node.id: node for node in calls if returns_resource(graph, node)}


def join_deep_calls(groups: ColocationGraph, calls: dict[int, Node], stack: tuple[CallFrame, ...], build: Build) -> None:
    """Join and limit the nodes around each call as its function's body requires; `stack` is the chain of calls to this graph.

    Raises UnimplementedError if a function calls itself, and InvalidArgumentError if body and graph contradict each other.
    Errors of grouping the body are raised too.
    """
    if not calls:
        return
    readers = _readers(groups, calls)
    # TensorFlow iterates over a hash set of pointers. Without collisions, this order begins with the last inserted call.
    for node_id, call in reversed(calls.items()):
        found = io_groups(groups, call, stack, build)
        attached = _attached(found, call, readers[node_id])
        for nodes in attached:
            _tie(groups, call, nodes)
        for group, nodes in zip(found, attached, strict=True):
            if nodes:
                _limit(groups, nodes[0].node, group.constraints)


def io_groups(groups: ColocationGraph, call: Node, stack: tuple[CallFrame, ...], build: Build) -> tuple[IoGroup, ...]:
    """Return the groups that a called function's body makes of its arguments and results.

    A function is grouped once for all its calls.  The chain of calls does not matter, since a recursive function cannot be
    grouped.
    Raises UnimplementedError if a function calls itself, and InvalidArgumentError for an unknown function.  Errors of grouping
    the body are raised too.
    """
    called: FunctionName = call.attrs["f"]
    body = groups.bodies.get(called.key)
    if body is None:
        body = groups.bodies[called.key] = _group_body(groups, call, stack, build)
    groups.notes += body.log[: max(0, MAX_BODY_LOG_LINES - len(groups.notes))]
    return body.groups


def _group_body(groups: ColocationGraph, call: Node, stack: tuple[CallFrame, ...], build: Build) -> GroupedBody:
    called = call.attrs["f"]
    graph = groups.graph
    body = instantiate(graph, find_function(graph, called.name), dict(called.attrs))
    isolated = isolate_calls_in(body.graph)
    caller = stack[-1].called if stack else ""
    # TensorFlow looks at the chain of calls by function name, so a recursion through other attrs is one too (5.8)
    if called.name in {name for frame in stack for name in (frame.caller, frame.called)}:
        raise UnimplementedError(_recursion(stack, call, called.name), node=call.name)
    order = isolated.runtime_order()
    # the same devices and soft placement as outside; bodies are shared, since nested calls repeat functions (5.8)
    inside = ColocationGraph(isolated, order, groups.devices, groups.soft, default_device=groups.default_device)
    inside.bodies = groups.bodies
    build(inside, (*stack, CallFrame(call.name, caller, called.name)))
    members: dict[int, tuple[list[int], list[int]]] = {}
    for side, ends in enumerate((body.args, body.results)):
        for position, end in enumerate(ends):
            root = inside.root(isolated.ids[body.graph.nodes[end].name])
            members.setdefault(root, ([], []))[side].append(position)
    found = (IoGroup(inside.constraints[root], tuple(args), tuple(results)) for root, (args, results) in members.items())
    return GroupedBody(tuple(found), tuple(log_lines(inside)))


def _recursion(stack: Sequence[CallFrame], call: Node, called: str) -> str:
    lines: list[str] = []
    for node, caller, target in stack:
        where = f"Function {function_tag(caller)}" if caller else "Graph"
        lines += [
            f"{where} contains node {node_tag(node)}",
            f"Node {node_tag(node)} calls function {function_tag(target)}",
        ]
    return (
        f"Recursive function calls are not supported. Node {node_tag(call.name)} inside the body of "
        f"{function_tag(stack[-1].called)} calls function {function_tag(called)} "
        "which is already present in the call stack:\n  " + "\n  ".join(lines)
    )


def _readers(groups: ColocationGraph, calls: Mapping[int, Node]) -> dict[int, list[_Reader]]:
    """Return the readers of each call, sorted by their runtime ids."""
    found: dict[int, list[_Reader]] = {node_id: [] for node_id in calls}
    for node_id in groups.order:
        node = groups.graph.nodes[node_id]
        for slot, source in enumerate(node.input_nodes):
            if source in found:
                found[source].append(_Reader(node, slot))
    return found


class _OutsideMember(NamedTuple):
    """A node outside the body that belongs to one of the body's groups; `reader` is set if it reads a resource of the call."""

    node: int
    reader: Node | None


def _attached(found: Sequence[IoGroup], call: Node, readers: Sequence[_Reader]) -> list[list[_OutsideMember]]:
    """Return for each group of the body the nodes outside: first the nodes that feed its arguments, then the readers."""
    group_of_output = {output: number for number, group in enumerate(found) for output in group.outputs}
    # inputs come first: the first member is the one with which all others are joined (5.8)
    attached = [[_OutsideMember(call.input_nodes[i], None) for i in group.inputs] for group in found]
    for node, slot in readers:
        reads_resource = node.signature.input_dtypes[slot] is RESOURCE
        number = group_of_output[node.input_slots[slot]]
        attached[number].append(_OutsideMember(node.id, node if reads_resource else None))
    return attached


def _tie(groups: ColocationGraph, call: Node, nodes: Sequence[_OutsideMember]) -> None:
    for other in nodes[1:]:
        # an edge into a resource input overrides a conflicting request; a plain join fails (5.6, 5.8)
        if other.reader is not None:
            join_edge(groups, nodes[0].node, other.reader, Cause.FUNCTION, call.name)
        else:
            conflict = groups.join(nodes[0].node, other.node, Cause.FUNCTION, call.name)
            if conflict is not None:
                raise InvalidArgumentError(conflict_message(groups, conflict), node=groups.graph.nodes[other.node].name)


def _limit(groups: ColocationGraph, node_id: int, inside: Constraints) -> None:
    requested, _, resource = inside.specs
    try:
        groups.limit(node_id, requested, resource, inside.types)
    except MergeConflict as conflict:
        raise InvalidArgumentError(str(conflict), node=groups.graph.nodes[node_id].name) from None
