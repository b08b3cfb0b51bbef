"""Order of all nodes that is fixed before a step runs, and the last reader of each value."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from placesim.core.errors import InternalError
from placesim.graph.graph import Graph
from placesim.ops.categories import RECEIVES, SENDS
from placesim.runtime.executors.program import Program
from placesim.runtime.executors.reads_after_update import find_overtaking_updates
from placesim.runtime.executors.transfer_keys import TransferKey, transfer_key


class Schedule:
    """The nodes of all programs in an order that respects every edge and runs each send before its receive.

    A caller may give an `order`, which may lack nodes that run in other processes.
    """

    def __init__(self, programs: Sequence[Program], order: Sequence[tuple[int, int]] | None = None) -> None:
        self.programs = programs
        self.order = schedule_nodes([program.graph for program in programs]) if order is None else order
        self.last_readers = _last_readers(programs, self.order)


def schedule_nodes(graphs: Sequence[Graph]) -> list[tuple[int, int]]:
    """Return pairs of partition and node in execution order: nodes run in the order in which their inputs become available."""
    waiting = [[len(node.input_nodes) + len(node.control_inputs) for node in graph.nodes] for graph in graphs]
    receives: dict[TransferKey, tuple[int, int]] = {}
    for number, graph in enumerate(graphs):
        for node in graph.nodes:
            if node.op in RECEIVES:
                # the receive waits for its send as for an input
                waiting[number][node.id] += 1
                receives[transfer_key(node)] = (number, node.id)
    consumers = [graph.consumers() for graph in graphs]
    for number, graph in enumerate(graphs):
        for update, overtaken in find_overtaking_updates(graph).items():
            for node in overtaken:
                waiting[number][node.id] += 1
                consumers[number][update].append(node.id)
    # first in, first out: the order of nodes decides which kernel fails first (`manual exactness`)
    ready = deque((p, i) for p, counts in enumerate(waiting) for i, count in enumerate(counts) if not count)
    order: list[tuple[int, int]] = []
    while ready:
        number, index = ready.popleft()
        order.append((number, index))
        following = [(number, consumer) for consumer in consumers[number][index]]
        node = graphs[number].nodes[index]
        if node.op in SENDS and transfer_key(node) in receives:  # a graph may have a send without a receive
            following.append(receives[transfer_key(node)])
        for pair in following:
            waiting[pair[0]][pair[1]] -= 1
            if not waiting[pair[0]][pair[1]]:
                ready.append(pair)
    if len(order) < sum(map(len, graphs)):
        raise InternalError("The partitions wait for each other: their sends and receives form a cycle")
    return order


def _last_readers(programs: Sequence[Program], order: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Map each node to the store positions to release after it: inputs that no later node reads, outputs without readers."""
    read = [bytearray(program.store_size) for program in programs]
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for number, index in reversed(order):
        instruction = programs[number].instructions[index]
        seen = read[number]
        own = range(instruction.outputs, instruction.outputs + instruction.output_count)
        dropped = [position for position in own if not seen[position]]
        for position in dict.fromkeys(instruction.inputs):
            if not seen[position]:
                seen[position] = 1
                dropped.append(position)
        if dropped:
            found[number, index] = tuple(dropped)
    return found
