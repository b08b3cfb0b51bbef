"""A machine's devices -> the streams, cores and links that a step's tasks share.

Each task of the cluster has the cores of its host and a network link each way; each GPU a compute stream, three copy streams, a
PCIe link each way and, where its model has it, an NVLink each way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.devices.host_models import HostModel
from placesim.devices.inventory import Device
from placesim.devices.names import DeviceSpec
from placesim.prediction.hosts import Host
from placesim.prediction.processors import Processor, gpu_processor
from placesim.timelines.links import Link
from placesim.timelines.workload import Cores, Resource, Stream

PCIE_BYTES_PER_LANE = {1: 250e6, 2: 500e6, 3: 8e9 * 128 / 130 / 8, 4: 16e9 * 128 / 130 / 8, 5: 32e9 * 128 / 130 / 8}
"""Bytes per second each way, by generation: the transfer rate less its line code (PCI Express Base Specification)."""
PCIE_SECONDS = 5e-6
NVLINK_SECONDS = 2e-6
NETWORK_BYTES = 10e9 / 8
NETWORK_SECONDS = 50e-6
"""What a message waits beside its bytes; those of PCIe and NVLink are assumed."""
LINK_ASSUMPTION = (
    f"links are assumed: PCIe by the GPU's generation and lanes with {PCIE_SECONDS * 1e6:g} us, NVLink where the model has it "
    f"with {NVLINK_SECONDS * 1e6:g} us, between tasks {NETWORK_BYTES * 8 / 1e9:g} Gbit/s and {NETWORK_SECONDS * 1e6:g} us; "
    "each by itself in both directions"
)


class Threads(NamedTuple):
    """How many nodes a task's CPUs run at once, and how many cores one of them may use; 0: as many as there are."""

    inter_op: int = 0
    intra_op: int = 0


class _Gpu(NamedTuple):
    """Places of a GPU's streams and links; NVLinks are -1 where it has none, `launch` is 0 where it is not known."""

    processor: Processor
    compute: int
    from_host: int
    to_host: int
    to_others: int
    link_in: int
    link_out: int
    nvlink_in: int
    nvlink_out: int
    launch: float = 0.0


class Place(NamedTuple):
    """Where a device's nodes run: the cores of its task and, for a GPU, its streams."""

    device: Device
    task: DeviceSpec
    cores: int
    gpu: _Gpu | None
    host: Host

    @property
    def name(self) -> str:
        """What computes: a GPU's model, or the host."""
        return "host" if self.gpu is None else self.gpu.processor.name


class Route(NamedTuple):
    """Links and streams that a tensor takes; none of either within a host's memory."""

    links: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()


class SimulatedMachine:
    """Resources and links by number, and the place of each device by name.

    Virtual devices of one GPU share its streams and links.  Raises InvalidArgumentError for a GPU model without a rate or a
    bandwidth.
    """

    def __init__(self, devices: Sequence[Device], threads: Threads | None = None) -> None:
        threads = threads or Threads()
        self.resources: list[Resource] = []
        self.links: list[Link] = []
        self.places: dict[str, Place] = {}
        self.threads = threads
        self.hosts: dict[DeviceSpec, Host] = {}
        self._cores: dict[DeviceSpec, int] = {}
        self._network: dict[DeviceSpec, tuple[int, int]] = {}
        self._gpus: dict[tuple[DeviceSpec, int], _Gpu] = {}
        tasks = list(dict.fromkeys(device.spec.address_space for device in devices))
        for task in tasks:
            name = f"{task.job}:{task.task}/" if len(tasks) > 1 else ""
            model = next((device.host for device in devices if device.host and device.spec.address_space == task), HostModel())
            host = self.hosts[task] = Host(model)
            # a pool of negative size has the caller's thread alone
            inter_op = threads.inter_op if threads.inter_op > 0 else host.inter_op_threads if threads.inter_op == 0 else 1
            self._cores[task] = self._resource(Cores(f"{name}host", host.cores, inter_op))
            if len(tasks) > 1:
                self._network[task] = (
                    self._link(Link(f"{name}network in", NETWORK_BYTES, NETWORK_SECONDS / 2)),
                    self._link(Link(f"{name}network out", NETWORK_BYTES, NETWORK_SECONDS / 2)),
                )
        for device in devices:
            task = device.spec.address_space
            gpu = None if device.gpu is None else self._gpu(device, task, f"{task.job}:{task.task}/" if len(tasks) > 1 else "")
            self.places[device.name] = Place(device, task, self._cores[task], gpu, self.hosts[task])

    def _gpu(self, device: Device, task: DeviceSpec, prefix: str) -> _Gpu:
        memory = device.gpu
        assert memory is not None
        found = self._gpus.get((task, memory.platform_id))
        if found is None:
            name, own = f"{prefix}GPU:{device.spec.id}", memory.model.figures
            pcie = PCIE_BYTES_PER_LANE[min(5, max(1, own.pcie_generation))] * own.pcie_lanes
            found = self._gpus[task, memory.platform_id] = _Gpu(
                gpu_processor(memory.model),
                self._resource(Stream(f"{name} compute", self._cores[task])),
                self._resource(Stream(f"{name} from host")),
                self._resource(Stream(f"{name} to host")),
                self._resource(Stream(f"{name} between GPUs")),
                self._link(Link(f"{name} PCIe in", pcie, PCIE_SECONDS)),
                self._link(Link(f"{name} PCIe out", pcie, PCIE_SECONDS)),
                self._link(Link(f"{name} NVLink in", own.nvlink, NVLINK_SECONDS / 2)) if own.nvlink else -1,
                self._link(Link(f"{name} NVLink out", own.nvlink, NVLINK_SECONDS / 2)) if own.nvlink else -1,
                own.launch,
            )
        return found

    def _resource(self, resource: Resource) -> int:
        self.resources.append(resource)
        return len(self.resources) - 1

    def _link(self, link: Link) -> int:
        self.links.append(link)
        return len(self.links) - 1

    def intra_op(self, host: Host) -> int:
        """How many cores of a host one node may use."""
        return min(self.threads.intra_op, host.cores) if self.threads.intra_op > 0 else host.cores

    def route(self, sender: Place, receiver: Place, *, from_host: bool, to_host: bool) -> Route:
        """The way between two devices' memories; `from_host` and `to_host` say that a GPU's end is in host memory."""
        source = None if from_host else sender.gpu
        target = None if to_host else receiver.gpu
        network: tuple[int, ...] = ()
        if sender.task != receiver.task:
            network = self._network[sender.task][1], self._network[receiver.task][0]
        elif source is not None and target is not None:
            if source is target:
                return Route()
            streams = (source.to_others, target.to_others)
            if source.nvlink_out >= 0 and target.nvlink_in >= 0:
                return Route((source.nvlink_out, target.nvlink_in), streams)
            return Route((source.link_out, target.link_in), streams)
        first, last = () if source is None else (source,), () if target is None else (target,)
        return Route(
            (*(gpu.link_out for gpu in first), *network, *(gpu.link_in for gpu in last)),
            (*(gpu.to_host for gpu in first), *(gpu.from_host for gpu in last)),
        )
