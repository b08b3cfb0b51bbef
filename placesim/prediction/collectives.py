"""Collectives of a step: the members of each group, and the seconds of its ring of transfers over the machine's links.

Source: the ring algorithms of NCCL. An all-reduce passes the parts of a tensor around twice, a reduce-scatter once; a reduction
or a broadcast is pipelined, so that each hop passes each byte once. An all-to-all sends each part to its member directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placesim.graph.graph import Graph, Node
from placesim.ops.categories import CONSTANTS
from placesim.ops.kernels.resources.collectives import GROUP_ARGUMENTS
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.recording.recorder import Execution


class Ring(NamedTuple):
    """Functions of the number of members: successive messages of a hop, and how often it passes a tensor's bytes."""

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


def ring_seconds(kind: str, members: Sequence[DevicePlace], machine: SimulatedMachine, num_bytes: int) -> float:
    """Return the seconds of the slowest hop of a ring; hops that use the same link share its bandwidth."""
    count, ring = len(members), RINGS[kind]
    if count < 2:
        return 0.0
    hops = zip(members, (*members[1:], members[0]), strict=True)
    routes = [machine.route(*hop, from_host=hop[0].gpu is None, to_host=hop[1].gpu is None).links for hop in hops]
    uses = Counter(link for links in routes for link in links)
    moved = num_bytes * ring.passes(count)

    def seconds(links: Sequence[int]) -> float:
        latency = sum(machine.links[link].latency for link in links)
        slowest = max((uses[link] / machine.links[link].bandwidth for link in links), default=0.0)
        return ring.messages(count) * latency + moved * slowest

    return max(map(seconds, routes))


def group_members(step: Sequence[Execution]) -> list[list[int]]:
    """Return the executions of each collective's group, in order of their devices.

    In a loop, or with one communicator, the executions of a device are members of different groups, in their order.
    """
    groups: dict[Hashable, list[int]] = {}
    turns: Counter[Hashable] = Counter()
    for number, execution in enumerate(step):
        site = execution.site
        if site is not None and site.instruction.kernel.cost.kind in RINGS and not execution.is_dead:
            key = _key(site)
            turn = key, site.program.state.device.name
            groups.setdefault((key, turns[turn]), []).append(number)
            turns[turn] += 1

    def device(number: int) -> str:
        site = step[number].site
        return "" if site is None else site.program.state.device.name

    return [sorted(members, key=device) for members in groups.values()]


def join_members(step: list[Execution]) -> list[Execution]:
    """Return the step, in which each member of a collective also waits for the inputs of the other members."""
    groups = group_members(step)
    found = list(step) if groups else step
    for members in groups:
        sources = tuple(sorted({source for member in members for source in step[member].sources}))
        for member in members:
            found[member] = step[member]._replace(sources=sources)
    return found


def _key(site: Site) -> tuple[object, ...]:
    """Return the key of a node's group, which attrs, constant inputs or those of its communicator define."""
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
