"""A worker's part of a step in dataflow order: ready nodes run by generation, in the same order as in one process.

In one process, all ready nodes are in one queue, and run breadth first. Here each worker has a queue for its own nodes, sorted
by generation. A node has the generation of the node that made it ready, plus one. Tensors are sent with their generation.
If several nodes fail, the error of the lowest generation counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import suppress
from queue import Empty
from typing import Any, NamedTuple

from placesim.core.errors import InternalError, OpError
from placesim.core.process.deadlines import TURN_SECONDS
from placesim.graph.node_text import node_tag
from placesim.runtime.dask.message_queue import Arrival, FailureLimit, Mail, Position, StepInterruption, StopMessage
from placesim.runtime.dask.ordered_worker import Sender
from placesim.runtime.dask.worker_measurements import PartMeasurements
from placesim.runtime.executors.dataflow import DataflowRun, blame_node, deadlock_error, read_wanted
from placesim.runtime.executors.dataflow_executor import DataflowExecutor
from placesim.runtime.executors.frames import DEAD, Visit
from placesim.runtime.executors.program import Program

_FROM_OUTSIDE = (Arrival, FailureLimit, StopMessage)
IDLE_SECONDS = 0.02
"""Seconds without a tensor after which a worker that can't run any node tells the client; usual transfers take less."""
LAST = 1 << 62
"""Generation of errors that are found after all nodes have run."""


class StallReport(NamedTuple):
    """Error of a worker that can't run any node: `kind` is 0 if a node has to wait, and 1 if a tensor is missing."""

    kind: int
    error: OpError


class FlowingPart(DataflowExecutor):
    """Runs a worker's programs of a step.

    `numbers` are their indices among all programs of the step; `is_here` returns whether this worker has a device.
    """

    def __init__(
        self, programs: Sequence[Program], numbers: Sequence[int], is_here: Callable[[str], bool], pool: Pool | None
    ) -> None:
        super().__init__(programs, pool)
        self.is_here = is_here
        self.numbers = {id(program): number for program, number in zip(programs, numbers, strict=True)}
        self._run: PartRun | None = None

    @property
    def position(self) -> Position:
        """Position of the running or failed node."""
        return (LAST,) if self._run is None else self._run.position

    def run_part(
        self, feeds: Mapping[int, Any], mail: Mail, send: Sender, idle: Callable[[int, StallReport], None]
    ) -> dict[int, Any]:
        """Run a step as `run` does; if no node can run, call `idle` with the number of received tensors and the reason."""
        self.fold()
        self._run = PartRun(self, feeds, mail, send, idle)
        return self._run.run()


