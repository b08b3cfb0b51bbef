"""Collectives of a step: the members of each group, and their transfers over the machine's links, in rings or along trees.

Source: the algorithms of NCCL. Around a ring, an all-reduce passes the parts of a tensor twice, a reduce-scatter once; a
reduction or a broadcast is pipelined, so that each hop passes each byte once. An all-to-all sends each part to its member
directly. An all-reduce of a small tensor between hosts goes along trees, which have fewer hops one after another (Jeaugey,
"Massively Scale Your Deep Learning Training with NCCL 2.4", 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from placesim.core.grouped import grouped
from placesim.graph.graph import Graph, Node
from placesim.machine.timelines.bandwidth_sharing import byte_seconds, route_latency
from placesim.ops.categories import CONSTANTS
from placesim.ops.kernels.resources.collectives import GROUP_ARGUMENTS
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.recording.recorder import Execution


class Ring(NamedTuple):
    """Functions of the number of members: successive messages per hop, and multiples of the tensor's bytes per hop."""

    messages: Callable[[int], int]
    passes: Callable[[int], float]


RINGS: Mapping[str, Ring] = {
    "all-reduce": Ring(lambda n: 2 * (n - 1), lambda n: 2 * (n - 1) / n),
    "reduce": Ring(lambda n: n - 1, lambda n: 1.0),
    "broadcast": Ring(lambda n: n - 1, lambda n: 1.0),
    "all-gather": Ring(lambda n: n - 1, lambda n: n - 1.0),
    "reduce-scatter": Ring(lambda n: n - 1, lambda n: (n - 1) / n),
    "all-to-all": Ring(lambda n: n - 1, lambda n: (n - 1) / n),
}
"""Rings by the kind of a kernel's cost."""
TREE = "all-reduce"
"""The kind of collective that NCCL can also compute along trees."""
MAX_ORDERED = 8
"""Maximum number of members for which the order of a ring is searched, as NCCL does.

A larger ring has the order of its devices.
"""


class Hops(NamedTuple):
    """Routes from each member of a ring to the next member, in ring order. A route is repeated for each message.

    Each message has `num_bytes`, so one transfer of these bytes over the repeated route represents all messages of a hop.
    """

    routes: Sequence[tuple[int, ...]]
    num_bytes: float


def ring_hops(
    kind: str, members: Sequence[DevicePlace], order: Sequence[int], machine: SimulatedMachine, num_bytes: int
) -> Hops:
    """Return the hops of a ring through at least two members in an order of `ring_order`."""
    count, ring = len(members), RINGS[kind]
    messages = ring.messages(count)
    routes: dict[int, tuple[int, ...]] = {}
    for member, after in zip(order, (*order[1:], order[0]), strict=True):
        routes[member] = _route(members[member], members[after], machine) * messages
    return Hops([routes[member] for member in range(count)], num_bytes * ring.passes(count) / messages)


def hops_seconds(hops: Hops, machine: SimulatedMachine) -> float:
    """Return the seconds of the slowest hop of a ring; hops that use the same link share its bandwidth."""
    uses = Counter(link for route in hops.routes for link in route)

    def seconds(route: tuple[int, ...]) -> float:
        slowest = max((uses[link] / machine.links[link].bandwidth for link in route), default=0.0)
        return route_latency(route, machine.links) + hops.num_bytes * slowest

    return max(map(seconds, hops.routes))


def tree_seconds(members: Sequence[DevicePlace], machine: SimulatedMachine, num_bytes: int) -> float:
    """Return the seconds of an all-reduce along a tree: a chain in each host, and two binary trees of the hosts.

    Each tree has half of the bytes, and the leaves of one are inner nodes of the other. So each link passes about twice the
    bytes, as in a ring, but the number of hops only grows with the logarithm of the number of hosts.
    """
    hosts = grouped((member.task, member) for member in members)
    chains = [_hop(*pair, machine) for chain in hosts.values() for pair in pairwise(chain)]
    heads = [chain[0] for chain in hosts.values()]
    between = [_hop(head, heads[number - 1], machine) for number, head in enumerate(heads)] if len(heads) > 1 else []
    inner = (max(map(len, hosts.values())) - 1) * max((latency for latency, _ in chains), default=0.0)
    outer = (len(heads) - 1).bit_length() * max((latency for latency, _ in between), default=0.0)
    return 2 * (inner + outer + num_bytes * max(for_a_byte for _, for_a_byte in (*chains, *between)))


