"""Runs programs whose order can be fixed beforehand: one flat list of closures, tensors dropped after their last reader.

Graphs with control flow or with ops that wait (queues) go to `dataflow.py` instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import itemgetter, length_hint
from typing import Any

from placesim.errors import InternalError, OpError
from placesim.ops.categories import RECEIVES, SENDS
from placesim.runtime.program import Instruction, Program, TransferKey, blame, read_variable

CHUNK = 4096
"""Nodes between two looks at the progress bar."""

Step = Callable[[], None]
Progress = Callable[[int], None]


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
        if instruction.node.op in SENDS:
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


class Executor:
    """Runs a schedule: feeds in, fetches out.  One executor serves all steps of the same feeds and fetches."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.schedule = Schedule(programs)
        self._stores = [[None] * program.store_size for program in programs]
        self._rendezvous: dict[Any, Any] = {}
        self._feeds: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self._steps = [self._compile(number, index) for number, index in self.schedule.order]

    def run(self, feeds: Mapping[int, Any], progress: Progress | None = None) -> dict[int, Any]:
        """One step: values by `_Arg` index -> values by `_Retval` index.

        Raises OpError, with node and device, where a kernel fails.
        """
        self._feeds.clear()
        self._feeds.update(feeds)
        self._results.clear()
        steps = self._steps
        done = 0
        remaining = iter(steps)
        try:
            while done < len(steps):
                for step in islice(remaining, CHUNK):
                    step()
                done = min(done + CHUNK, len(steps))
                if progress is not None:
                    progress(done)
        except OpError as error:
            number, index = self.schedule.order[len(steps) - length_hint(remaining) - 1]
            program = self.schedule.programs[number]
            raise blame(error, program.graph, program.instructions[index].node, program.state.device.name) from None
        finally:
            self._clear()
        return dict(self._results)

    def _clear(self) -> None:
        """Nothing of a step outlives it."""
        self._rendezvous.clear()
        for store in self._stores:
            store[:] = [None] * len(store)

    # --- compiling: each node becomes the smallest closure that does its work

    def _compile(self, number: int, index: int) -> Step:
        instruction = self.schedule.programs[number].instructions[index]
        store = self._stores[number]
        dropped = self.schedule.last_readers.get((number, index), ())
        op = instruction.node.op
        if op in SENDS:
            return _send(instruction, store, self._rendezvous, dropped)
        if op in RECEIVES:
            return _receive(instruction, store, self._rendezvous)
        if op == "_Arg":
            return _argument(instruction, store, self._feeds)
        if op == "_Retval":
            return _result(instruction, store, self._results, dropped)
        if instruction.kernel.direct is not None and not any(instruction.reads_ref) and instruction.output_count == 1:
            if len(instruction.inputs) == 2:
                return _binary(instruction, store, dropped)
            if len(instruction.inputs) == 1:
                return _unary(instruction, store, dropped)
        return _general(instruction, store, dropped)


def _send(instruction: Instruction, store: list[Any], rendezvous: dict[Any, Any], dropped: Sequence[int]) -> Step:
    source, key, is_last = instruction.inputs[0], instruction.key, bool(dropped)

    def step() -> None:
        rendezvous[key] = read_variable(store[source])
        if is_last:
            store[source] = None

    return step


def _receive(instruction: Instruction, store: list[Any], rendezvous: dict[Any, Any]) -> Step:
    out, key = instruction.outputs, instruction.key

    def step() -> None:
        store[out] = rendezvous.pop(key)

    return step


def _argument(instruction: Instruction, store: list[Any], feeds: dict[int, Any]) -> Step:
    out, index = instruction.outputs, instruction.attrs["index"]

    def step() -> None:
        store[out] = feeds[index]

    return step


def _result(instruction: Instruction, store: list[Any], results: dict[int, Any], dropped: Sequence[int]) -> Step:
    source, index, is_last = instruction.inputs[0], instruction.attrs["index"], bool(dropped)

    def step() -> None:
        results[index] = read_variable(store[source])
        if is_last:
            store[source] = None

    return step


def _binary(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    function: Any = instruction.kernel.direct
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        try:
            store[out] = function(store[one], store[two])
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one], store[two]))

    return _then_drop(step, store, dropped)


def _unary(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    function: Any = instruction.kernel.direct
    (one,), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        try:
            store[out] = function(store[one])
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one],))

    return _then_drop(step, store, dropped)


def _general(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    gather, compute, attrs = _gather(instruction.inputs), instruction.kernel.compute, instruction.attrs
    first, last = instruction.outputs, instruction.outputs + instruction.output_count
    if any(instruction.reads_ref):
        compute_read = instruction.compute

        def step() -> None:
            store[first:last] = compute_read(gather(store))

    elif instruction.context is not None:
        context = instruction.context

        def step() -> None:
            store[first:last] = compute(gather(store), attrs, context)

    else:

        def step() -> None:
            store[first:last] = compute(gather(store), attrs)

    return _then_drop(step, store, dropped)


def _gather(positions: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """What reads these positions of a store, as a tuple."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if not positions:
        return lambda store: ()
    (only,) = positions
    return lambda store: (store[only],)


def _then_drop(step: Step, store: list[Any], dropped: Sequence[int]) -> Step:
    if not dropped:
        return step
    if len(dropped) == 1:
        (only,) = dropped

        def drop_one() -> None:
            step()
            store[only] = None

        return drop_one

    def drop() -> None:
        step()
        for position in dropped:
            store[position] = None

    return drop
