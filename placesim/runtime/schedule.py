"""An order of all nodes that is fixed before the step runs, and what is read for the last time where in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from placesim.errors import InternalError
from placesim.ops.categories import RECEIVES, SENDS
from placesim.runtime.program import Program, TransferKey


class Schedule:
    """The nodes of all programs in one order that respects every edge, also those from a send to its receive."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.order = _order(programs)
        self.last_readers = _last_readers(programs, self.order)


def _order(programs: Sequence[Program]) -> list[tuple[int, int]]:
    """Pairs of program and instruction, smallest first among those whose inputs are there."""
    waiting = [[len(i.node.input_nodes) + len(i.node.control_inputs) for i in p.instructions] for p in programs]
    receives: dict[TransferKey | None, tuple[int, int]] = {}
    for number, program in enumerate(programs):
        for index, instruction in enumerate(program.instructions):
            if instruction.node.op in RECEIVES:
                waiting[number][index] += 1
                receives[instruction.key] = (number, index)
    consumers = [program.graph.consumers() for program in programs]
    ready = deque((p, i) for p, counts in enumerate(waiting) for i, count in enumerate(counts) if not count)
    order: list[tuple[int, int]] = []
    while ready:
        number, index = ready.popleft()
        order.append((number, index))
        following = [(number, consumer) for consumer in consumers[number][index]]
        instruction = programs[number].instructions[index]
        if instruction.node.op in SENDS and instruction.key in receives:  # a graph may hold a send of its own
            following.append(receives[instruction.key])
        for pair in following:
            waiting[pair[0]][pair[1]] -= 1
            if not waiting[pair[0]][pair[1]]:
                ready.append(pair)
    if len(order) < sum(len(program.instructions) for program in programs):
        raise InternalError("The partitions wait for each other: their sends and receives form a cycle")
    return order


def _last_readers(programs: Sequence[Program], order: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """For each node the store positions that nobody reads after it, its own unread outputs among them."""
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
