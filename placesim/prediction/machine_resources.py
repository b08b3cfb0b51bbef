"""Resources of a machine: the streams, cores and links that a step's tasks share.

Each task of the cluster has the cores of its host, and a network link in each direction.  Each GPU has a compute stream, three
copy streams, a PCIe link in each direction and, if its model has it, an NVLink in each direction.  Links in the inventory
replace these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.core.errors import GraphFileError, Location, Problem
from placesim.machine.device_names import DeviceName
from placesim.machine.host_models import HostModel
from placesim.machine.inventory import Device
from placesim.machine.links import (
    HOST,
    LATENCIES,
    NETWORK,
    NETWORK_BYTES,
    NO_LINKS,
    NVLINK_SWITCH,
    PCIE_BYTES_PER_LANE,
    LinkEntry,
    LinkKind,
    MachineLinks,
    TaskDevices,
    TaskName,
    Vertex,
    merge_links,
    resolve_ends,
)
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.workload import NOWHERE, CallingThread, Cores, Resource, SerialStream
from placesim.prediction.hosts import Host
from placesim.prediction.processors import Processor, gpu_processor
from placesim.prediction.routes import Routes

LINK_ASSUMPTION = (
    "assumed links, as the inventory lists none: PCIe by the GPU's generation and lanes with "
    f"{LATENCIES['pcie'] * 1e6:g} us, NVLink where the model has it with {LATENCIES['nvlink'] * 1e6:g} us, between tasks "
    f"{NETWORK_BYTES * 8 / 1e9:g} Gbit/s and {LATENCIES['network'] * 1e6:g} us; full duplex"
)

FROM_HOST, TO_HOST, BETWEEN_GPUS = "from host", "to host", "between GPUs"
"""Suffixes of the names of a GPU's copy streams."""


class Threads(NamedTuple):
    """Number of nodes that a task's CPUs run at once, and number of cores that one node may use; 0 for all cores."""

    inter_op: int = 0
    intra_op: int = 0


class _Gpu(NamedTuple):
    """A GPU: the resource numbers of its streams, its vertex in the graph of links, and seconds of a launch (0 if unknown)."""

    processor: Processor
    compute: int
    from_host: int
    to_host: int
    to_others: int
    vertex: Vertex
    launch: float = 0.0


class DevicePlace(NamedTuple):
    """Resource numbers of a device: the host's cores, and for a GPU its streams.

    A measured host with several threads between ops has a `caller`, the thread that called the step.
    """

    device: Device
    task: DeviceName
    cores: int
    gpu: _Gpu | None
    host: Host
    caller: int = NOWHERE

    @property
    def name(self) -> str:
        """Name of the processor: a GPU's model, or the host."""
        return "host" if self.gpu is None else self.gpu.processor.name


class Route(NamedTuple):
    """Numbers of the links and copy streams that a transfer uses; both are empty for a copy within a host's memory."""

    links: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()


