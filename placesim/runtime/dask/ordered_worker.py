"""A worker's part of a step in a fixed order: the worker always runs its first ready node in that order.

In one process, the nodes of all devices run one by one. Here a worker runs later nodes while an earlier one waits for tensors
of other workers. Nodes with visible effects still run in order. After an error, all nodes before the failed one still run, so
that the first error in the order is reported, as in one process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from placesim.core.errors import OpError, PlacesimError
from placesim.ops.categories import SENDS
from placesim.ops.process.memory_limit import LOOK_AFTER
from placesim.runtime.dask.execution_order import find_stateful_nodes
from placesim.runtime.dask.message_queue import BEFORE_ALL, Arrival, FailureLimit, Mail, Position, StepInterruption, StopMessage
from placesim.runtime.dask.worker_measurements import PartMeasurements
from placesim.runtime.executors.constant_folding import fold
from placesim.runtime.executors.node_steps import Step, StepCompiler
from placesim.runtime.executors.program import Instruction, Program, blame, kernel_defect
from placesim.runtime.executors.transfer_keys import TransferKey

Sender = Callable[[str, Any, Any, int], None]
"""Function that sends a tensor to a device of another worker: its arguments are device, key, value and generation."""


class ScheduledPart:
    """Runs a worker's programs of a step.

    `order` has the nodes in execution order, as pairs of program and node; a node's number is its place in this list.
    `positions` has each node's place in the order of the whole step. `is_here` returns whether this worker has a device.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        order: Sequence[tuple[int, int]],
        positions: Sequence[int],
        is_here: Callable[[str], bool],
    ) -> None:
        self.positions = positions
        self.feeds: dict[int, Any] = {}
        self.results: dict[int, Any] = {}
        self.rendezvous = PartRendezvous(is_here, PartMeasurements.of(programs))
        self.stores: list[list[Any]] = [[None] * program.store_size for program in programs]
        self.memory = programs[0].state.memory
        self._programs = programs
        self._order = order
        instructions = [programs[part].instructions[index] for part, index in order]
        compilers = [StepCompiler(store, self.feeds, self.results, self.rendezvous) for store in self.stores]
        self.steps = [compilers[part].compile(found, ()) for (part, _), found in zip(order, instructions, strict=True)]
        self._is_folded = False
        self.edges = Edges(programs, order, instructions, is_here)
        self.reads = Reads(programs, order, instructions)
        self.at = -1
        """Number of the running or failed node; -1 before the first."""

    @property
    def position(self) -> Position:
        """Position of the running or failed node in the order of the whole step."""
        return (self.positions[self.at],) if self.at >= 0 else BEFORE_ALL

    def run(self, feeds: Mapping[int, Any], mail: Mail, send: Sender) -> dict[int, Any]:
        """Run one step with values by `_Arg` index; return values by `_Retval` index.

        Raises the error of the first node that fails here, and StepInterruption if an earlier node fails on another worker.
        """
        if not self._is_folded:
            self._fold()
        self.feeds.update(feeds)
        self.rendezvous.send = send
        self.at = -1
        try:
            _PartRun(self, mail).run()
            return dict(self.results)
        finally:  # release all tensors of the step
            for held in (self.feeds, self.results, self.rendezvous):
                held.clear()
            for store in self.stores:
                store[:] = [None] * len(store)

    def _fold(self) -> None:
        """Compute nodes that depend only on constants, and replace their steps."""
        self._is_folded = True
        folded = fold(self._programs)
        if folded is None:
            return
        for number, (part, index) in enumerate(self._order):
            found = self._programs[part].instructions[index]
            if (part, index) in folded.nodes and found.key is None:
                self.steps[number] = _handing_out(self.stores[part], found.outputs, folded.outputs(part, found))

    def blamed(self, error: Exception, number: int) -> PlacesimError:
        """Return a node's error with the node's name, device and location."""
        part, index = self._order[number]
        program = self._programs[part]
        instruction = program.instructions[index]
        if isinstance(error, OpError):
            return blame(error, program.graph, instruction.node, program.state.device.name)
        if isinstance(error, PlacesimError):
            return error
        return kernel_defect(error, program, instruction, [self.stores[part][i] for i in instruction.inputs])


def _handing_out(store: list[Any], first: int, outputs: list[Any]) -> Step:
    def step() -> None:
        store[first : first + len(outputs)] = outputs

    return step


