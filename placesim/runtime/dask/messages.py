"""Messages between the client and the workers of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.core.files.access import FileAccess
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Config
from placesim.machine.inventory import DeviceSet
from placesim.placement.placer import Placement
from placesim.runtime.dask.message_queue import Position
from placesim.runtime.dask.worker_measurements import WorkerMeasurement
from placesim.runtime.partitioning.partition import Partition
from placesim.runtime.sessions.shared_variable_memory import Buffers

SESSION = "placesim_session"
TENSORS = "placesim_tensors"


class SessionOpening(NamedTuple):
    """The opening of a session in a worker: its graph without nodes, its devices, and the worker of each device.

    `address` is the worker's own, as in `homes`. `is_measured` is true if the client records times.
    """

    graph: Graph
    device_set: DeviceSet
    config: Config
    files: FileAccess
    homes: dict[str, str]
    address: str
    is_measured: bool


class PartWork(NamedTuple):
    """A worker's part of a prepared step: partitions, their numbers among all, and their order.

    `order` has pairs of own partition and node; `positions` has their positions in the order of the whole step. Both are empty
    if the order is not fixed. `buffers` are the fetches that alias a variable's memory.
    """

    parts: tuple[Partition, ...]
    numbers: tuple[int, ...]
    order: tuple[tuple[int, int], ...]
    positions: tuple[int, ...]
    buffers: Buffers


class Readiness(NamedTuple):
    """A worker's answer when it has compiled its part of a step.

    `expensive` is the number of ops worth a thread of their own. `error` is the error that compiling the partition `failed`
    raised, or None.
    """

    needs_dataflow: bool
    expensive: int
    failed: int = 0
    error: PlacesimError | None = None


class ConsoleText(NamedTuple):
    """A text that an op wrote to standard output if `is_output`, else to standard error."""

    is_output: bool
    text: str


class Event(NamedTuple):
    """A printed text or a placement, with its position in the order of the step."""

    position: Position
    what: ConsoleText | Placement


@dataclass(slots=True)
class PartResult:
    """The result of a worker's part of a step. `position` is that of `error`; `measured` has its times."""

    results: dict[int, Any] = field(default_factory=dict)
    error: PlacesimError | None = None
    position: Position = ()
    events: list[Event] = field(default_factory=list)
    measured: WorkerMeasurement | None = None
