"""Executor of a step on a cluster's workers: the client sends them the partitions, and chooses the error to report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol

from placesim.core.errors import InternalError, PlacesimError, UnavailableError
from placesim.core.grouped import grouped
from placesim.graph.graph import Graph
from placesim.ops.categories import ARGUMENTS, RESULTS
from placesim.placement.placer import Placement
from placesim.runtime.dask.memory_preview import MemoryShortage
from placesim.runtime.dask.message_queue import Position
from placesim.runtime.dask.messages import ConsoleText, Event, PartResult, PartWork, Readiness
from placesim.runtime.dask.worker_connections import WorkerConnections, WorkerMessage
from placesim.runtime.executors.schedule import schedule_nodes
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.sessions.shared_variable_memory import shared_buffers

Progress = Callable[[int], None]
PROBE_SECONDS = 0.02


class ClusterSession(Protocol):
    """The methods of a session on workers (`DaskSession`) that its executors use."""

    homes: dict[str, str]
    lack: MemoryShortage | None

    @property
    def links(self) -> WorkerConnections:
        """The connections to the workers."""

    @property
    def runs_in_parallel(self) -> bool:
        """Whether each worker runs ops concurrently in a pool."""

    def check_workers(self, addresses: Iterable[str]) -> None:
        """Raise UnavailableError if one of these workers has been lost."""

    def lost(self, address: str, witness: str | None = None) -> UnavailableError:
        """Return the error for a lost worker; `witness` is the worker that reports the loss, None for the scheduler."""

    def hear(self) -> WorkerMessage:
        """Return the next message of a worker."""

    def gather(self, workers: Collection[str], kind: str, name: str, number: int) -> dict[str, Any]:
        """Wait for a message of this kind, whose field `name` is `number`, from each worker; return the values by address."""

    def next_step(self) -> int:
        """Return the number of a new step."""

    def end_step(self) -> None:
        """Convert the times that the workers have measured in a step, if they measure any."""

    def happened(self, what: ConsoleText | Placement) -> None:
        """Handle an event of a worker: an op has printed, or a function's body was placed."""


class DaskExecutor:
    """Runs a prepared step, any number of times, on a session's workers."""

    def __init__(self, session: ClusterSession, number: int, step: PreparedStep) -> None:
        """Send each worker its partitions. Raises the errors of compiling them."""
        self._session = session
        self._number = number
        parts = step.partitions.parts
        self._graphs = [part.graph for part in parts]
        self._nodes = sum(map(len, self._graphs))
        shares = grouped((session.homes[part.device.name], index) for index, part in enumerate(parts))
        self._arguments = {address: _indices([parts[i].graph for i in own], ARGUMENTS) for address, own in shares.items()}
        self._workers = tuple(shares)
        self._flows = self._prepare(step, shares)

    def _prepare(self, step: PreparedStep, shares: Mapping[str, Sequence[int]]) -> bool:
        """Send the workers their partitions; return whether the step must run in dataflow order."""
        self._session.check_workers(shares)
        links, parts, graphs = self._session.links, step.partitions.parts, self._graphs
        try:
            order = schedule_nodes(graphs)
        except InternalError:  # a loop, or partitions that wait for each other: running the step raises the error
            order = []
        buffers = shared_buffers(step.client)
        for address, own in shares.items():
            place = {index: i for i, index in enumerate(own)}
            rows = [(position, number, node) for position, (number, node) in enumerate(order) if number in place]
            results = _indices([graphs[i] for i in own], RESULTS)
            work = PartWork(
                tuple(parts[i] for i in own),
                tuple(own),
                tuple((place[number], node) for _, number, node in rows),
                tuple(position for position, _, _ in rows),
                {index: found for index, found in buffers.items() if index in results},
            )
            links.tell(address, {"do": "prepare", "number": self._number}, work)
        found: dict[str, Readiness] = self._session.gather(self._workers, "ready", "number", self._number)
        failed = [(ready.failed, ready.error) for ready in found.values() if ready.error is not None]
        if failed:
            raise min(failed, key=itemgetter(0))[1]
        flows = any(ready.needs_dataflow for ready in found.values())
        if self._session.runs_in_parallel and sum(ready.expensive for ready in found.values()) > 1:
            flows = True
        if not flows and not order and self._nodes:
            schedule_nodes(graphs)
        return flows

    def _lack(self) -> tuple[Position, PlacesimError] | None:
        """Return the out-of-memory error that the memory preview found, with its position in the step; None if there is none.

        If the error belongs to no node of the step, or the step has no fixed order, the error is raised at once.
        """
        lack = self._session.lack
        if lack is None:
            return None
        for position, (number, index) in enumerate(() if self._flows or not lack.is_node else schedule_nodes(self._graphs)):
            if self._graphs[number].nodes[index].name == lack.error.node:
                return (position,), lack.error
        raise lack.error

    def run(self, feeds: Mapping[int, Any], progress: Progress | None = None, *, is_accounted: bool = True) -> dict[int, Any]:
        """Run one step with values by `_Arg` index; return values by `_Retval` index.

        Raises OpError, with node and device, if a kernel fails, and UnavailableError if a worker is lost. In all cases the
        other workers are told to stop the step.
        """
        self._session.check_workers(self._workers)
        run = _StepRun(self._session, self._workers, self._lack())
        try:
            for address in self._workers:
                given = {index: feeds[index] for index in self._arguments[address] if index in feeds}
                message = {"do": "step", "step": run.step, "number": self._number, "flows": self._flows}
                self._session.links.tell(address, message, given)
            run.limit()
            ended = run.finish()
        except BaseException:
            run.stop()
            raise
        self._session.end_step()
        results: dict[int, Any] = {}
        for found in ended.values():
            results.update(found.results)
        if progress is not None:
            progress(self._nodes)
        return results


