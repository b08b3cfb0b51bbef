"""Record of one session, which reports and inspections read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.core.process.gc_pause import collector_paused
from placesim.machine.gpu_memory import GpuLogLine
from placesim.machine.inventory import Device
from placesim.machine.links import NO_LINKS, MachineLinks
from placesim.placement.function_bodies import NO_BODIES, Bodies, bodies_of
from placesim.placement.placer import Placement
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.partitioning.transfer_kinds import TransferKind, transfer_kind
from placesim.runtime.sessions.results import Results

if TYPE_CHECKING:
    from placesim.graph.session_steps import GraphFile
    from placesim.machine.memory.allocator_log import DumpLine as MemoryLogLine
    from placesim.runtime.accounting.usage import DeviceUsage
    from placesim.runtime.shapes.graph_shapes import GraphShapes


class TransferRow(NamedTuple):
    """A tensor that a send and its receive copy; `bytes` is None if static shapes do not determine them."""

    tensor: str
    src: str
    dst: str
    bytes: int | None
    send: str
    send_op: str
    recv: str
    recv_op: str

    @property
    def kind(self) -> TransferKind:
        """Purpose of the copy; only `TransferKind.TENSOR` counts as a transfer."""
        return transfer_kind(self.src, self.dst, self.bytes)

    @property
    def is_open(self) -> bool:
        """Whether the transfer is between devices, and its size is unknown."""
        return self.bytes is None and self.kind is TransferKind.TENSOR


@dataclass(frozen=True)
class Outcome:
    """The results of a session, up to its `error` if it has one.

    - `devices`: in the order of the device set.
    - `placed`: a placement for each time that the graph, or the body of a called function, was placed.
    - `prepared`: for each step, the prepared step with its partitions.
    - `shapes`: static shapes of the original graph, if they were inferred.
    - `creation_log`, `memory_log`: lines that TensorFlow logs when it creates devices, and lines of its allocators.
    - `memory`: memory use of each device, if it was accounted for.
    - `links`: the links in the inventory.
    - `doubts`: warnings about probable mistakes in the graph file.
    - `results`: the fetched values.
    - `fetches`: names of the requested nodes; for a classic log without requests, of the nodes without readers.
    - `style`, `shows_log`: the log's style, and whether it is printed.
    - `annotations`: number of nodes that request each device; None unless the graph is from a TensorFlow file.
    - `file`: the simulated graph file, with the nodes that steps added; None if it could not be read.
    """

    devices: tuple[Device, ...] = ()
    placed: tuple[Placement, ...] = ()
    prepared: tuple[PreparedStep, ...] = ()
    error: PlacesimError | None = None
    shapes: GraphShapes | None = field(default=None, compare=False)
    creation_log: tuple[GpuLogLine, ...] = ()
    memory: tuple[DeviceUsage, ...] = ()
    memory_log: tuple[MemoryLogLine, ...] = ()
    links: MachineLinks = NO_LINKS
    doubts: tuple[str, ...] = ()
    results: Results = field(default_factory=Results)
    fetches: tuple[str, ...] = ()
    style: str = "modern"
    shows_log: bool = True
    annotations: Mapping[str, int] | None = None
    file: GraphFile | None = field(default=None, compare=False)

    @cached_property
    def placed_graphs(self) -> tuple[Placement, ...]:
        """The placements of the graph itself, without those of function bodies; the last one is valid at the end."""
        return tuple(placement for placement in self.placed if not placement.is_body)

    @property
    def bodies(self) -> Bodies:
        """The newest placement of each function body that the graph calls when it runs, whether it was called or not."""
        return bodies_of(self.placed_graphs[-1]) if self.placed_graphs else NO_BODIES

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts, TensorFlow's warnings about devices, and the placer's messages."""
        of_devices = (line.text for line in self.creation_log if line.severity != "I")
        return (*self.doubts, *of_devices, *(message for placement in self.placed for message in placement.messages))

    @cached_property
    def transfers(self) -> tuple[TransferRow, ...]:
        """Every copy between devices, and between device memory and host memory, in node order."""
        with collector_paused():
            return tuple(row for step in self.prepared for row in _transfer_rows(step, self.shapes))


def _transfer_rows(step: PreparedStep, shapes: GraphShapes | None) -> Iterator[TransferRow]:
    if not step.partitions.transfers:
        return
    from placesim.runtime.partitioning.transfer_sizes import transfer_sizes

    for found, size in zip(step.partitions.transfers, transfer_sizes(step, shapes), strict=True):
        ends = found.send, found.send_op, found.recv, found.recv_op
        yield TransferRow(found.tensor, found.src, found.dst, size, *ends)
