"""Measured times of kernels and transfers: start, end and thread of each run, and send and arrival of each tensor.

Programs are compiled with kernels that report their times, so a run without measurements has no overhead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import current_thread, get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from placesim.graph.graph import Graph, Node
from placesim.machine.memory.buffer_sources import Clock, JournalEntry
from placesim.machine.timelines.trace_events import (
    STEPS,
    Arrow,
    TraceRecord,
    TraceSlice,
    Track,
    TrackLanes,
    arrow,
    memory_counts,
    node_args,
)
from placesim.ops.categories import RECEIVES, SENDS
from placesim.ops.kernels.kernel import Kernel, KernelWait
from placesim.runtime.partitioning.partition import tensor_of

if TYPE_CHECKING:
    from placesim.runtime.accounting.ledger import Ledger
    from placesim.runtime.executors.program import Program
    from placesim.runtime.executors.transfer_keys import TransferKey
    from placesim.runtime.recording.output_descriptions import OutputRecord

RECEIVED = "RecvTensor"
"""Name of a transfer in TensorFlow's timeline."""
STEP = Track(STEPS, "step")


class MeasuredNode(NamedTuple):
    """A node of a program in this process."""

    device: str
    graph: Graph
    node: Node

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def op(self) -> str:
        """The node's op."""
        return self.node.op

    @property
    def inputs(self) -> tuple[str, ...]:
        """The node's inputs as text."""
        return tuple(self.graph.input_texts(self.node))


class RemoteNode(NamedTuple):
    """A node whose graph is in another process."""

    device: str
    name: str
    op: str
    inputs: tuple[str, ...]


class TransferPath(NamedTuple):
    """A tensor's way from one device to another; producer (None if unknown) and readers are given by node number."""

    tensor: str
    sender: str
    receiver: str
    maker: int | None
    readers: tuple[int, ...]


class Measurements:
    """Runs of kernels, transfers and steps, as rows of numbers; times are nanoseconds of `perf_counter_ns`.

    A run of a kernel takes 32 bytes, and so does a transfer. With `describes`, the outputs of kernels are described too, which
    takes more memory.
    """

    def __init__(self, describes: bool = False) -> None:
        self.nodes: list[MeasuredNode | RemoteNode] = []
        self.ways: list[TransferPath] = []
        self.runs = array("q")
        """Rows of node number, start, end and thread, in the order of ends."""
        self.transfers = array("q")
        """Rows of path number, send time, arrival time and 0."""
        self.steps = array("q")
        """Rows of step number, start and end."""
        self.threads: dict[int, str] = {}
        self.processes: dict[str, str] = {}
        """Name of the remote process of each remote device."""
        self.groups: dict[int, str] = {}
        """Name of the remote process of each remote thread."""
        self.outputs: dict[tuple[int, int], tuple[OutputRecord, ...]] | None = {} if describes else None
        """Descriptions of outputs, by node and start time."""
        self._ledger: Ledger | None = None
        self._numbers: dict[tuple[int, int], int] = {}
        self._ways: dict[int, tuple[Program, dict[Hashable, int]]] = {}

    # --- during a run

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Measure the step that runs in this context."""
        start = perf_counter_ns()
        try:
            yield
        finally:
            self.steps.extend((number, start, perf_counter_ns()))

    def follow(self, ledger: Ledger) -> None:
        """Set the clock of a ledger, so that its journals have measured times; the ledger must keep journals."""
        clock = ledger.clock = MeasuredClock()
        ledger.accounts_always = True
        for source in ledger.all_sources():
            source.clock = clock
        self._ledger = ledger

    def timed(self, kernel: Kernel, graph: Graph, node: Node, device: str) -> Kernel:
        """Return a kernel that records its runs; attempts that had to wait are not recorded."""
        number = self._numbers[id(graph), node.id] = len(self.nodes)
        self.nodes.append(MeasuredNode(device, graph, node))
        compute, runs, threads, now = kernel.compute, self.runs, self.threads, perf_counter_ns
        described = self.outputs

        def measured(*given: Any) -> Sequence[Any]:
            thread = get_ident()
            if thread not in threads:
                threads[thread] = current_thread().name
            start = now()
            try:
                outputs = compute(*given)
            except KernelWait:
                raise
            except BaseException:
                runs.extend((number, start, now(), thread))
                raise
            end = now()
            runs.extend((number, start, end, thread))
            if described is not None:
                from placesim.runtime.recording.output_descriptions import describe  # imported only if outputs are described

                described[number, start] = describe(node, given[0], outputs, end)
            return outputs

        return kernel._replace(compute=measured, direct=None)

    def ways_of(self, programs: Sequence[Program]) -> dict[Hashable, int]:
        """Map the key of each send and receive between programs to the number of the transfer's path."""
        known = self._ways.get(id(programs[0]))
        if known is not None:
            return known[1]
        makers: dict[Hashable, int | None] = {}
        readers: dict[Hashable, tuple[int, ...]] = {}
        for program in programs:
            consumers = program.graph.consumers()
            for instruction in program.instructions:
                node = instruction.node
                if node.op in SENDS:
                    makers[instruction.key] = self._numbers.get((id(program.graph), node.input_nodes[0]))
                elif node.op in RECEIVES:
                    found = (self._numbers.get((id(program.graph), consumer)) for consumer in consumers[node.id])
                    readers[instruction.key] = tuple(dict.fromkeys(number for number in found if number is not None))
        ways: dict[Hashable, int] = {}
        for key in (*makers, *(key for key in readers if key not in makers)):
            assert isinstance(key, tuple)
            ways[key] = len(self.ways)
            self.ways.append(TransferPath(key[2], key[0], key[1], makers.get(key), readers.get(key, ())))
        self._ways[id(programs[0])] = programs[0], ways
        return ways

    def exchange(self, programs: Sequence[Program]) -> Exchange:
        """Return an observer of the transfers in one run of these programs."""
        return Exchange(self, programs)

    def rendezvous(self, programs: Sequence[Program]) -> dict[Any, Any]:
        """Return a dict for sent tensors, by key, which records their transfers."""
        return Rendezvous(self.exchange(programs))

    def moved(self, way: int, start: int) -> None:
        """Record that a tensor has arrived on path `way`; it was sent at time `start`."""
        self.transfers.extend((way, start, perf_counter_ns(), 0))

    # --- after a run

    @property
    def journals(self) -> dict[str, list[JournalEntry]]:
        """Allocations and releases of each device's memory; empty if memory was not accounted for."""
        if self._ledger is None:
            return {}
        return {device: list(source.journal) for device, source in self._ledger.sources.items() if source.journal}

    def records(self) -> Iterator[TraceRecord]:
        """Yield the trace of everything that has run so far."""
        return _Records(self).records()


