"""The simulated inventory: the devices of each task, their order, and the set that a placer chooses from (section 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from placesim.core.errors import NotFoundError, PlacesimError, UsageError
from placesim.core.escaping import escape_line
from placesim.core.releases import CURRENT, Release
from placesim.machine.device_names import ANY, DeviceName, parse_runtime_name
from placesim.machine.gpu_memory import GpuLogLine, GpuMemory, GpuProcess, count_gpus, make_gpus
from placesim.machine.gpu_models import DEFAULT_MODEL, GpuModel
from placesim.machine.gpu_options import DeviceOptions
from placesim.machine.host_models import HostModel

CPU_MEMORY_BYTES = 268435456
"""Memory limit that TensorFlow reports for every CPU device, independent of the machine."""
MAX_COUNT = 4096
MAX_DEVICES = 1 << 16
"""Maximum number of devices of all tasks of an inventory together."""
TYPE_PRIORITIES = {"GPU": 210, "CPU": 70, "XLA_CPU": 50, "XLA_GPU": 50}
"""Priorities of device types: the placer prefers the type with the highest priority (3.4)."""


class TaskInventory(NamedTuple):
    """The devices of one task, or of each of the `tasks` tasks of a job; without a job, it is a single machine.

    `xla_cpu` is the number of XLA_CPU devices, by default as many as the TensorFlow release makes.  `cpu_memory` is the memory
    limit of each CPU device in bytes; None for no limit.  `host` is the host model of the task.
    """

    cpu: int = 1
    gpu: int = 0
    gpu_model: GpuModel = DEFAULT_MODEL
    xla_cpu: int | None = None
    xla_gpu: int = 0
    job: str | None = None
    tasks: int = 1
    cpu_memory: int | None = None
    host: HostModel | None = None


class Device(NamedTuple):
    """One device: its full name, type, memory limit in bytes, and the driver's description (empty for a CPU).

    `gpu` has the allocator settings of a GPU.  `host_limit` is the memory limit in bytes that the inventory sets for a CPU.
    `host` is the host model of its task.
    """

    name: str
    type: str
    memory_limit: int
    physical_device_desc: str = ""
    gpu: GpuMemory | None = None
    host_limit: int | None = None
    host: HostModel | None = None

    @property
    def allocation_limit(self) -> int | None:
        """Maximum bytes that may be allocated on the device at once; None if there is no limit."""
        return self.host_limit if self.gpu is None else self.gpu.memory_limit

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the device in `session.list_devices()`, by name."""
        return {name: getattr(self, name) for name in ("name", "type", "memory_limit", "physical_device_desc")}

    @property
    def spec(self) -> DeviceName:
        spec = parse_runtime_name(self.name)
        assert spec is not None
        return spec

    @property
    def mapping_line(self) -> str:
        """Line of the device under `Device mapping:`."""
        return f"{self.name} -> {escape_line(self.physical_device_desc)}"


class DeviceSet:
    """The devices that a placer chooses from, in creation order; the devices of the session's own task come last.

    `local` is the address space of the session's own task.  `priorities` has the priority of each device type. Some releases
    prefer local devices to remote devices of the same type.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        local: DeviceName = ANY,
        priorities: Mapping[str, int] = TYPE_PRIORITIES,
        release: Release = CURRENT,
    ) -> None:
        self.devices = tuple(sorted(devices, key=lambda device: local != ANY and device.spec.address_space == local))
        self.local = local
        self.priorities = priorities
        self.release = release
        self.by_name = {device.name: device for device in self.devices}
        self._matching: dict[DeviceName, tuple[Device, ...]] = {}

    def type_priority(self, device_type: str) -> int:
        return self.priorities.get(device_type, 50)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The distinct device types; the preferred one comes first (3.5)."""
        return tuple(sorted({d.type for d in self.devices}, key=lambda t: (-self.type_priority(t), t)))

    @cached_property
    def ordered(self) -> tuple[Device, ...]:
        """All devices, sorted by type priority, then local before remote, then by name as text (3.6)."""
        return tuple(sorted(self.devices, key=self._sort_key))

    def _sort_key(self, device: Device) -> tuple[int, bool, str]:
        has_local = self.local != ANY and self.release.prefers_local_devices
        is_remote = has_local and device.spec.address_space != self.local
        return (-self.type_priority(device.type), is_remote, device.name)

    @property
    def client(self) -> Device:
        """The first device of the session's own task, which holds feeds and fetches (3.1)."""
        own = (d for d in self.devices if self.local == ANY or d.spec.address_space == self.local)
        return next(own, self.devices[0])

    def matching(self, spec: DeviceName) -> tuple[Device, ...]:
        """Return the devices that a specification matches; the preferred one comes first."""
        near = self._near(spec)
        if len(near) <= 1:
            return near if near and spec.matches(near[0].spec) else ()
        found = self._matching.get(spec)
        if found is None:
            found = self._matching[spec] = tuple(device for device in near if spec.matches(device.spec))
        return found

    def _near(self, spec: DeviceName) -> tuple[Device, ...]:
        """Return the devices that a specification could match, in order: a small superset of the devices that match."""
        has_task = spec.job is not None and spec.replica is not None and spec.task is not None
        if spec.type is None or spec.id is None:
            return self._parts.get(spec.address_space, ()) if has_task else self.ordered
        return self._parts.get(spec if has_task else DeviceName(type=spec.type, id=spec.id), ())

    @cached_property
    def _parts(self) -> dict[DeviceName, tuple[Device, ...]]:
        """Devices by full name, by task, and by type and id."""
        found: dict[DeviceName, list[Device]] = {}
        for device in self.ordered:
            spec = device.spec
            for part in (spec, spec.address_space, DeviceName(type=spec.type, id=spec.id)):
                found.setdefault(part, []).append(device)
        return {part: tuple(devices) for part, devices in found.items()}