class SimulatedMachine:
    """Resources and links of a machine by number, and the place of each device by the device's name.

    Virtual devices of one GPU share its streams and links.  A link of the inventory replaces the default link of the same kind:
    a GPU's PCIe or NVLink, or the host's network link.

    The constructor raises InvalidArgumentError for a GPU model without a rate or a bandwidth.
    """

    def __init__(self, devices: Sequence[Device], threads: Threads | None = None, links: MachineLinks = NO_LINKS) -> None:
        threads = threads or Threads()
        self.resources: list[Resource] = []
        self.places: dict[str, DevicePlace] = {}
        self.threads = threads
        self.hosts: dict[DeviceName, Host] = {}
        self._cores: dict[DeviceName, int] = {}
        callers: dict[DeviceName, int] = {}
        self._gpus: dict[tuple[DeviceName, int], _Gpu] = {}
        self._location = links.location
        self._routes = Routes()
        self._found: dict[tuple[Vertex, Vertex], Route] = {}
        listed = listed_links(devices, links)
        tasks = list(dict.fromkeys(device.spec.address_space for device in devices))
        self._names_tasks = len(tasks) > 1
        for task in tasks:
            end, prefix = Vertex(_task(task), HOST), self._prefix(task)
            model = next((device.host for device in devices if device.host and device.spec.address_space == task), HostModel())
            host = self.hosts[task] = Host(model)
            # a pool of negative size only has the caller's thread
            inter_op = threads.inter_op if threads.inter_op > 0 else host.inter_op_threads if threads.inter_op == 0 else 1
            self._cores[task] = self._resource(Cores(f"{prefix}host", host.cores, inter_op))
            if host.profile is not None and inter_op > 1:
                callers[task] = self._resource(CallingThread(f"{prefix}host", self._cores[task]))
            if self._names_tasks and (end, "network") not in listed.replaced:
                self._both_ways(end, Vertex(None, NETWORK), f"{prefix}network", NETWORK_BYTES, LATENCIES["network"] / 2)
        for device in devices:
            task = device.spec.address_space
            gpu = None if device.gpu is None else self._gpu(device, task, listed)
            caller = callers.get(task, NOWHERE)
            self.places[device.name] = DevicePlace(device, task, self._cores[task], gpu, self.hosts[task], caller)
        self.assumes_links = bool(self.links)
        for link in listed.links:
            self._listed(link)

    @property
    def links(self) -> list[Link]:
        """All links; a full-duplex link counts as two, one per direction."""
        return self._routes.links

    def _prefix(self, task: DeviceName) -> str:
        """Return the start of the names of a task's resources; empty if there is only one task."""
        return f"{task.job}:{task.task}/" if self._names_tasks else ""

    def _gpu(self, device: Device, task: DeviceName, listed: ListedLinks) -> _Gpu:
        memory = device.gpu
        assert memory is not None
        found = self._gpus.get((task, memory.platform_id))
        if found is None:
            name, own = f"{self._prefix(task)}GPU:{device.spec.id}", memory.model.figures
            vertex = Vertex(_task(task), f"GPU:{memory.platform_id}")
            compute = self._resource(SerialStream(f"{name} compute", self._cores[task]))
            ways = (FROM_HOST, TO_HOST, BETWEEN_GPUS)
            from_host, to_host, to_others = (self._resource(SerialStream(f"{name} {way}")) for way in ways)
            found = _Gpu(gpu_processor(memory.model), compute, from_host, to_host, to_others, vertex, own.launch)
            self._gpus[task, memory.platform_id] = found
            if (vertex, "pcie") not in listed.replaced:
                pcie = PCIE_BYTES_PER_LANE[min(5, max(1, own.pcie_generation))] * own.pcie_lanes
                self._both_ways(vertex, Vertex(vertex.task, HOST), f"{name} PCIe", pcie, LATENCIES["pcie"])
            if own.nvlink and (vertex, "nvlink") not in listed.replaced:
                switch = Vertex(vertex.task, NVLINK_SWITCH)
                self._both_ways(vertex, switch, f"{name} NVLink", own.nvlink, LATENCIES["nvlink"] / 2)
        return found

    def _resource(self, resource: Resource) -> int:
        self.resources.append(resource)
        return len(self.resources) - 1

    def _both_ways(self, end: Vertex, hub: Vertex, name: str, bandwidth: float, latency: float) -> None:
        """Add a link in each direction between a vertex and the vertex of its host, switch or network."""
        self._routes.connect(hub, end, self._routes.add(Link(f"{name} in", bandwidth, latency)))
        self._routes.connect(end, hub, self._routes.add(Link(f"{name} out", bandwidth, latency)))

    def _listed(self, link: ListedLink) -> None:
        entry, ends = link
        names = [end.text(self._names_tasks) for end in ends]
        label = f"{entry.name}: " if entry.name else ""
        if entry.is_medium or entry.ways == "shared":
            shown = " - ".join(names) if len(names) <= 3 else f"{names[0]} - ... - {names[-1]}"
            number = self._routes.add(Link(f"{label}{shown}", entry.bandwidth, entry.latency))
            self._routes.share(ends, number)
            return
        for way in (0, 1) if entry.ways == "each" else (0,):
            name = f"{label}{names[way]} to {names[1 - way]}"
            self._routes.connect(ends[way], ends[1 - way], self._routes.add(Link(name, entry.bandwidth, entry.latency)))

    def intra_op(self, host: Host) -> int:
        """Return the number of cores of a host that one node may use."""
        return min(self.threads.intra_op, host.cores) if self.threads.intra_op > 0 else host.cores

    def copy_seconds(self, route: Route, num_bytes: int) -> float:
        """Return the seconds to move a tensor along a route that no other transfer uses."""
        links = [self.links[link] for link in route.links]
        return sum(link.latency for link in links) + num_bytes / min(link.bandwidth for link in links) if links else 0.0

    def route(self, sender: DevicePlace, receiver: DevicePlace, *, from_host: bool, to_host: bool) -> Route:
        """Return the route from the memory of one device to that of another.

        `from_host` and `to_host` are set if the tensor is in host memory at that end, although the device may be a GPU.
        Raises GraphFileError if the links of the inventory do not connect the two.
        """
        source = None if from_host else sender.gpu
        target = None if to_host else receiver.gpu
        first = Vertex(_task(sender.task), HOST) if source is None else source.vertex
        last = Vertex(_task(receiver.task), HOST) if target is None else target.vertex
        found = self._found.get((first, last))
        if found is None:
            links = self._routes.find(first, last)
            if links is None:
                raise self._no_route(sender, receiver, first, last)
            found = self._found[first, last] = Route(links, self._streams(source, target, first, last))
        return found

    def _streams(self, source: _Gpu | None, target: _Gpu | None, first: Vertex, last: Vertex) -> tuple[int, ...]:
        """Return the copy streams that a transfer from `source` to `target` uses; None stands for a host.

        Two GPUs of one task, or with a route that passes no host, use their streams for copies between GPUs.  In all other
        cases a sending GPU uses its stream to the host, and a receiving GPU its stream from the host.
        """
        if source is not None and target is not None:
            if source is target:
                return ()
            if first.task == last.task or not self._routes.passes_host(first, last):
                return source.to_others, target.to_others
        return (() if source is None else (source.to_host,)) + (() if target is None else (target.from_host,))

    def _no_route(self, sender: DevicePlace, receiver: DevicePlace, first: Vertex, last: Vertex) -> GraphFileError:
        ends = f"from {first.text(self._names_tasks)} ({sender.device.name}) to {last.text(self._names_tasks)}"
        message = f"no route {ends} ({receiver.device.name}): got no connecting links, expected a path over hosts and switches"
        return GraphFileError((Problem(self._location or Location("--link", 0, 0), message),))


