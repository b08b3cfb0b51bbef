"""Links of the inventory: the entries as written, and the ends that they connect on a machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from placesim.core.errors import Location

PCIE_BYTES_PER_LANE = {1: 250e6, 2: 500e6, 3: 8e9 * 128 / 130 / 8, 4: 16e9 * 128 / 130 / 8, 5: 32e9 * 128 / 130 / 8}
"""Bytes per second and lane in each direction, by generation.

This is the transfer rate without the overhead of the line code (PCI Express Base Specification).
"""
NETWORK_BYTES = 10e9 / 8
LinkKind = Literal["pcie", "nvlink", "network"]
KINDS: tuple[LinkKind, ...] = ("pcie", "nvlink", "network")
LATENCIES: dict[LinkKind, float] = {"pcie": 5e-6, "nvlink": 2e-6, "network": 50e-6}
"""Default latency of a transfer in seconds.

A link to a switch or the network has half of this latency, since a transfer crosses two such links.
"""
LinkWays = Literal["each", "shared", "one"]
WAYS: tuple[LinkWays, ...] = ("each", "shared", "one")
MAX_LINKS = 1 << 16
NVLINK_SWITCH = "switch:nvlink"
"""Switch that connects each GPU of a task with all others by NVLink, unless the inventory defines links."""
HOST, NETWORK = "host", "network"
END_FORMS = (
    "GPU:N, GPU:*, CPU:N, host, switch:NAME, network or network:NAME, after /job:NAME/task:N/ if there are several tasks"
)


class TaskName(NamedTuple):
    """A task, given by its job and its number."""

    job: str
    number: int


class TaskDevices(NamedTuple):
    """The number of CPU devices of a task, and the driver's numbers of its GPUs."""

    cpus: int
    gpus: Sequence[int]


class Vertex(NamedTuple):
    """An end of a link on a machine: `name` is `GPU:0`, `host` or `switch:NAME` in a task; the network belongs to no task."""

    task: TaskName | None
    name: str

    @property
    def is_gpu(self) -> bool:
        return self.name.startswith("GPU:")

    @property
    def is_hub(self) -> bool:
        """Whether the vertex is a switch or a network, not a device or a host."""
        return self.name.startswith(("switch:", NETWORK))

    def text(self, names_task: bool) -> str:
        """Return the name of the vertex in reports."""
        return f"{self.task.job}:{self.task.number}/{self.name}" if names_task and self.task is not None else self.name