class _StepRun:
    """A running step; `first` is the first known error in the order of the step, with its position."""

    def __init__(self, session: ClusterSession, workers: Sequence[str], first: tuple[Position, PlacesimError] | None) -> None:
        self._session = session
        self._workers = workers
        self.step = session.next_step()
        self._ended: dict[str, PartResult] = {}
        self._first = first
        self._idle: dict[str, tuple[int, Any]] = {}
        self._check = 0
        """Number of the last check for a deadlock; counts of an earlier check are ignored."""
        self._counts: dict[str, tuple[int, int]] = {}
        self._before: dict[str, tuple[int, int]] = {}

    def finish(self) -> dict[str, PartResult]:
        """Wait for all workers, and return their results. Raises the error that comes first in the order of the step."""
        while len(self._ended) < len(self._workers):
            said = self._session.hear()
            kind = said.message["is"]
            if kind == "lost":
                if said.address in self._workers:
                    raise self._session.lost(said.address)
            elif kind == "severed":
                raise self._session.lost(said.value, said.address)
            elif said.message.get("step") != self.step:
                continue  # a message of an earlier step that was stopped
            elif kind == "ended":
                self._end(said.address, said.value)
            elif kind == "idle":
                self._idle[said.address] = said.message["come"], said.value
                self._probe()
            elif kind == "count" and said.message["check"] == self._check:
                self._counts[said.address] = said.value
                self._look_for_standstill()
        self._tell_events()
        if self._first is not None:
            raise self._first[1]
        return self._ended

    def stop(self) -> None:
        """Stop the step on all workers."""
        for address in self._workers:
            if address not in self._ended:
                self._session.links.tell(address, {"do": "stop", "step": self.step})

    def _end(self, address: str, ended: PartResult) -> None:
        self._ended[address] = ended
        if ended.error is not None and (self._first is None or ended.position < self._first[0]):
            self._first = ended.position, ended.error
            self.limit()
        self._probe()

    def limit(self) -> None:
        """Tell the workers the position of the first known error, after which they need not run nodes."""
        if self._first is not None:
            for address in self._workers:
                if address not in self._ended:
                    self._session.links.tell(address, {"do": "limit", "step": self.step}, self._first[0])

    def _tell_events(self) -> None:
        """Handle the workers' events in the order of the step, up to the first error."""
        rows: list[tuple[Position, int, int, Event]] = []
        for number, address in enumerate(self._workers):
            events = self._ended[address].events
            rows += [(event.position, number, i, event) for i, event in enumerate(events)]
        for position, _, _, event in sorted(rows, key=lambda row: row[:3]):
            if self._first is None or position <= self._first[0]:
                self._session.happened(event.what)

    # --- detection of a deadlock

    def _probe(self) -> None:
        """If all workers have reported that they are idle, ask them how many tensors they have sent and received."""
        running = [address for address in self._workers if address not in self._ended]
        if running and all(address in self._idle for address in running):
            self._check += 1
            self._counts = {}
            for address in self._workers:
                self._session.links.tell(address, {"do": "probe", "step": self.step, "check": self._check})

    def _look_for_standstill(self) -> None:
        """If two checks in a row find all workers idle and no tensor in transit, raise the error of a worker that waits.

        One check is not enough, because counts that are taken at different moments may balance by chance. Source: F. Mattern,
        Algorithms for distributed termination detection (1987), the method of four counters.
        """
        if len(self._counts) < len(self._workers):
            return
        running = [address for address in self._workers if address not in self._ended]
        busy = [address for address in running if self._idle[address][0] != self._counts[address][1]]
        for address in busy:  # it has received a tensor since its report, and will report when it is idle again
            del self._idle[address]
        if busy:
            return
        if sum(sent for sent, _ in self._counts.values()) == sum(come for _, come in self._counts.values()):
            if self._counts == self._before:
                waiting = min((self._idle[address][1] for address in running), key=lambda found: found.kind)
                raise waiting.error
            self._before = self._counts
        time.sleep(PROBE_SECONDS)
        self._probe()


def _indices(graphs: Sequence[Graph], ops: Sequence[str]) -> tuple[int, ...]:
    return tuple(node.attrs["index"] for graph in graphs for node in graph.nodes if node.op in ops)