class MeasuredClock(Clock):
    """A clock in nanoseconds."""

    __slots__ = ()

    def now(self) -> int:
        """Return the current time."""
        return perf_counter_ns()


class Exchange:
    """Records the transfers between programs in the runs of one executor."""

    def __init__(self, measurements: Measurements, programs: Sequence[Program]) -> None:
        self._moved = measurements.moved
        self._ways = measurements.ways_of(programs)
        self._sent: dict[Hashable, int] = {}

    def sent(self, name: TransferKey | None, key: Hashable) -> None:
        """Record that a tensor is sent; in a loop, `key` also identifies the iteration."""
        self._sent[key] = perf_counter_ns()

    def received(self, name: TransferKey | None, key: Hashable) -> None:
        """Record that the tensor with this key is received."""
        start = self._sent.pop(key, None)
        if start is not None:
            self._moved(self._ways[name], start)


class Rendezvous(dict[Any, Any]):
    """Tensors that were sent and not yet received, by key; reports both events to an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def __setitem__(self, key: Any, value: Any) -> None:
        self._exchange.sent(key, key)
        super().__setitem__(key, value)

    def pop(self, key: Any, *default: Any) -> Any:
        found = super().pop(key, *default)
        self._exchange.received(key, key)
        return found


# --- records --------------------------------------------------------------------------------------------------------


_Span: TypeAlias = tuple[int, int, int]


class _Records:
    """Trace records of the measurements so far, from a copy that running threads do not change."""

    def __init__(self, found: Measurements) -> None:
        self._found = found
        self._runs = found.runs[:]
        self._transfers = found.transfers[:]
        self._steps = found.steps[:]
        self._journals = found.journals
        self._threads = _distinct(dict(found.threads), found.groups)
        moments = [*self._steps[1::3], *self._runs[1::4], *self._transfers[1::4]]
        moments += [journal[0].moment for journal in self._journals.values()]
        self._origin = min(moments, default=0)

    def records(self) -> Iterator[TraceRecord]:
        yield STEP
        yield from self._tracks()
        for number, start, end in rows(self._steps, 3):
            yield TraceSlice(STEP, start - self._origin, end - self._origin, f"step {number}", "Step", {"step": number})
        for number, start, end, thread in rows(self._runs, 4):
            node = self._found.nodes[number]
            args = node_args(node.name, node.op, node.inputs)
            track = self._track(node.device, thread)
            yield TraceSlice(track, start - self._origin, end - self._origin, node.op, "Op", args)
        yield from self._moved()
        for device, journal in self._journals.items():
            yield from memory_counts(device, self._in_use(journal))

    def _track(self, device: str, thread: int) -> Track:
        return self._row(self._found.groups.get(thread), device, " Compute", self._threads[thread])

    def _row(self, process: str | None, device: str, what: str, row: str) -> Track:
        """Return the track of a row: of the remote `process` if there is one, else of a process named after the device."""
        if process is None:
            return Track(f"{device}{what}", row)
        task, _, own = device.partition("/device:")
        return Track(process, f"{own} {row} of {task}")  # the task is last, as viewers cut off the end of a long name

    def _tracks(self) -> Iterator[Track]:
        """Yield the tracks by device, and each device's threads in the order of their first node."""
        found: dict[str, dict[Track, None]] = {}
        for node in self._found.nodes:
            found.setdefault(node.device, {})
        for number, _, _, thread in rows(self._runs, 4):
            device = self._found.nodes[number].device
            found[device][self._track(device, thread)] = None
        for device in sorted(found):
            yield from found[device]

    def _moved(self) -> Iterator[TraceSlice | Arrow]:
        """Yield a slice for each transfer on a track of its receiver, and arrows from the producer and to the readers."""
        starts, ends = self._spans_by_node()
        lanes: dict[str, TrackLanes] = {}
        for number, start, end, _ in sorted(rows(self._transfers, 4), key=lambda row: row[1:3]):
            tensor, sender, receiver, maker, readers = self._found.ways[number]
            lane = lanes.setdefault(receiver, TrackLanes()).take(start, end)
            track = self._row(self._found.processes.get(receiver), receiver, "/memcpy Compute", f"in {lane}")
            name = tensor_of(tensor)
            args = {"name": name, "op": RECEIVED, "from": sender, "to": receiver}
            way = (track, start - self._origin, end - self._origin)
            yield TraceSlice(*way, RECEIVED, "Op", args)
            if maker in ends:
                at = bisect_right(ends[maker], (start, 1 << 62, 0)) - 1
                if at >= 0:
                    ended, began, thread = ends[maker][at]
                    source = self._track(self._found.nodes[maker].device, thread)
                    yield arrow(name, (source, began - self._origin, ended - self._origin), way)
            for reader in readers:
                at = bisect_left(starts.get(reader, []), (end, 0, 0))
                if reader in starts and at < len(starts[reader]):
                    began, ended, thread = starts[reader][at]
                    target = self._track(self._found.nodes[reader].device, thread)
                    yield arrow(name, way, (target, began - self._origin, ended - self._origin))

    def _spans_by_node(self) -> tuple[dict[int, list[_Span]], dict[int, list[_Span]]]:
        """Return the sorted runs of all readers of transferred tensors, and those of all producers, by node.

        A run is a tuple: start, end and thread for a reader; end, start and thread for a producer.
        """
        makers = {way.maker for way in self._found.ways}
        readers = {reader for way in self._found.ways for reader in way.readers}
        starts: dict[int, list[_Span]] = {}
        ends: dict[int, list[_Span]] = {}
        for number, start, end, thread in rows(self._runs, 4):
            if number in makers:
                ends.setdefault(number, []).append((end, start, thread))
            if number in readers:
                starts.setdefault(number, []).append((start, end, thread))
        for began in starts.values():
            began.sort()
        for ended in ends.values():
            ended.sort()
        return starts, ends

    def _in_use(self, journal: Sequence[JournalEntry]) -> Iterator[tuple[int, int]]:
        yield 0, 0
        in_use, last = 0, max(self._steps[2::3], default=0)
        for entry in journal:
            if entry.moment > last:
                return  # after the last step, the session releases all its memory
            in_use += entry.buffer.allocated if entry.is_made else -entry.buffer.allocated
            yield entry.moment - self._origin, in_use


def _distinct(names: Mapping[int, str], groups: Mapping[int, str]) -> dict[int, str]:
    """Return the names of threads; if several threads of a group have one name, the second gets the suffix 2, and so on."""
    counts: Counter[tuple[str, str]] = Counter()
    found = {}
    for thread, name in names.items():
        known = groups.get(thread, ""), name
        counts[known] += 1
        found[thread] = name if counts[known] == 1 else f"{name} {counts[known]}"
    return found


def rows(numbers: array[int], width: int) -> Iterator[tuple[int, ...]]:
    """Yield the rows of a table of `width` columns."""
    return zip(*[iter(numbers)] * width, strict=True)