def _hop(sender: DevicePlace, receiver: DevicePlace, machine: SimulatedMachine) -> tuple[float, float]:
    """Return the latency between two members, and the seconds per byte."""
    route = _route(sender, receiver, machine)
    return route_latency(route, machine.links), byte_seconds(route, machine.links)


def _route(sender: DevicePlace, receiver: DevicePlace, machine: SimulatedMachine) -> tuple[int, ...]:
    return machine.route(sender, receiver, from_host=sender.gpu is None, to_host=receiver.gpu is None).links


def ring_order(members: Sequence[DevicePlace], machine: SimulatedMachine) -> Sequence[int]:
    """Return the ring order of the members with the fastest slowest hop; of equally fast orders, the order of the devices."""
    count = len(members)
    if count < 4 or count > MAX_ORDERED:
        return range(count)  # two or three have only one ring
    times = {
        (first, second): byte_seconds(_route(members[first], members[second], machine), machine.links)
        for first in range(count)
        for second in range(count)
        if first != second
    }
    orders = (
        _closed_path([0], count, {pair for pair in times if times[pair] <= limit}) for limit in sorted(set(times.values()))
    )
    return next(order for order in orders if order)  # over all pairs there is one


def _closed_path(path: list[int], count: int, pairs: Set[tuple[int, int]]) -> list[int]:
    """Return the first closed path through all numbers that begins with `path` and uses only `pairs`; empty without one."""
    if len(path) == count:
        return path if (path[-1], path[0]) in pairs else []
    others = (number for number in range(count) if number not in path and (path[-1], number) in pairs)
    return next(filter(None, (_closed_path([*path, number], count, pairs) for number in others)), [])


def is_member(site: Site) -> bool:
    """Return whether a node is a member of a collective."""
    return site.instruction.kernel.cost.kind in RINGS


def group_members(step: Sequence[Execution]) -> list[list[int]]:
    """Return the executions of each collective's group, in order of their devices.

    In a loop, or with a shared communicator, the n-th execution of each device belongs to the n-th group.
    """
    groups: dict[Hashable, list[int]] = {}
    turns: Counter[Hashable] = Counter()
    for number, execution in enumerate(step):
        site = execution.site
        if site is not None and is_member(site) and not execution.is_dead:
            key = _key(site)
            turn = key, site.program.state.device.name
            groups.setdefault((key, turns[turn]), []).append(number)
            turns[turn] += 1

    def device(number: int) -> str:
        site = step[number].site
        return "" if site is None else site.program.state.device.name

    return [sorted(members, key=device) for members in groups.values()]


def join_members(step: list[Execution]) -> list[Execution]:
    """Return the step, in which members of a collective begin and end together.

    Each member also waits for the inputs of the other members, and a node that reads a result waits for all members.
    """
    groups = group_members(step)
    if not groups:
        return step
    of_member = {member: members for members in groups for member in members}

    def all_members(sources: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted({number for source in sources for number in of_member.get(source, (source,))}))

    found = list(step)
    for number, execution in enumerate(step):
        if execution.site is not None and not of_member.keys().isdisjoint(execution.sources):
            found[number] = execution._replace(sources=all_members(execution.sources))
    for members in groups:
        sources = all_members(source for member in members for source in step[member].sources)
        for member in members:
            found[member] = step[member]._replace(sources=sources)
    return found


def _key(site: Site) -> tuple[object, ...]:
    """Return the key of a node's group, from its attrs, its constant inputs or its communicator's inputs."""
    return tuple(_keys(site.instruction.node, site.program.graph))


def _keys(node: Node, graph: Graph) -> Iterator[object]:
    for name in GROUP_ARGUMENTS:
        yield node.attrs.get(name)
    definition = graph.registry.op(node.op)
    assert definition is not None
    for argument, number in zip(definition.inputs, node.input_nodes, strict=False):  # the last one may be an empty list
        source = graph.nodes[number]
        if argument.name == "communicator":
            yield from _keys(source, graph)
        elif argument.name in GROUP_ARGUMENTS:
            yield source.attrs["value"].array.item() if source.op in CONSTANTS else None
