"""The simulated inventory: which devices each task has, their order, and the set that a placer chooses from (section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from placesim.devices.catalogue import DEFAULT_MODEL, MIB, GpuModel
from placesim.devices.names import ANY, DeviceSpec, parse_runtime_name
from placesim.errors import InvalidArgumentError, NotFoundError, UsageError

CPU_MEMORY_BYTES = 268435456
MAX_COUNT = 4096
MAX_DEVICES = 1 << 16
"""The most devices that all tasks of an inventory may have together."""
TYPE_PRIORITIES = {"GPU": 210, "CPU": 70, "XLA_CPU": 50, "XLA_GPU": 50}
"""Of two device types that can run an op, the higher one is taken (3.4)."""


class TaskInventory(NamedTuple):
    """What one task, or each of `tasks` tasks of a job, has; `job` None is a single machine."""

    cpu: int = 1
    gpu: int = 0
    gpu_model: GpuModel = DEFAULT_MODEL
    xla_cpu: int = 0
    xla_gpu: int = 0
    job: str | None = None
    tasks: int = 1


class GpuOptions(NamedTuple):
    """`gpu_options` of a session's config, and `device_count`'s bound on each type."""

    memory_fraction: float = 0.0
    visible_device_list: str = ""
    device_count: Mapping[str, int] = {}


class Device(NamedTuple):
    """One device: full name, type, memory limit in bytes, and what the driver says of it (empty for a CPU)."""

    name: str
    type: str
    memory_limit: int
    physical_device_desc: str = ""

    @property
    def spec(self) -> DeviceSpec:
        spec = parse_runtime_name(self.name)
        assert spec is not None
        return spec

    @property
    def mapping_line(self) -> str:
        """The device's line under `Device mapping:`."""
        return f"{self.name} -> {self.physical_device_desc}"


class DeviceSet:
    """The devices that a placer chooses from, in creation order; a session's own task comes after the remote ones.

    `local` is the address space of the session's own task; `priorities` those of device types.
    """

    def __init__(
        self, devices: Sequence[Device], local: DeviceSpec = ANY, priorities: Mapping[str, int] = TYPE_PRIORITIES
    ) -> None:
        self.devices = tuple(sorted(devices, key=lambda device: local != ANY and device.spec.address_space == local))
        self.local = local
        self.priorities = priorities
        self.by_name = {device.name: device for device in self.devices}
        self._matching: dict[DeviceSpec, tuple[Device, ...]] = {}

    def type_priority(self, device_type: str) -> int:
        return self.priorities.get(device_type, 50)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The distinct types, the preferred one first (3.5)."""
        return tuple(sorted({d.type for d in self.devices}, key=lambda t: (-self.type_priority(t), t)))

    @cached_property
    def ordered(self) -> tuple[Device, ...]:
        """All devices, the preferred one first (3.6): by type, local before remote, then by name as text."""
        return tuple(sorted(self.devices, key=self._sort_key))

    def _sort_key(self, device: Device) -> tuple[int, bool, str]:
        is_remote = self.local != ANY and device.spec.address_space != self.local
        return (-self.type_priority(device.type), is_remote, device.name)

    @property
    def client(self) -> Device:
        """The first device of the session's own task: feeds and fetches live there (3.1)."""
        own = (d for d in self.devices if self.local == ANY or d.spec.address_space == self.local)
        return next(own, self.devices[0])

    def matching(self, spec: DeviceSpec) -> tuple[Device, ...]:
        """The devices that a specification matches, the preferred one first."""
        near = self._near(spec)
        if len(near) <= 1:
            return near if near and spec.matches(near[0].spec) else ()
        found = self._matching.get(spec)
        if found is None:
            found = self._matching[spec] = tuple(device for device in near if spec.matches(device.spec))
        return found

    def _near(self, spec: DeviceSpec) -> tuple[Device, ...]:
        """The devices, in their order, that a specification could match: its own, its task's, or those of its id."""
        has_task = spec.job is not None and spec.replica is not None and spec.task is not None
        if spec.type is None or spec.id is None:
            return self._parts.get(spec.address_space, ()) if has_task else self.ordered
        return self._parts.get(spec if has_task else DeviceSpec(type=spec.type, id=spec.id), ())

    @cached_property
    def _parts(self) -> dict[DeviceSpec, tuple[Device, ...]]:
        """The devices by full name, by task, and by type and id."""
        found: dict[DeviceSpec, list[Device]] = {}
        for device in self.ordered:
            spec = device.spec
            for part in (spec, spec.address_space, DeviceSpec(type=spec.type, id=spec.id)):
                found.setdefault(part, []).append(device)
        return {part: tuple(devices) for part, devices in found.items()}


