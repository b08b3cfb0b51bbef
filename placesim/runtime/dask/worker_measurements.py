"""Measurements of kernels and transfers in workers, which have their own clocks; the client converts their times."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placesim.machine.timelines.trace_events import NANOSECONDS
from placesim.runtime.cluster.performance_report import COMPUTED, MOVED, WorkerSpan
from placesim.runtime.dask.message_queue import Arrival
from placesim.runtime.executors.program import Program
from placesim.runtime.executors.transfer_keys import TransferKey
from placesim.runtime.partitioning.partition import tensor_of
from placesim.runtime.recording.kernel_timing import RECEIVED, Measurements, RemoteNode, TransferPath, rows

FROM_ELSEWHERE = 1
"""Mark of a transfer from another worker, whose start time is therefore by that worker's clock."""
_BODY = -1
_SAMPLES = 16
_Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class WorkerTransferPath(NamedTuple):
    """A transfer path, and the number of its prepared step; the number is negative in a function's body."""

    step: int
    way: TransferPath


class WorkerMeasurement(NamedTuple):
    """A worker's measurements since its last message: rows as in `Measurements`, with the worker's numbers and clock."""

    nodes: Sequence[RemoteNode]
    ways: Sequence[WorkerTransferPath]
    runs: array[int]
    transfers: array[int]
    threads: Mapping[int, str]


# --- in a worker ----------------------------------------------------------------------------------------------------


class WorkerRecorder(Measurements):
    """Measurements of a session in one worker, which are sent to the client piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self._steps_of_ways: dict[int, int] = {}
        self._told = [0, 0, 0, 0]
        self._lock = Lock()

    def join(self, programs: Sequence[Program], step: int) -> None:
        """Record that these programs are the worker's part of a prepared step, of which other workers may have other parts."""
        first = len(self.ways)
        if programs:
            self.ways_of(programs)
        self._steps_of_ways.update(dict.fromkeys(range(first, len(self.ways)), step))

    def news(self) -> WorkerMeasurement:
        """Return the measurements that were not sent before; may be called in any thread."""
        with self._lock:
            # nodes and paths are added before the rows that refer to them, so copy them after the rows: none is missing
            runs, transfers = self.runs[self._told[0] :], self.transfers[self._told[1] :]
            nodes, ways = self.nodes[self._told[2] :], self.ways[self._told[3] :]
            first = self._told[3]
            sizes = len(runs), len(transfers), len(nodes), len(ways)
            self._told = [before + size for before, size in zip(self._told, sizes, strict=True)]
        return WorkerMeasurement(
            [RemoteNode(node.device, node.name, node.op, node.inputs) for node in nodes],
            [WorkerTransferPath(self._steps_of_ways.get(number, _BODY), way) for number, way in enumerate(ways, first)],
            runs,
            transfers,
            dict(self.threads),
        )


class PartMeasurements:
    """Records the transfers of a worker's part of a step: between its programs, and from other workers."""

    def __init__(self, measurements: Measurements, programs: Sequence[Program]) -> None:
        self.exchange = measurements.exchange(programs)
        self._ways = measurements.ways_of(programs)
        self._transfers = measurements.transfers

    @classmethod
    def of(cls, programs: Sequence[Program]) -> PartMeasurements | None:
        """Return the measurements for these programs; None if their devices are not measured."""
        measurements = programs[0].state.measurements if programs else None
        assert measurements is None or isinstance(measurements, Measurements)
        return None if measurements is None else cls(measurements, programs)

    def came(self, name: TransferKey, arrival: Arrival) -> None:
        """Record the arrival of a tensor from another worker."""
        self._transfers.extend((self._ways[name], arrival.sent, arrival.there, FROM_ELSEWHERE))


# --- in the client --------------------------------------------------------------------------------------------------


