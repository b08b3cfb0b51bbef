"""Outcome of a session for a graph on a machine: one record, from which reports and inspections read."""

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
    """Copy made by a send and its receive, of any `kind`; `bytes` None if its shape is unknown before it runs."""

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
        """Whether it counts as a transfer."""
        return transfer_kind(self.src, self.dst, self.bytes)


@dataclass(frozen=True)
class Outcome:
    """Results of a session, up to `error` if there is one.

    `devices` are in device-set order; `placed` holds a placement for each time that the graph, or the body of a function that
    was called, was placed, `prepared` the partitions of each step; `shapes` are the static shapes of the graph as it was
    written, where they were inferred.  `creation_log` is what TensorFlow logs while it makes the devices.  `memory` is what the
    devices held where that was
    accounted for, `memory_log` what TensorFlow's allocators logged; `links` how the inventory says that devices are joined;
    `doubts` what in the graph file may not be meant.

    `results` are what was fetched; `fetches` the names of the nodes that were asked for (for a classic log, where nothing is
    asked for, of those that nobody reads); `style` and `shows_log` the log that was asked for.  `annotations` are the devices
    that came with a file of TensorFlow's, each with the number of nodes that ask for it (None for any other file).  `file` is
    what was simulated, with the nodes that steps added; None if it could not be read.
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
        """The placements of the graph itself; the last one holds."""
        return tuple(placement for placement in self.placed if not placement.is_body)

    @property
    def bodies(self) -> Bodies:
        """The bodies of the functions that the graph calls when it runs, as placed last; called or not."""
        return bodies_of(self.placed_graphs[-1]) if self.placed_graphs else NO_BODIES

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts, and TensorFlow's log lines except those about created devices."""
        of_devices = (line.text for line in self.creation_log if line.severity != "I")
        return (*self.doubts, *of_devices, *(message for placement in self.placed for message in placement.messages))

    @cached_property
    def transfers(self) -> tuple[TransferRow, ...]:
        """Every copy between devices, and between a device's memory and the host's, in node order."""
        with collector_paused():
            return tuple(row for step in self.prepared for row in _transfer_rows(step, self.shapes))


def _transfer_rows(step: PreparedStep, shapes: GraphShapes | None) -> Iterator[TransferRow]:
    if not step.partitions.transfers:
        return
    from placesim.runtime.partitioning.transfer_sizes import transfer_sizes

    for transfer, size in zip(step.partitions.transfers, transfer_sizes(step, shapes), strict=True):
        yield TransferRow(
            transfer.tensor,
            transfer.src,
            transfer.dst,
            size,
            transfer.send,
            transfer.send_op,
            transfer.recv,
            transfer.recv_op,
        )