class LinkEnd(NamedTuple):
    """An end of a link as written in a file or an option.

    `name` is `GPU:0`, `GPU:*`, `CPU:0`, `host`, `switch:NAME` or `network`.  A `job` or `task` of None is not specified; a task
    of -1 is every task.  Without a task, the link exists once in each task.
    """

    name: str
    job: str | None = None
    task: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the end stands for one end in each task; this never holds for a network."""
        return self.task is None and not self.name.startswith(NETWORK)

    @property
    def text(self) -> str:
        """This end of the link, in the notation of inventory files."""
        job = "" if self.job is None else f"/job:{self.job}"
        task = "" if self.task is None else f"/task:{'*' if self.task < 0 else self.task}"
        return f"{job}{task}/{self.name}" if job or task else self.name


class LinkEntry(NamedTuple):
    """An entry of `links`: bandwidth in bytes per second (infinite: transfers are free; 0: no link) and latency in seconds.

    `ways` is "each" if each direction has the bandwidth, "shared" if both share it, and "one" for a link from the first end to
    the second.  A medium (`is_medium`) has any number of ends, and all transfers between them share its bandwidth.
    """

    ends: tuple[LinkEnd, ...]
    bandwidth: float
    latency: float
    kind: LinkKind
    ways: LinkWays = "each"
    is_medium: bool = False
    name: str = ""


class MachineLinks(NamedTuple):
    """The link entries of an inventory (`entries`), and of the command line (`given`), which replace entries with the same
    ends.
    """

    entries: tuple[LinkEntry, ...] = ()
    given: tuple[LinkEntry, ...] = ()
    location: Location | None = None


NO_LINKS = MachineLinks()
# a text, which `re` compiles on first use: few graphs have links
_END = (
    r"(?:/job:(?P<job>[A-Za-z][A-Za-z0-9_]*|\*))?(?:/replica:0)?(?:/task:(?P<task>[0-9]{1,4}|\*))?/?"
    r"(?:(?:device:)?(?P<type>GPU|CPU|gpu|cpu):(?P<id>[0-9]{1,4}|\*)|(?P<name>host|switch:[A-Za-z0-9_.]+|network(?::[A-Za-z0-9_.]+)?))"
)


def parse_end(text: str) -> LinkEnd | None:
    """Parse a written end.  Return None if it is invalid."""
    found = re.fullmatch(_END, text)
    if found is None:
        return None
    job, task, device = found["job"], found["task"], found["type"]
    name = found["name"]
    if device is not None:
        name = f"{device.upper()}:{found['id'] if found['id'] == '*' else int(found['id'])}"
    if name.startswith(NETWORK) and (job or task):
        return None
    # an end with a task but no job is in the only job, or in each job
    return LinkEnd(name, None if job == "*" else job, None if task is None else -1 if task == "*" else int(task))


def infer_link_kind(ends: Sequence[LinkEnd]) -> LinkKind:
    """Return the kind of an entry that does not name its kind.

    The kind is network if one end is the network or all ends are hosts, NVLink if all ends are GPUs, else PCIe.
    """
    if any(end.name.startswith(NETWORK) for end in ends) or all(end.name in (HOST, "CPU:0") for end in ends):
        return "network"
    return "nvlink" if all(end.name.startswith("GPU:") for end in ends) else "pcie"


def default_latency(kind: LinkKind, ends: Sequence[LinkEnd]) -> float:
    """Return the default latency of a link of a kind, in seconds."""
    leads_on = any(end.name.startswith(("switch:", NETWORK)) for end in ends)
    return LATENCIES[kind] / 2 if leads_on else LATENCIES[kind]


def missing_ends(entry: LinkEntry, tasks: Mapping[TaskName, TaskDevices]) -> list[LinkEnd]:
    """Return the ends of an entry that no task of the machine has. `GPU:*` is not missing in a task without GPUs."""
    return [
        end
        for end in entry.ends
        if not end.name.startswith(NETWORK) and not any(_has(end, tasks[task]) for task in tasks if _is_in(end, task))
    ]


def resolve_ends(entry: LinkEntry, tasks: Mapping[TaskName, TaskDevices]) -> Iterator[tuple[Vertex, ...]]:
    """Yield the ends of each link that an entry describes, on a machine with these tasks.

    A link has two ends, or all ends of a medium.  Ends that the machine lacks (with `--gpu 1`, for example) are left out.
    """
    is_open = any(end.is_open for end in entry.ends)
    seen: set[tuple[Vertex, ...]] = set()
    for context in tasks if is_open else (None,):
        vertices = [list(_vertices(end, context, tasks)) for end in entry.ends]
        if entry.is_medium:
            found = tuple(dict.fromkeys(vertex for some in vertices for vertex in some))
            if len(found) > 1:
                yield found
            continue
        for first in vertices[0]:
            for second in vertices[1]:
                pair = first, second
                if first != second and pair not in seen and (entry.ways == "one" or pair[::-1] not in seen):
                    seen.add(pair)
                    yield pair


def merge_links(links: MachineLinks, tasks: Mapping[TaskName, TaskDevices]) -> tuple[LinkEntry, ...]:
    """Return all entries, without those for which a later entry of the command line has the same kind and ends.

    Of an entry that is replaced in part, each remaining link becomes an entry.
    """

    if not links.given:
        return links.entries
    last = {(entry.kind, frozenset(ends)): entry for entry in links.given for ends in resolve_ends(entry, tasks)}
    found: list[LinkEntry] = []
    for entry in (*links.entries, *links.given):
        every = list(resolve_ends(entry, tasks))
        rest = [ends for ends in every if last.get((entry.kind, frozenset(ends)), entry) is entry]
        names_task = len(tasks) > 1
        parts = [entry._replace(ends=tuple(_link_end(end, names_task=names_task) for end in ends)) for ends in rest]
        found += [entry] if rest == every else parts
    return tuple(found)


def _link_end(vertex: Vertex, *, names_task: bool) -> LinkEnd:
    return LinkEnd(vertex.name, *(vertex.task or ())) if names_task else LinkEnd(vertex.name)


def _vertices(end: LinkEnd, context: TaskName | None, tasks: Mapping[TaskName, TaskDevices]) -> Iterator[Vertex]:
    if end.name.startswith(NETWORK):
        yield Vertex(None, end.name)
        return
    for task in tasks if context is None or not end.is_open else (context,):
        if not _is_in(end, task):
            continue
        if end.name == "GPU:*":
            yield from (Vertex(task, f"GPU:{gpu}") for gpu in tasks[task].gpus)
        elif end.name.startswith("CPU:"):
            yield Vertex(task, HOST)
        elif _has(end, tasks[task]):
            yield Vertex(task, end.name)


def _is_in(end: LinkEnd, task: TaskName) -> bool:
    return (end.job is None or end.job == task.job) and (end.task is None or end.task in (-1, task.number))


def _has(end: LinkEnd, devices: TaskDevices) -> bool:
    kind, _, number = end.name.partition(":")
    if number == "*" or kind not in ("GPU", "CPU"):
        return True
    return int(number) in devices.gpus if kind == "GPU" else int(number) < devices.cpus


def is_free(bandwidth: float) -> bool:
    """Return whether a link transfers bytes in no time."""
    return bandwidth == math.inf