def build_devices(inventory: Sequence[TaskInventory], options: GpuOptions | None = None) -> tuple[Device, ...]:
    """The devices of an inventory in creation order: for each task its CPUs, its GPUs, then the others (3.1, 10.1).

    Raises NotFoundError where a task has no CPU, and InvalidArgumentError for a bad `visible_device_list`.
    """
    options = options or GpuOptions()
    if count_devices(inventory) > MAX_DEVICES:
        raise UsageError(
            f"too many devices: got {count_devices(inventory)}, expected at most {MAX_DEVICES} in all tasks together"
        )
    devices: list[Device] = []
    for entry in inventory:
        for task in range(entry.tasks):
            prefix = f"/job:{entry.job or 'localhost'}/replica:0/task:{task}/device:"
            devices += _task_devices(prefix, entry, options)
    return tuple(devices)


def count_devices(inventory: Sequence[TaskInventory]) -> int:
    """How many devices all tasks have together."""
    return sum(entry.tasks * (entry.cpu + entry.gpu + entry.xla_cpu + entry.xla_gpu) for entry in inventory)


def _task_devices(prefix: str, entry: TaskInventory, options: GpuOptions) -> list[Device]:
    cpus = options.device_count.get("CPU", entry.cpu)
    if cpus < 1:
        raise NotFoundError("No CPU devices are available in this process")
    visible = visible_gpus(options.visible_device_list, entry.gpu)
    gpus = visible[: options.device_count.get("GPU", len(visible))]
    model = entry.gpu_model
    limit = gpu_memory_limit(model, options.memory_fraction)
    devices = [Device(f"{prefix}CPU:{i}", "CPU", CPU_MEMORY_BYTES) for i in range(cpus)]
    devices += [Device(f"{prefix}GPU:{i}", "GPU", limit, describe_gpu(model, gpu)) for i, gpu in enumerate(gpus)]
    for kind, count in (("XLA_CPU", entry.xla_cpu), ("XLA_GPU", entry.xla_gpu)):
        devices += [Device(f"{prefix}{kind}:{i}", kind, 17179869184, f"device: {kind} device") for i in range(count)]
    return devices


def describe_gpu(model: GpuModel, platform_id: int) -> str:
    """The physical description (10.2.1)."""
    return (
        f"device: {platform_id}, name: {model.name}, pci bus id: {model.bus_id(platform_id)}, "
        f"compute capability: {model.compute_capability}"
    )


def visible_gpus(visible_device_list: str, count: int) -> tuple[int, ...]:
    """Platform ids in the order in which `GPU:0`, `GPU:1`, ... are numbered (10.1)."""
    if not visible_device_list:
        return tuple(range(count))
    ids: list[int] = []
    for entry in visible_device_list.split(","):
        if not entry.strip().lstrip("-").isdigit():
            raise InvalidArgumentError(
                f"Could not parse entry in 'visible_device_list': '{entry}'. visible_device_list = {visible_device_list}"
            )
        if not 0 <= int(entry) < count:
            raise InvalidArgumentError(
                f"'visible_device_list' listed an invalid GPU id '{int(entry)}' but visible device count is {count}"
            )
        ids.append(int(entry))
    if len(set(ids)) != len(ids):
        raise InvalidArgumentError(f"visible_device_list contained a duplicate entry: {visible_device_list}")
    return tuple(ids)


def gpu_memory_limit(model: GpuModel, fraction: float = 0.0) -> int:
    """Bytes that TensorFlow's allocator takes of a GPU of which nothing is in use (10.3)."""
    if fraction:
        return int(fraction * model.memory)
    if model.memory < 2048 * MIB:
        reserve = 225 * MIB
    else:
        major = int(model.compute_capability.split(".")[0])
        reserve = (500 if major <= 6 else 1050 if major == 7 else 1536) * MIB
    return model.memory - reserve if reserve < model.memory else model.memory
