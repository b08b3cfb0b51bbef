"""Session whose devices are in the workers of a Dask cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from queue import Empty
from typing import Any

from placesim.core.errors import PlacesimError, UnavailableError
from placesim.graph.graph import TensorRef
from placesim.ops.kernels.device_resources import ResourceManager
from placesim.placement.placer import Placement
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.cluster.device_assignment import DeviceMove
from placesim.runtime.dask.cluster_executor import DaskExecutor
from placesim.runtime.dask.colocated_workers import join_workers
from placesim.runtime.dask.memory_preview import MemoryPreviewSession, MemoryShortage
from placesim.runtime.dask.messages import ConsoleText, SessionOpening
from placesim.runtime.dask.worker_connections import CLOSING_SECONDS, WorkerConnections, WorkerMessage
from placesim.runtime.dask.worker_measurements import MeasurementCollector
from placesim.runtime.executors.executor_choice import AnyExecutor
from placesim.runtime.executors.thread_pools import runs_ops_in_parallel
from placesim.runtime.saving.device_state import DeviceRecord, SavedState
from placesim.runtime.sessions.cached_step import CachedStep
from placesim.runtime.sessions.session import GraphSession

ROUND_TRIPS = 8
CLOCK_SECONDS = 1.0
"""Seconds between two comparisons of clocks; a drift of 100 ppm is 0.1 ms in this time."""


class DaskSession(GraphSession):
    """A GraphSession in which a worker of the cluster keeps the state of each device and runs its nodes.

    The cluster assigns a worker to each device. `tell` is called for each device that must move to another worker.
    """

    def __init__(
        self,
        *args: Any,
        cluster: Cluster,
        tell: Callable[[DeviceMove], None] = lambda moved: None,
        ledger: Ledger | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._walk = None if ledger is None else MemoryPreviewSession(*args, ledger=ledger, **options)
        self.lack: MemoryShortage | None = None
        """The first failing allocation of the running step, found beforehand; None if all allocations fit."""
        self._client = cluster.client
        self._names = cluster.names
        self._may_move = cluster.is_own or self.config.allow_soft_placement
        self._tell = tell
        self.homes = dict(cluster.homes)
        self._links: WorkerConnections | None = None
        self._numbers = 0
        self._steps = 0
        measurements = options.get("measurements")
        self.gathering: MeasurementCollector | None = None
        if measurements is not None:
            names = {address: f"{name} at {address}" for address, name in self._names.items()}
            self.gathering = MeasurementCollector(measurements, self.homes, names)
        self._looked = 0.0

    @property
    def links(self) -> WorkerConnections:
        """The connections to the workers, opened on first use."""
        if self._links is None:
            openings = {address: self._opening(address) for address in dict.fromkeys(self.homes.values())}
            self._links = WorkerConnections(self._client, openings)
            if self.gathering is not None:
                self.gathering.settle()
            self._set_clocks()
        return self._links

    def end_step(self) -> None:
        """Convert the times that the workers have measured in a step, if they measure any."""
        if self.gathering is not None:
            self.gathering.convert()
            self._set_clocks()

    def _set_clocks(self) -> None:
        """Compare the workers' clocks with this process's clock, if times are measured."""
        if self.gathering is None or self._links is None or time.monotonic() < self._looked:
            return
        for address in dict.fromkeys(self.homes.values()):
            clock = self.gathering.clocks[address]
            for _ in range(ROUND_TRIPS):
                self._links.tell(address, {"do": "clock", "asked": time.perf_counter_ns()})
                said = self._heard(self._links.hear, address, "clock")
                clock.add(said.message["asked"], said.value, said.moment)
        self._looked = time.monotonic() + CLOCK_SECONDS

    def _heard(self, hear: Callable[[], WorkerMessage], address: str, kind: str) -> WorkerMessage:
        """Call `hear` until it returns a message of this kind from this worker. Raises UnavailableError for a lost worker."""
        while True:
            said = self._noted(hear())
            if said.address == address and said.message["is"] == kind:
                return said
            if said.message["is"] == "lost" and said.address == address:
                raise self.lost(address)

    @property
    def runs_in_parallel(self) -> bool:
        """Whether each worker runs ops concurrently in a pool."""
        return runs_ops_in_parallel(self.config)

    def hear(self) -> WorkerMessage:
        """Return the next message of a worker."""
        return self._noted(self.links.hear())

    def gather(self, workers: Collection[str], kind: str, name: str, number: int) -> dict[str, Any]:
        """Wait for a message of this kind, whose field `name` is `number`, from each worker; return the values by address.

        Raises UnavailableError for a lost worker.
        """
        found: dict[str, Any] = {}
        while len(found) < len(workers):
            said = self.hear()
            if said.message["is"] == kind and said.message[name] == number:
                found[said.address] = said.value
            elif said.message["is"] == "lost" and said.address in workers:
                raise self.lost(said.address)
        return found

    def _noted(self, said: WorkerMessage) -> WorkerMessage:
        """Collect the measurements in a message, even of a step that was stopped; return the message."""
        if self.gathering is not None:
            if said.message["is"] == "ended" and said.value.measured is not None:
                self.gathering.take(said.address, said.value.measured)
            elif said.message["is"] == "told":
                self.gathering.take(said.address, said.value)
        return said

    def next_step(self) -> int:
        """Return the number of a new step."""
        self._steps += 1
        return self._steps

    def happened(self, what: ConsoleText | Placement) -> None:
        """Handle an event of a worker: print an op's text, or record the placement of a function's body."""
        if isinstance(what, ConsoleText):
            print(what.text, end="", file=sys.stdout if what.is_output else sys.stderr)
        else:
            self.placements.append(what)

    def lost(self, address: str, witness: str | None = None) -> UnavailableError:
        """Return the error for a lost worker, with its devices; `witness` is the worker that reports the loss."""
        whose = "" if witness is None else f" from {self._names[witness]}"
        return UnavailableError(f"{self._names[address]} is gone: the connection{whose} to its worker at {address} has ended")

    def check_workers(self, addresses: Iterable[str]) -> None:
        """Raise UnavailableError if one of these workers has been lost."""
        for address in addresses:
            if address in self.links.gone:
                raise self.lost(address)

    def records(self) -> tuple[DeviceRecord, ...]:
        """Return the state of all devices from their workers. Raises UnavailableError for a lost worker."""
        workers = dict.fromkeys(self.homes.values())
        self.check_workers(workers)
        number = self.next_step()
        for address in workers:
            self.links.tell(address, {"do": "save", "step": number})
        found: dict[str, tuple[DeviceRecord, ...] | PlacesimError] = self.gather(workers, "saved", "step", number)
        by_device: dict[str, DeviceRecord] = {}
        for records in found.values():
            if isinstance(records, PlacesimError):
                raise records
            by_device.update({record.device: record for record in records})
        return tuple(by_device[device] for device in self.homes)

    def close(self) -> None:
        """Discard all variables on all workers."""
        was_closed = self._closed
        super().close()
        if self._walk is not None:
            self._walk.close()
        if self._links is not None and not was_closed:
            self._gather_rest(self._links)
            self._links.close()

    def _gather_rest(self, links: WorkerConnections) -> None:
        """Collect the measurements of a step that did not end, as far as the workers answer in time."""
        if self.gathering is None:
            return
        end = time.monotonic() + CLOSING_SECONDS
        for address in dict.fromkeys(self.homes.values()):
            with suppress(Empty, UnavailableError):
                self.check_workers((address,))
                links.tell(address, {"do": "tell"})
                self._heard(lambda: links.hear_within(max(0.0, end - time.monotonic())), address, "told")
        self.gathering.convert()

    def _opening(self, address: str) -> SessionOpening:
        graph = self.graph.emptied()
        graph.handles, graph.tensors, graph.values = {}, {}, {}
        is_measured = self.gathering is not None
        return SessionOpening(graph, self.device_set, self.config, self._files, self.homes, address, is_measured)

    def grow(self) -> None:
        super().grow()
        if self._walk is not None:
            self._walk.grow()

    def _execute(
        self, prepared: CachedStep, feeds: Mapping[TensorRef, Any], progress: Callable[[int], None] | None
    ) -> dict[int, Any]:
        self.lack = None if self._walk is None else self._walk.lack_of_memory(prepared, feeds)
        return super()._execute(prepared, feeds, progress)

    def _build_executor(self, prepared: CachedStep) -> AnyExecutor:
        if self._links is None and self._may_move:  # no worker has any state yet
            self._join_homes(prepared.step.placement)
        self._hand_over_values()
        self._numbers += 1
        return DaskExecutor(self, self._numbers, prepared.step)  # type: ignore[return-value]  # has the `run` of AnyExecutor

    def _join_homes(self, placement: Placement) -> None:
        """Move devices on which a function keeps state to the worker that calls the function."""
        for device, home in join_workers(placement, self.homes).items():
            if home != self.homes[device]:
                self._tell(DeviceMove(device, self.homes[device], home))
                self.homes[device] = home

    def _hand_over_values(self) -> None:
        """Send the graph's initial values to the workers, once."""
        found: dict[str, dict[str, SavedState]] = {}
        for name, state in self._states.items():
            if any(state.resources.named()) or state.node_states:
                found.setdefault(self.homes[name], {})[name] = SavedState(state.resources, state.node_states)
                state.resources, state.node_states = ResourceManager(), {}
        for address, kept in found.items():
            self.links.tell(address, {"do": "adopt"}, kept)
