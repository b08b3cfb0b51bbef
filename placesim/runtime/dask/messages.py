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
    """Opening of a session in a worker: its graph without nodes, its machine, and the worker of each device.

    `address` is the worker's own, as in `homes`; `is_measured` if the client records times.
    """

    graph: Graph
    device_set: DeviceSet
    config: Config
    files: FileAccess
    homes: dict[str, str]
    address: str
    is_measured: bool


class PartWork(NamedTuple):
    """A worker's part of a prepared step: partitions with their numbers among all, and their order.

    `order` has pairs of own partition and node, `positions` where each stands in the order of all; both are empty if that is
    not fixed.  `buffers` are the fetches that share a variable's memory.
    """

    parts: tuple[Partition, ...]
    numbers: tuple[int, ...]
    order: tuple[tuple[int, int], ...]
    positions: tuple[int, ...]
    buffers: Buffers


class Readiness(NamedTuple):
    """Answer of a worker about its part of a step once its programs are made.

    `expensive` is how many of its ops deserve a thread of their own; `error` what kept partition `failed` from being made.
    """

    needs_dataflow: bool
    expensive: int
    failed: int = 0
    error: PlacesimError | None = None


class ConsoleText(NamedTuple):
    """A text that an op wrote to standard output, or else to standard error."""

    is_output: bool
    text: str


class Event(NamedTuple):
    """A message in the order of the step."""

    position: Position
    what: ConsoleText | Placement


@dataclass(slots=True)
class PartResult:
    """Result of a worker's part of a step; `position` is the place of `error`, `measured` its timing."""

    results: dict[int, Any] = field(default_factory=dict)
    error: PlacesimError | None = None
    position: Position = ()
    events: list[Event] = field(default_factory=list)
    measured: WorkerMeasurement | None = None