class Generations(deque[Visit]):
    """Queue of ready nodes, sorted by generation; nodes of one generation are in the order in which they became ready.

    `current` is the generation of the node that runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.current = -1
        self._waiting: dict[int, deque[Visit]] = {}

    def append(self, visit: Visit) -> None:
        self._waiting.setdefault(self.current + 1, deque()).append(visit)

    def extend(self, visits: Iterable[Visit]) -> None:
        for visit in visits:
            self.append(visit)

    @property
    def lowest(self) -> int:
        """The lowest generation with waiting nodes."""
        return min(self._waiting)

    def popleft(self) -> Visit:
        self.current = self.lowest
        found = self._waiting[self.current]
        visit = found.popleft()
        if not found:
            del self._waiting[self.current]
        return visit

    def __bool__(self) -> bool:
        return bool(self._waiting)


class PartRun(DataflowRun):
    """State of one step in one worker."""

    def __init__(
        self,
        executor: FlowingPart,
        feeds: Mapping[int, Any],
        mail: Mail,
        send: Sender,
        idle: Callable[[int, StallReport], None],
    ) -> None:
        super().__init__(executor, feeds, None)
        self.ready: Generations = Generations()
        self._is_here = executor.is_here
        self._numbers = executor.numbers
        self.finished: Mail = mail  # type: ignore[assignment]  # messages of other workers are in the same queue
        self._send_away = send
        self._tell_idle = idle
        self._limit: Position | None = None
        self._arrived: dict[Any, tuple[Any, int]] = {}
        self._generations: dict[Any, int] = {}
        self._come = 0
        self._visit: Visit | None = None
        self._measured = PartMeasurements.of(executor.programs)

    @property
    def position(self) -> Position:
        """Position of the running node: its generation, program and id."""
        if self._visit is None:
            return (LAST,)
        return (self.ready.current, self._numbers[id(self._visit.node.program)], self._visit.node.index)

    def run(self) -> dict[int, Any]:
        self._begin()
        try:
            while self.ready or self.in_flight or self.parked or self.receivers:
                self._turn()
        except Exception:
            while self.in_flight:
                self.in_flight -= not isinstance(self.finished.get(), _FROM_OUTSIDE)
            raise
        self._visit = None
        return self._end()

    def _is_accompanied(self) -> bool:
        # a tensor of another worker may come meanwhile
        return super()._is_accompanied() or bool(self.receivers)

    def _turn(self) -> None:
        while not self.finished.empty():
            self._take(self.finished.get())
        if self.ready:
            if self._limit is not None and self.ready.lowest > self._limit[0] and not self.in_flight:
                raise StepInterruption
            self._start(self.ready.popleft())
        elif self._limit is not None and not self.in_flight:
            raise StepInterruption
        elif self.in_flight:
            self._wait()
        elif (self.parked or self.receivers) and not self._retried():
            try:
                found = self.finished.get(timeout=IDLE_SECONDS)
            except Empty:
                self._tell_idle(self._come, self._waiting())
                self._wait()
            else:
                self._take(found)

    def _wait(self) -> None:
        while True:
            with suppress(Empty):
                return self._take(self.finished.get(timeout=TURN_SECONDS))

    def _retried(self) -> bool:
        """Try the parked nodes again; return whether any could run."""
        before = self.done
        for _ in range(len(self.parked)):
            self._start(self.parked.popleft())
        return self.done > before or bool(self.ready) or bool(self.in_flight)

    def _waiting(self) -> StallReport:
        if self.parked:
            node = self.parked[0].node
            return StallReport(0, blame_node(deadlock_error(node.name, self.setup.is_body), node))
        name = next(iter(self.receivers.values())).node.name
        return StallReport(1, InternalError(f"{node_tag(name)} waits for a tensor that is never sent"))

    def _take(self, found: Any) -> None:
        """Handle a message of another worker or of the client, or a node that the pool has computed."""
        if isinstance(found, Arrival):
            self._come += 1
            if self._measured is not None and found.value is not DEAD:
                self._measured.came(found.key[0], found)
            self._arrive(found)
        elif isinstance(found, FailureLimit):
            self._limit = found.position
        elif isinstance(found, StopMessage):
            raise StepInterruption
        else:
            self.in_flight -= 1
            self._visit, _ = found
            self._finish_computed(*found)

    def _start(self, visit: Visit) -> None:
        self._visit = visit
        super()._start(visit)

    # --- transfers

    def _send(self, visit: Visit) -> None:
        device = visit.node.instruction.key[1] if visit.node.instruction.key else ""
        if self._is_here(device):
            return super()._send(visit)
        value = DEAD if visit.dead else read_wanted(self._values(visit)[0], visit.node.instruction.reads_ref[0])
        self._send_away(device, self._key(visit), value, self.ready.current)
        return self._finish(visit, ())

    def _receive(self, visit: Visit) -> None:
        key = self._key(visit)
        if not visit.dead and key in self._arrived:
            value, generation = self._arrived.pop(key)
            self.ready.current = max(self.ready.current, generation)
            return self._deliver(visit, value)
        self._generations[key] = self.ready.current
        return super()._receive(visit)

    def _arrive(self, found: Arrival) -> None:
        visit = self.receivers.pop(found.key, None)
        if visit is None:
            self._arrived[found.key] = found.value, found.generation
            return
        self._visit = visit
        self.ready.current = max(found.generation, self._generations.pop(found.key))
        self._deliver(visit, found.value)
