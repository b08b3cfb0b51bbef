"""Function calls that return resources: what their bodies ask of the nodes around them (5.8).

The groups of the body tie arguments and results to each other; outside, the nodes that feed and read them are tied alike and
limited to what the body's group may be placed on.  The call itself is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from placesim.dtypes import RESOURCE
from placesim.errors import UnimplementedError
from placesim.graph.functions import find_function, instantiate
from placesim.graph.graph import Graph, Node
from placesim.ops.categories import CALLS
from placesim.placement.constraints import Constraints
from placesim.placement.rewrites import isolate_calls_in, returns_resource

if TYPE_CHECKING:
    from placesim.placement.colocation import ColocationGraph


class Frame(NamedTuple):
    """One call on the way into a body: the node that calls, the function it is in (empty: the graph), and the one called."""

    node: str
    caller: str
    called: str


class IoGroup(NamedTuple):
    """A group of a function's body that has arguments (`inputs`) or results (`outputs`) in it, by their positions."""

    constraints: Constraints
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class _Reader(NamedTuple):
    """A node that reads an output of a call, and the input slot at which it does."""

    node: Node
    slot: int


def find_deep_calls(graph: Graph, order: Sequence[int]) -> dict[int, Node]:
    """The calls whose function returns a resource, by runtime id; raises InvalidArgumentError for an unknown function."""
    if not any(signature.op in CALLS for signature in graph.signatures.all()):
        return {}
    calls = (node for i in order if (node := graph.nodes[i]).op in CALLS)
    return {node.id: node for node in calls if returns_resource(graph, node)}


def join_deep_calls(groups: ColocationGraph, calls: dict[int, Node]) -> None:
    """Tie and limit the nodes around each call as its function's body does.

    TensorFlow keeps the calls in a hash set of pointers, which hands out first what was put in last, but for collisions.
    """
    if not calls:
        return
    readers = _readers(groups, calls)
    for node_id, call in reversed(calls.items()):
        found = io_groups(groups, call)
        attached = _attached(found, call, readers[node_id])
        for nodes in attached:
            _tie(groups, call, nodes)
        for group, nodes in zip(found, attached, strict=True):
            if nodes:
                requested, _, resource = group.constraints.specs
                groups.limit(nodes[0].node, requested, resource, group.constraints.types)


def io_groups(groups: ColocationGraph, call: Node) -> list[IoGroup]:
    """The groups that a called function's body makes of its arguments and results.

    Raises UnimplementedError where a function calls itself, and whatever placing the body would raise.
    """
    called = call.attrs["f"]
    graph = groups.graph
    body = instantiate(graph, find_function(graph, called.name), dict(called.attrs))
    isolated = isolate_calls_in(body.graph)
    caller = groups.stack[-1].called if groups.stack else ""
    if called.name in {name for frame in groups.stack for name in (frame.caller, frame.called)}:
        raise UnimplementedError(_recursion(groups.stack, call, called.name), node=call.name)
    inside = groups.for_body(isolated, (*groups.stack, Frame(call.name, caller, called.name)))
    members: dict[int, tuple[list[int], list[int]]] = {}
    for side, ends in enumerate((body.args, body.results)):
        for position, end in enumerate(ends):
            root = inside.root(isolated.ids[body.graph.nodes[end].name])
            members.setdefault(root, ([], []))[side].append(position)
    return [IoGroup(inside.constraints[root], tuple(args), tuple(results)) for root, (args, results) in members.items()]


def _recursion(stack: Sequence[Frame], call: Node, called: str) -> str:
    lines: list[str] = []
    for node, caller, target in stack:
        where = f"Function {{{{function_node {caller}}}}}" if caller else "Graph"
        lines += [
            f"{where} contains node {{{{node {node}}}}}",
            f"Node {{{{node {node}}}}} calls function {{{{function_node {target}}}}}",
        ]
    return (
        f"Recursive function calls are not supported. Node {{{{node {call.name}}}}} inside the body of "
        f"{{{{function_node {stack[-1].called}}}}} calls function {{{{function_node {called}}}}} "
        "which is already present in the call stack:\n  " + "\n  ".join(lines)
    )


def _readers(groups: ColocationGraph, calls: Mapping[int, Node]) -> dict[int, list[_Reader]]:
    """The edges out of each call, by the runtime id of the reader."""
    found: dict[int, list[_Reader]] = {node_id: [] for node_id in calls}
    for node_id in groups.order:
        node = groups.graph.nodes[node_id]
        for slot, source in enumerate(node.input_nodes):
            if source in found:
                found[source].append(_Reader(node, slot))
    return found


class _Attached(NamedTuple):
    """A node outside that belongs to a group of the body; `reader` where it reads a resource from the call."""

    node: int
    reader: Node | None


def _attached(found: Sequence[IoGroup], call: Node, readers: Sequence[_Reader]) -> list[list[_Attached]]:
    """For each group of the body its nodes outside: those that feed it, and then those that read it."""
    group_of_output = {output: number for number, group in enumerate(found) for output in group.outputs}
    attached = [[_Attached(call.input_nodes[i], None) for i in group.inputs] for group in found]
    for node, slot in readers:
        reads_resource = node.signature.input_dtypes[slot] is RESOURCE
        number = group_of_output[node.input_slots[slot]]
        attached[number].append(_Attached(node.id, node if reads_resource else None))
    return attached


def _tie(groups: ColocationGraph, call: Node, nodes: Sequence[_Attached]) -> None:
    for other in nodes[1:]:
        if other.reader is not None:
            groups.tie_by_call(nodes[0].node, other.reader, call.name)
        else:
            groups.join_by_call(nodes[0].node, other.node, call.name)