def build_devices(
    inventory: Sequence[TaskInventory],
    options: DeviceOptions | None = None,
    process: GpuProcess | None = None,
    log: Callable[[GpuLogLine], None] = lambda line: None,
) -> tuple[Device, ...]:
    """Return the devices of an inventory in creation order: for each task its CPUs, then its GPUs and the others (3.1, 10.1).

    `process` holds the allocator settings of earlier sessions and receives new ones; None is a new process.  `log` receives
    TensorFlow's log lines, also those before an error.
    Raises NotFoundError if a task has no CPU.  For invalid `gpu_options`, raises the error of TensorFlow's session, with the
    location of `gpu_options` in the file.
    """
    options, process = options or DeviceOptions(), process or GpuProcess()
    _check_count(count_devices(inventory))
    most = options.device_count.get("GPU")
    _check_count(sum(entry.tasks * count_gpus(entry.gpu, most, options.gpu) for entry in inventory))
    devices: list[Device] = []
    for entry in inventory:
        for task in range(entry.tasks):
            prefix = f"/job:{entry.job or 'localhost'}/replica:0/task:{task}/device:"
            made = _task_devices(prefix, entry, options, process, log)
            devices += made if entry.host is None else [device._replace(host=entry.host) for device in made]
    return tuple(devices)


def _check_count(count: int) -> None:
    if count > MAX_DEVICES:
        raise UsageError(f"too many devices: got {count}, expected at most {MAX_DEVICES} in all tasks together")


def count_devices(inventory: Sequence[TaskInventory]) -> int:
    """Return the number of devices of all tasks together."""
    return sum(entry.tasks * (entry.cpu + entry.gpu + (entry.xla_cpu or 0) + entry.xla_gpu) for entry in inventory)


def with_gpus(inventory: Sequence[TaskInventory] | None, count: int) -> tuple[TaskInventory, ...]:
    """Return the inventory, whose first task gets GPUs up to this count; without an inventory, that of a single machine."""
    first, *others = inventory or (TaskInventory(),)
    return (first._replace(gpu=max(first.gpu, count)), *others)


def _task_devices(
    prefix: str, entry: TaskInventory, options: DeviceOptions, process: GpuProcess, log: Callable[[GpuLogLine], None]
) -> list[Device]:
    cpus = options.device_count.get("CPU", entry.cpu)
    if cpus < 1:
        raise NotFoundError("No CPU devices are available in this process")
    limit = CPU_MEMORY_BYTES if entry.cpu_memory is None else entry.cpu_memory
    devices = [Device(f"{prefix}CPU:{i}", "CPU", limit, host_limit=entry.cpu_memory) for i in range(cpus)]
    try:
        gpus = make_gpus(prefix, entry.gpu_model, entry.gpu, options, process, log)
    except PlacesimError as error:
        error.location = options.location
        raise
    others = [Device(name, "GPU", gpu.memory_limit, gpu.description, gpu) for name, gpu in gpus]
    xla_cpus = options.release.xla_cpus if entry.xla_cpu is None else entry.xla_cpu
    compiling = [
        Device(f"{prefix}{kind}:{i}", kind, 17179869184, f"device: {kind} device")
        for kind, count in (("XLA_CPU", xla_cpus), ("XLA_GPU", entry.xla_gpu))
        for i in range(count)
    ]
    return [*devices, *compiling, *others] if options.release.xla_before_gpus else [*devices, *others, *compiling]
