"""Contents of a graph file other than nodes: configuration, inventory and session steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from placesim.core.errors import Location
from placesim.graph.graph import Graph, NodeDef
from placesim.machine.gpu_options import GpuOptions
from placesim.machine.inventory import TaskInventory
from placesim.machine.links import NO_LINKS, MachineLinks


class Feed(NamedTuple):
    """A tensor that is fed to a step. `value` is a literal, an array, a `GeneratedFeed` or a `FileFeed`."""

    tensor: str
    value: Any
    location: int = 0


class FileFeed(NamedTuple):
    """A feed that is read from a `.npy` file. `path` is relative to the graph file."""

    path: str


def file_of_feed(value: Any) -> str | None:
    """Return the path of a feed's file, as written in a graph file or an option; None if the feed is not a file."""
    path = value.path if isinstance(value, FileFeed) else value.get("file") if isinstance(value, Mapping) else None
    return path if isinstance(path, str) else None


class GeneratedFeed(NamedTuple):
    """A generated feed: `zeros`, `ones`, `random_normal` or `random_uniform`, with a shape and a seed.

    `figures` has the given parameters: `mean` and `stddev`, or `minval` and `maxval`.
    """

    kind: str
    shape: tuple[int, ...]
    seed: int | None = None
    figures: Mapping[str, float] = MappingProxyType({})


class Fetch(NamedTuple):
    """A name to fetch: `x:0` or a node. A node without outputs, or `^x`, is a target.

    `label` is the name of the result, if it differs from `name`.
    """

    name: str
    location: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class GraphStep:
    """A step of a session. `nodes` are added to the graph before the step, which extends the session."""

    fetches: tuple[Fetch, ...] = ()
    feeds: tuple[Feed, ...] = ()
    repeat: int = 1
    nodes: tuple[NodeDef, ...] = ()


class ThreadPoolOptions(NamedTuple):
    """An entry of `session_inter_op_thread_pool`."""

    num_threads: int = 0
    global_name: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """Fields of ConfigProto that affect the simulation, by their own names, with TensorFlow's defaults.

    `gpu_options_location` is the place of `gpu_options` in the file. Two fields belong to placesim. `memory_limit` is the
    number of bytes that a run may allocate (None: the machine's free memory). `fuses_ops` says whether ops may be computed
    together.
    """

    allow_soft_placement: bool = False
    log_device_placement: bool = False
    device_count: tuple[tuple[str, int], ...] = ()
    device_filters: tuple[str, ...] = ()
    intra_op_parallelism_threads: int = 0
    inter_op_parallelism_threads: int = 0
    use_per_session_threads: bool = False
    session_inter_op_thread_pool: tuple[ThreadPoolOptions, ...] = ()
    operation_timeout_in_ms: int = 0
    gpu_options: GpuOptions = field(default_factory=GpuOptions)
    place_pruned_graph: bool = False
    do_constant_folding: bool = False
    master: str = ""
    memory_limit: int | None = None
    fuses_ops: bool = True
    gpu_options_location: Location | None = field(default=None, compare=False)

    @property
    def timeout_seconds(self) -> float | None:
        """Return `operation_timeout_in_ms` in seconds, or None for no limit."""
        return self.operation_timeout_in_ms / 1000 if self.operation_timeout_in_ms > 0 else None


@dataclass(frozen=True, slots=True)
class GraphFile:
    """The content of a graph file.

    `steps` is None if the file names no steps; every sink is then fetched. `each_step` lists a script's steps one by one if
    repetitions have different feeds. `inventory` is None without `devices`. `is_raw` says that the nodes come from a GraphDef.
    `initial_values` are the values of a saved model's variables. `rest` has the other parts of a GraphDef (debug info, function
    gradients, unknown fields), serialised. `doubts` are warnings with their places. `as_read` is the graph as a
    GraphDef has it; if `graph` is another one, it was changed.
    """

    name: str
    graph: Graph
    description: str = ""
    inventory: tuple[TaskInventory, ...] | None = None
    links: MachineLinks = NO_LINKS
    config: Config = field(default_factory=Config)
    steps: tuple[GraphStep, ...] | None = None
    initial_values: dict[str, Any] = field(default_factory=dict)
    is_raw: bool = False
    rest: bytes = b""
    each_step: tuple[GraphStep, ...] | None = None
    doubts: tuple[str, ...] = ()
    as_read: Graph | None = field(default=None, repr=False, compare=False)
