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
    """Data to open a session in a worker.

    The `graph` has no nodes. `homes` has the address of each device's worker, and `address` is this worker's own. `is_measured`
    is set if the client measures times.
    """

    graph: Graph
    device_set: DeviceSet
    config: Config
    files: FileAccess
    homes: dict[str, str]
    address: str
    is_measured: bool


class PartWork(NamedTuple):
    """A worker's part of a prepared step.

    `parts` are the worker's partitions, and `numbers` their numbers in the whole step. `order` has the nodes in execution
    order, as pairs of an index in `parts` and a node; `positions` has their positions in the order of the whole step. Both are
    empty if the order is not fixed. `buffers` are the fetches that share a variable's memory.
    """

    parts: tuple[Partition, ...]
    numbers: tuple[int, ...]
    order: tuple[tuple[int, int], ...]
    positions: tuple[int, ...]
    buffers: Buffers


class Readiness(NamedTuple):
    """A worker's answer when it has compiled its part of a step.

    `expensive` is the number of nodes that are worth a thread of their own. If the partition with the number `failed` could not
    be compiled, `error` is the error.
    """

    needs_dataflow: bool
    expensive: int
    failed: int = 0
    error: PlacesimError | None = None


class ConsoleText(NamedTuple):
    """A text that an op wrote to standard output (`is_output`) or to standard error."""

    is_output: bool
    text: str


class Event(NamedTuple):
    """An op has printed a text, or a function's body was placed; `position` is the node's position in the step."""

    position: Position
    what: ConsoleText | Placement


@dataclass(slots=True)
class PartResult:
    """Result of a worker's part of a step: `results` by `_Retval` index, or an `error` with the position of its node."""

    results: dict[int, Any] = field(default_factory=dict)
    error: PlacesimError | None = None
    position: Position = ()
    events: list[Event] = field(default_factory=list)
    measured: WorkerMeasurement | None = None