# --- what the inventory lists ---------------------------------------------------------------------------------------


class ListedLink(NamedTuple):
    """A link between the vertices `ends`, and the entry of the inventory that defines it."""

    entry: LinkEntry
    ends: tuple[Vertex, ...]


class ListedLinks(NamedTuple):
    """Links of the inventory, and the default links that they replace, as pairs of an end and a kind."""

    links: tuple[ListedLink, ...]
    replaced: frozenset[tuple[Vertex, LinkKind]]


def listed_links(devices: Sequence[Device], links: MachineLinks) -> ListedLinks:
    """Return the links of all entries; an entry of the command line replaces others of the same kind and ends."""
    tasks = machine_tasks(devices)
    found = [ListedLink(entry, ends) for entry in merge_links(links, tasks) for ends in resolve_ends(entry, tasks)]
    replaced = frozenset((end, link.entry.kind) for link in found for end in link.ends if not end.is_hub)
    return ListedLinks(tuple(link for link in found if link.entry.bandwidth), replaced)


def machine_tasks(devices: Sequence[Device]) -> dict[TaskName, TaskDevices]:
    """Return for each task the number of its CPU devices, and the driver's numbers of its GPUs."""
    cpus: dict[TaskName, int] = {}
    gpus: dict[TaskName, dict[int, None]] = {}
    for device in devices:
        task = _task(device.spec.address_space)
        cpus[task] = cpus.get(task, 0) + (device.type == "CPU")
        gpus.setdefault(task, {})
        if device.gpu is not None:
            gpus[task][device.gpu.platform_id] = None
    return {task: TaskDevices(cpus[task], tuple(gpus[task])) for task in cpus}


def _task(task: DeviceName) -> TaskName:
    assert task.job is not None
    assert task.task is not None
    return TaskName(task.job, task.task)