class Edges:
    """Dependencies of nodes, by node number.

    - `waits`: number of inputs for which each node waits.
    - `followers`: the nodes that wait for each node.
    - `receives`: the node that receives a tensor from another worker, by the tensor's key.
    - `urgent`: nodes that send tensors for which other workers wait.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        order: Sequence[tuple[int, int]],
        instructions: Sequence[Instruction],
        is_here: Callable[[str], bool],
    ) -> None:
        numbers = {pair: number for number, pair in enumerate(order)}
        takers = [find_stateful_nodes(program) for program in programs]
        self.waits = [0] * len(order)
        self.followers: list[list[int]] = [[] for _ in order]
        self.receives: dict[TransferKey, int] = {}
        self.urgent: set[int] = set()
        sends: dict[TransferKey, int] = {}
        before: int | None = None
        for number, ((part, index), found) in enumerate(zip(order, instructions, strict=True)):
            node, key = found.node, found.key
            for source in (*node.input_nodes, *node.control_inputs):
                self._join(numbers[part, source], number)
            if index in takers[part]:
                if before is not None:
                    self._join(before, number)
                before = number
            if key is None:
                continue
            if node.op in SENDS:
                sends[key] = number
                if not is_here(key[1]):
                    self.urgent.add(number)
            elif is_here(key[0]):
                self._join(sends[key], number)
            else:
                self.waits[number] += 1
                self.receives[key] = number

    def _join(self, source: int, target: int) -> None:
        self.followers[source].append(target)
        self.waits[target] += 1


class Reads:
    """Store positions that each node reads or writes, and the number of readers of each position."""

    def __init__(
        self, programs: Sequence[Program], order: Sequence[tuple[int, int]], instructions: Sequence[Instruction]
    ) -> None:
        self.counts = [[0] * program.store_size for program in programs]
        self.places: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        """For each node: the number of its store, the positions that it reads, and the positions of outputs without readers."""
        for (part, _), found in zip(order, instructions, strict=True):
            for place in set(found.inputs):
                self.counts[part][place] += 1
        for (part, _), found in zip(order, instructions, strict=True):
            own = range(found.outputs, found.outputs + found.output_count)
            unread = tuple(place for place in own if not self.counts[part][place])
            self.places.append((part, tuple(set(found.inputs)), unread))


class _PartRun:
    """State of one step in one worker."""

    def __init__(self, part: ScheduledPart, mail: Mail) -> None:
        self._part = part
        self._mail = mail
        self._waits = list(part.edges.waits)
        self._counts = [list(counts) for counts in part.reads.counts]
        self._ready = [self._rank(number) for number, count in enumerate(self._waits) if not count]
        heapify(self._ready)
        self._done = bytearray(len(self._waits))
        # nodes from `_end` on are skipped; `_left` is the number of nodes before `_end` that have not run yet
        self._end = self._left = len(self._waits)
        self._unseen = 0
        self._error: PlacesimError | None = None

    def run(self) -> None:
        mail, ready = self._mail, self._ready
        while self._left:
            while not mail.empty():
                self._take(mail.get())
            if ready and ready[0] < self._end:
                self._start(heappop(ready) % len(self._waits))
            elif self._left:
                self._take(mail.get())
        if self._error is None and self._part.at >= 0:
            self._guard(self._part.at, self._look)
        if self._error is not None:
            self._part.at = self._end
            raise self._error
        if self._end < len(self._waits):
            raise StepInterruption

    def _rank(self, number: int) -> int:
        """Return the rank of a node; the ready node of the lowest rank runs first.

        The rank of an urgent node is its number minus the count of all nodes; the rank of any other node is its number. So
        `rank % count` is always the number.
        """
        return number - len(self._waits) if number in self._part.edges.urgent else number

    def _start(self, number: int) -> None:
        self._part.at = number
        if not self._guard(number, self._part.steps[number]):
            return
        self._unseen += 1
        if self._unseen >= LOOK_AFTER and not self._guard(number, self._look):
            return
        self._done[number] = 1
        self._left -= number < self._end
        self._drop(number)
        for follower in self._part.edges.followers[number]:
            self._let(follower)

    def _guard(self, number: int, work: Callable[[], None]) -> bool:
        """Do a node's work, and return whether it succeeded; after an error, the step ends at that node."""
        try:
            work()
        except Exception as error:
            if number < self._end:
                self._error = self._part.blamed(error, number)
                self._want(number)
            return False
        return True

    def _look(self) -> None:
        self._part.memory.worked(self._unseen)
        self._unseen = 0

    def _let(self, number: int) -> None:
        """Count an input that has arrived at a node; after the last one, the node is ready."""
        self._waits[number] -= 1
        if not self._waits[number]:
            heappush(self._ready, self._rank(number))

    def _drop(self, number: int) -> None:
        """Release the values of which a node was the last reader."""
        part, read, unread = self._part.reads.places[number]
        store, counts = self._part.stores[part], self._counts[part]
        for place in unread:
            store[place] = None
        for place in read:
            counts[place] -= 1
            if not counts[place]:
                store[place] = None

    # --- early end

    def _want(self, end: int) -> None:
        """Skip all nodes from number `end` on."""
        self._end = end
        self._left = end - sum(self._done[:end])

    def _take(self, found: Any) -> None:
        """Handle a message of another worker or of the client."""
        if isinstance(found, Arrival):
            self._part.rendezvous.arrived(found)
            self._let(self._part.edges.receives[found.key])
        elif isinstance(found, FailureLimit):
            end = bisect_left(self._part.positions, found.position[0])
            if end < self._end:
                self._error = None
                self._want(end)
        elif isinstance(found, StopMessage):
            raise StepInterruption


class PartRendezvous(dict[Any, Any]):
    """Tensors sent between programs and not yet received, by key; a tensor for another worker is sent to that worker."""

    def __init__(self, is_here: Callable[[str], bool], measured: PartMeasurements | None) -> None:
        super().__init__()
        self._is_here = is_here
        self._measured = measured
        self.send: Sender

    def __setitem__(self, key: TransferKey, value: Any) -> None:
        if not self._is_here(key[1]):
            self.send(key[1], key, value, 0)
            return
        if self._measured is not None:
            self._measured.exchange.sent(key, key)
        super().__setitem__(key, value)

    def pop(self, key: TransferKey, *default: Any) -> Any:
        if self._measured is not None and self._is_here(key[0]):
            self._measured.exchange.received(key, key)
        return super().pop(key, *default)

    def arrived(self, found: Arrival) -> None:
        """Add a tensor that another worker sent."""
        if self._measured is not None:
            self._measured.came(found.key, found)
        super().__setitem__(found.key, found.value)