class WorkerClock:
    """Offset of a worker's clock from the client's clock, estimated from the quickest of the last round trips.

    The worker's answer is assumed to be from the middle of the round trip, which is wrong by at most half of its duration.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES)

    def add(self, asked: int, there: int, back: int) -> None:
        """Add a round trip: `asked` and `back` are by the client's clock, `there` is by the worker's, in nanoseconds."""
        self._samples.append((back - asked, there - (asked + back) // 2))

    @property
    def ahead(self) -> int:
        """Nanoseconds by which the worker's clock is ahead of the client's; 0 before the first round trip."""
        return min(self._samples, default=(0, 0))[1]


class MeasurementCollector:
    """Adds the workers' measurements to those of the client.

    `homes` maps each device to the address of its worker. `names` maps the address of each worker to the name of its process in
    traces.
    """

    def __init__(self, measurements: Measurements, homes: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._found = measurements
        self._homes = homes
        self._names = names
        self.clocks = {address: WorkerClock() for address in names}
        self._nodes: dict[str, list[int]] = {address: [] for address in names}
        self._ways: dict[str, list[int]] = {address: [] for address in names}
        self._joined: dict[tuple[int, str, str, str], int] = {}
        self._threads: dict[tuple[str, int], int] = {}
        self._runs: list[tuple[str, _Rows]] = []
        self._transfers: list[tuple[str, str, _Rows]] = []

    def settle(self) -> None:
        """Record the process of each device; called when the devices' workers are final."""
        self._found.processes.update({device: self._names[address] for device, address in self._homes.items()})

    def take(self, address: str, told: WorkerMeasurement) -> None:
        """Take measurements of a worker, to be added by `convert`; must be called in the order in which they arrive."""
        own = self._nodes[address]
        own += range(len(self._found.nodes), len(self._found.nodes) + len(told.nodes))
        self._found.nodes += told.nodes
        self._ways[address] += [self._way(own, *way) for way in told.ways]
        self._take_runs(address, told)
        self._take_transfers(address, told)

    def convert(self) -> None:
        """Add the taken measurements, with times by the client's clock; called when no worker runs a step.

        All rows of a step are converted together: with two estimates of a worker's clock, a tensor could be sent before it is
        made.
        """
        ahead = self._ahead()
        for address, runs in self._runs:
            runs[:, 1:3] -= ahead[address]
            self._found.runs.frombytes(runs.tobytes())
        for sender, receiver, moved in self._transfers:
            moved[:, 1] -= ahead[sender]
            moved[:, 2] -= ahead[receiver]
            # in a long step, clocks may drift apart by more than the time of a transfer
            moved[:, 1] = moved[:, 1:3].min(axis=1)
            self._found.transfers.frombytes(moved.tobytes())
        self._runs, self._transfers = [], []

    def _ahead(self) -> dict[str, int]:
        """Return how far each worker's clock is ahead, lowered until no tensor arrives before it is sent."""
        ahead = {address: clock.ahead for address, clock in self.clocks.items()}
        delays: dict[tuple[str, str], int] = {}
        for sender, receiver, moved in self._transfers:
            delay = int((moved[:, 2] - moved[:, 1]).min())
            delays[sender, receiver] = min(delay, delays.get((sender, receiver), delay))
        for _ in ahead:  # what is lowered for one worker may lower the next, through each worker at most once
            for (sender, receiver), delay in delays.items():
                ahead[receiver] = min(ahead[receiver], ahead[sender] + delay)
        return ahead

    def spans(self) -> Iterator[WorkerSpan]:
        """Yield all runs of kernels and all transfers, with the worker of each."""
        since_epoch = time_ns() - perf_counter_ns()
        addresses = {number: address for (address, _), number in self._threads.items()}
        for number, start, end, thread in rows(self._found.runs, 4):
            node, name = self._found.nodes[number], f"{self._found.threads[thread]} {thread}"
            yield WorkerSpan(addresses[thread], name, node.op, node.name, COMPUTED, *_seconds(since_epoch, start, end))
        for number, start, end, _ in rows(self._found.transfers, 4):
            way = self._found.ways[number]
            moments = _seconds(since_epoch, start, end)
            yield WorkerSpan(self._homes[way.receiver], "in", RECEIVED, tensor_of(way.tensor), MOVED, *moments)

    def _take_runs(self, address: str, told: WorkerMeasurement) -> None:
        runs = np.array(told.runs, np.int64).reshape(-1, 4)
        threads = {ident: self._thread(address, ident, name) for ident, name in told.threads.items()}
        runs[:, 0] = np.array(self._nodes[address], np.int64)[runs[:, 0]]
        runs[:, 3] = [threads[ident] for ident in runs[:, 3].tolist()]
        self._runs.append((address, runs))

    def _take_transfers(self, address: str, told: WorkerMeasurement) -> None:
        senders: dict[str, list[tuple[int, int, int, int]]] = {}
        for way, start, end, mark in rows(told.transfers, 4):
            number = self._ways[address][way]
            sender = self._homes[self._found.ways[number].sender] if mark == FROM_ELSEWHERE else address
            senders.setdefault(sender, []).append((number, start, end, 0))
        self._transfers += [(sender, address, np.array(moved, np.int64)) for sender, moved in senders.items()]

    def _way(self, own: Sequence[int], step: int, way: TransferPath) -> int:
        """Return the client's number of a transfer path; the sender and the receiver report the same path."""
        maker = None if way.maker is None else own[way.maker]
        found = way._replace(maker=maker, readers=tuple(own[reader] for reader in way.readers))
        key = (step, way.sender, way.receiver, way.tensor)
        ways = self._found.ways
        if step < 0 or key not in self._joined:
            self._joined[key] = len(ways)
            ways.append(found)
            return len(ways) - 1
        number = self._joined[key]
        if maker is not None:
            ways[number] = ways[number]._replace(maker=maker)
        else:
            ways[number] = ways[number]._replace(readers=found.readers)
        return number

    def _thread(self, address: str, ident: int, name: str) -> int:
        key = (address, ident)
        if key not in self._threads:
            number = self._threads[key] = len(self._threads)
            self._found.threads[number] = name
            self._found.groups[number] = self._names[address]
        return self._threads[key]


def _seconds(origin: int, start: int, end: int) -> tuple[float, float]:
    return (origin + start) / NANOSECONDS, (origin + end) / NANOSECONDS
