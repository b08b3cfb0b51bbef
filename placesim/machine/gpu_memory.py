"""GPUs that TensorFlow makes for a session's options and environment, with the allocator settings of each (10.1, 10.3).

Memory limits are computed only here.  The allocators themselves are in `machine.memory`, which knows no devices.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from placesim.core.byte_counts import human_readable_bytes
from placesim.core.errors import AlreadyExistsError, InternalError, InvalidArgumentError, UnknownError, UsageError
from placesim.core.releases import CURRENT, Release
from placesim.machine.gpu_models import MIB, GpuModel
from placesim.machine.gpu_options import INTEGER, DeviceOptions, GpuEnvironment, GpuOptions

PRIORITIES = (-5, 0)
"""Range of stream priorities that a driver offers; the most urgent comes first."""
_ALLOCATORS = ("cuda_malloc_async", "cuda_malloc", "memory_guard")
_INT32_END = 1 << 31
_INT64_END = 1 << 63


class GpuLogLine(NamedTuple):
    """A line of TensorFlow's log: its severity (`I`, `W` or `E`) and text."""

    severity: str
    text: str


class GpuMemory(NamedTuple):
    """A GPU as TensorFlow sees it, with the settings of its allocator.

    - `tf_id`: the i of `GPU:i`.
    - `visible_id`, `platform_id`: the GPU's index among the visible ones, and its number in the driver.  Virtual devices of one
      GPU share both.
    - `memory_limit`: bytes.
    - `retries`: whether a failed allocation is retried.
    - `garbage_collection`: whether free regions are returned before an allocation fails.
    - `fragmentation_fraction`: share of the limit by which a chunk may exceed the request; 0 is the allocator's default.
    - `allocator`: the allocator that TF_GPU_ALLOCATOR uses instead of, or around, the BFC allocator; empty for none.
    """

    tf_id: int
    visible_id: int
    platform_id: int
    model: GpuModel
    memory_limit: int
    allow_growth: bool = False
    retries: bool = True
    garbage_collection: bool = True
    fragmentation_fraction: float = 0.0
    is_unified: bool = False
    priority: int = 0
    allocator: str = ""

    @property
    def name(self) -> str:
        """Name of the allocator in TensorFlow's messages."""
        return f"GPU_{self.tf_id}_bfc"

    @property
    def description(self) -> str:
        """Description of the GPU by its driver."""
        return describe_gpu(self.model, self.platform_id)


class GpuProcess:
    """GPU allocators of one simulated process.

    The first session of a process makes the allocators; later sessions reuse them, regardless of their own options (10.3.5).
    `allocators` maps the full name of each device to its memory account, which lives as long as the process.
    """

    def __init__(self) -> None:
        self._made: dict[str, GpuMemory] = {}
        self.allocators: dict[str, Any] = {}

    def find(self, device: str) -> GpuMemory | None:
        """Return the allocator settings that an earlier session made for a device, by its full name; None if there are none."""
        return self._made.get(device)

    def keep(self, device: str, memory: GpuMemory) -> GpuMemory:
        """Store a device's allocator settings, unless an earlier session did. Return the settings in use."""
        return self._made.setdefault(device, memory)


# --- a GPU's limit --------------------------------------------------------------------------------------------------


def describe_gpu(model: GpuModel, platform_id: int) -> str:
    """Return the driver's description of a GPU (10.2.1)."""
    return (
        f"device: {platform_id}, name: {model.name}, pci bus id: {model.bus_id(platform_id)}, "
        f"compute capability: {model.compute_capability}"
    )


def reserved_memory(available: int, compute_capability: str, release: Release = CURRENT) -> int:
    """Return the bytes that TensorFlow leaves to the system when `available` bytes are free (10.3.3)."""
    if available < 2048 * MIB:
        return 225 * MIB
    if not release.reserves_by_capability:
        return max(300 * MIB, int(available * 0.05))
    major = _major(compute_capability)
    return (500 if major <= 6 else 1050 if major == 7 else 1536 if major == 8 else 1800) * MIB


def _major(compute_capability: str) -> int:
    return int(compute_capability.split(".")[0])


def gpu_memory_limit(
    model: GpuModel,
    options: GpuOptions | None = None,
    environment: GpuEnvironment | None = None,
    log: Callable[[GpuLogLine], None] = lambda line: None,
    release: Release = CURRENT,
) -> int:
    """Return the bytes that TensorFlow's allocator takes of a whole, unused GPU (10.3.2, 10.3.3).

    Raises InternalError if the options request more memory than the GPU has, and the GPU does not support unified memory.
    """
    options, environment = options or GpuOptions(), environment or GpuEnvironment()
    available = total = model.memory
    fraction = options.per_process_gpu_memory_fraction
    if _is_unified(options) and _major(model.compute_capability) < 6:
        raise InternalError(
            "Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal class GPUs) does not support "
            "oversubscription."
        )
    if fraction:
        limit = int(total * fraction)
    else:
        reserve = reserved_memory(available, model.compute_capability, release)
        limit = available - reserve if reserve < available else available
    for reserved_mb in _requested_reserves(options, environment, log):
        if reserved_mb * MIB <= available:
            limit = available - reserved_mb * MIB
        else:
            asked, there = human_readable_bytes(reserved_mb * MIB), human_readable_bytes(available)
            text = f"The requested reserved device memory {asked} is larger than the available memory of {there}."
            log(GpuLogLine("W", f"{text} The request is ignored."))
    return limit


def _is_unified(options: GpuOptions) -> bool:
    return options.per_process_gpu_memory_fraction > 1 or options.use_unified_memory


def _requested_reserves(options: GpuOptions, environment: GpuEnvironment, log: Callable[[GpuLogLine], None]) -> Iterator[int]:
    """Yield the MiB to leave to the system: the number in the options, then the number in the environment, if they are set."""
    if options.gpu_system_memory_size_in_mb > 0:
        yield options.gpu_system_memory_size_in_mb
    text = environment.min_system_memory_in_mb
    if text:
        if INTEGER.fullmatch(text) and len(text) < 40 and 0 <= int(text) < _INT64_END:
            yield int(text)
        else:
            log(GpuLogLine("W", f"The requested reserved device memory {text} is invalid. The request will be ignored."))


# --- which GPUs there are -------------------------------------------------------------------------------------------


def visible_gpus(visible_device_list: str, count: int) -> tuple[int, ...]:
    """Return the platform ids of `GPU:0`, `GPU:1`, ... (10.1.1).

    Raises InvalidArgumentError if an entry is no number, names a GPU that does not exist, or is repeated (10.1.2).
    """
    if not visible_device_list:
        return tuple(range(count))
    ids: list[int] = []
    for entry in visible_device_list.split(","):
        if not INTEGER.fullmatch(entry) or len(entry) > 40 or not -_INT32_END <= int(entry) < _INT32_END:
            raise InvalidArgumentError(f"Could not parse entry in 'visible_device_list': '{entry}'.")
        if not 0 <= int(entry) < count:
            raise InvalidArgumentError(
                f"'visible_device_list' listed an invalid Device id '{int(entry)}' but visible device count is {count}"
            )
        ids.append(int(entry))
    if len(set(ids)) != len(ids):
        raise InvalidArgumentError(f"visible_device_list contained a duplicate entry: {visible_device_list}")
    return tuple(ids)


class _VirtualGpu(NamedTuple):
    """A virtual device to create: the visible id of its GPU, its limit in bytes, its sort key and its stream's priority."""

    visible_id: int
    memory_limit: int
    ordinal: int = 0
    priority: int = 0


def _cuts(
    model: GpuModel,
    visible: tuple[int, ...],
    most: int | None,
    options: GpuOptions,
    environment: GpuEnvironment,
    log: Callable[[GpuLogLine], None],
    release: Release,
) -> list[_VirtualGpu]:
    """Return the virtual devices of all GPUs in the order of their numbers (10.1.3, 10.1.5)."""
    wanted = len(visible) if most is None else min(most, len(visible))
    if options.virtual_devices:
        _check_virtual_devices(wanted, options, visible)
        wanted = len(options.virtual_devices)
    cuts: list[_VirtualGpu] = []
    for index in range(wanted):
        virtual = options.virtual_devices[index] if options.virtual_devices else None
        if virtual is not None and virtual.memory_limit_mb:
            ordinals = virtual.device_ordinal or (0,) * len(virtual.memory_limit_mb)
            priorities = virtual.priority or (0,) * len(virtual.memory_limit_mb)
            rows = zip(virtual.memory_limit_mb, ordinals, priorities, strict=True)
            cuts += [_VirtualGpu(index, _whole_mib(limit) * MIB, ordinal, priority) for limit, ordinal, priority in rows]
        else:
            limit = gpu_memory_limit(model, options, environment, log, release)
            parts = max(1, options.num_virtual_devices_per_gpu)
            cuts += [_VirtualGpu(index, limit // parts)] * parts
    return sorted(cuts, key=lambda cut: cut.ordinal)


def _whole_mib(limit: float) -> int:
    """Round a limit to a 32-bit float, as ConfigProto stores it, and drop the fraction."""
    return int(struct.unpack("f", struct.pack("f", limit))[0])


def _check_virtual_devices(wanted: int, options: GpuOptions, visible: tuple[int, ...]) -> None:
    """Raise TensorFlow's error for an invalid list of virtual devices, with the checks in TensorFlow's order (10.1.5)."""
    listed = options.virtual_devices
    if options.per_process_gpu_memory_fraction > 0:
        raise InvalidArgumentError("It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.")
    if wanted < len(listed):
        raise UnknownError(
            f"Not enough GPUs to create virtual devices. num_gpus_to_use: {wanted} #virtual_devices: {len(listed)}"
        )
    if options.visible_device_list and len(visible) != len(listed):
        raise InvalidArgumentError(
            "The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices list. "
            f"#GPUs in visible_device_list: {len(visible)} virtual_devices.size(): {len(listed)}"
        )
    if len(visible) != len(listed):
        raise UnknownError(
            "The number of valid GPUs doesn't match the number of elements in the virtual_devices list. "
            f"#valid GPUs: {len(visible)} virtual_devices.size(): {len(listed)}"
        )
    _check_ordinals(options)
    _check_priorities(options, visible)


def _check_ordinals(options: GpuOptions) -> None:
    has_ordinals = bool(options.virtual_devices[0].device_ordinal)
    for index, virtual in enumerate(options.virtual_devices):
        if bool(virtual.device_ordinal) != has_ordinals:
            raise InvalidArgumentError(
                "Device ordinals must be set for all virtual devices or none. But the device_ordinal is specified for "
                f"{index} while previous devices didn't have any set."
            )
    for index, virtual in enumerate(options.virtual_devices):
        limits, ordinals = len(virtual.memory_limit_mb), len(virtual.device_ordinal)
        if has_ordinals and limits != ordinals:
            raise InvalidArgumentError(
                "Number of virtual device ordinals specified doesn't match with number of memory_limit_mb specified for "
                f"GPU# {index} memory_limit_mb size: {limits} and device_ordinal size: {ordinals}"
            )


def _check_priorities(options: GpuOptions, visible: tuple[int, ...]) -> None:
    has_priorities = bool(options.virtual_devices[0].priority)
    first, last = PRIORITIES
    for index, virtual in enumerate(options.virtual_devices):
        limits, priorities = len(virtual.memory_limit_mb), len(virtual.priority)
        if not has_priorities and priorities:
            raise InvalidArgumentError(
                "Priority must be set for all virtual devices or none. But the priority is specified for "
                f"{index} while previous devices didn't have any set."
            )
        if has_priorities and limits != priorities:
            raise InvalidArgumentError(
                "Number of virtual device priorities specified doesn't match with number of memory_limit_mb specified for "
                f"GPU# {index} memory_limit_mb size: {limits} and priority size: {priorities}"
            )
        for priority in virtual.priority:
            if not first <= priority <= last:
                raise InvalidArgumentError(
                    f"Priority {priority} is outside the range of supported priorities [{first},{last}] "
                    f"for virtual device {index} on GPU# {visible[index]}"
                )


def count_gpus(gpus: int, most: int | None, options: GpuOptions) -> int:
    """Return an upper bound on the number of GPU devices of a task with `gpus` GPUs."""
    if not gpus:
        return 0
    wanted = gpus if most is None else min(most, gpus)
    parts = max(1, options.num_virtual_devices_per_gpu)
    return wanted * parts + sum(len(virtual.memory_limit_mb) for virtual in options.virtual_devices)


# --- their allocators -----------------------------------------------------------------------------------------------


def make_gpus(
    prefix: str,
    model: GpuModel,
    count: int,
    session: DeviceOptions,
    process: GpuProcess,
    log: Callable[[GpuLogLine], None],
) -> list[tuple[str, GpuMemory]]:
    """Return the full names and settings of a task's GPUs in a session with these options.

    `count` is the number of GPUs that the driver reports; with 0, the options are not checked. Raises the errors that
    TensorFlow raises when it makes a session.
    """
    if not count:
        return []
    options, environment, release, most = session.gpu, session.environment, session.release, session.device_count.get("GPU")
    visible = () if most == 0 else visible_gpus(options.visible_device_list, count)
    cuts = _cuts(model, visible, most, options, environment, log, release)
    names = [f"{prefix}GPU:{tf_id}" for tf_id in range(len(cuts))]
    for tf_id, (name, cut) in enumerate(zip(names, cuts, strict=True)):
        _check_mapping(tf_id, visible[cut.visible_id], process.find(name))
    found = []
    for tf_id, (name, cut) in enumerate(zip(names, cuts, strict=True)):
        memory = process.find(name)
        if memory is None:
            made = _make_memory(tf_id, visible[cut.visible_id], model, cut, options, environment, log)
            memory = process.keep(name, made)
        told = release.created_gpu.format(name=name, mb=memory.memory_limit >> 20, description=memory.description)
        log(GpuLogLine("I", told))
        found.append((name, memory))
    return found


def _check_mapping(tf_id: int, platform_id: int, earlier: GpuMemory | None) -> None:
    """Raise AlreadyExistsError if a process has used a device number for another GPU before (10.1.6)."""
    if earlier is not None and earlier.platform_id != platform_id:
        raise AlreadyExistsError(
            f"TensorFlow device (GPU:{tf_id}) is being mapped to multiple devices ({platform_id} now, and "
            f"{earlier.platform_id} previously), which is not supported. This may be the result of providing different GPU "
            "configurations (ConfigProto.gpu_options, for example different visible_device_list) when creating multiple "
            "Sessions in the same process. This is not currently supported, see "
            "https://github.com/tensorflow/tensorflow/issues/19083"
        )


def _make_memory(
    tf_id: int,
    platform_id: int,
    model: GpuModel,
    cut: _VirtualGpu,
    options: GpuOptions,
    environment: GpuEnvironment,
    log: Callable[[GpuLogLine], None],
) -> GpuMemory:
    if options.allocator_type not in ("", "BFC"):
        log(GpuLogLine("E", f"Invalid allocator type: {options.allocator_type}"))
        raise InternalError(f"Failed to get memory allocator for TF GPU {tf_id} with {cut.memory_limit} bytes of memory.")
    if cut.memory_limit < 1:
        raise UsageError(
            f"no memory for GPU:{tf_id}: got a limit of {cut.memory_limit} bytes out of the {model.memory} of a {model.name}, "
            "expected options that leave memory"
        )
    memory = GpuMemory(
        tf_id,
        cut.visible_id,
        platform_id,
        model,
        cut.memory_limit,
        allow_growth=_grows(options, environment, log),
        retries=not options.disallow_retry_on_allocation_failure,
        garbage_collection=_collects(environment, log),
        fragmentation_fraction=options.internal_fragmentation_fraction,
        is_unified=_is_unified(options),
        priority=cut.priority,
        allocator=environment.allocator if environment.allocator in _ALLOCATORS else "",
    )
    if memory.allocator == "memory_guard":
        log(GpuLogLine("I", "Using memory guard allocator for GPU."))
    elif memory.allocator == "cuda_malloc":
        log(GpuLogLine("I", "Using CUDA malloc allocator for GPU."))
    elif memory.allocator == "cuda_malloc_async":
        log(GpuLogLine("I", f"Using CUDA malloc Async allocator for GPU: {platform_id}"))
    return memory


def _grows(options: GpuOptions, environment: GpuEnvironment, log: Callable[[GpuLogLine], None]) -> bool:
    forced = environment.force_allow_growth
    configured = options.allow_growth
    if forced is None:
        return configured
    if forced not in ("true", "false"):
        log(
            GpuLogLine(
                "E",
                f'The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "{forced}". '
                f'Valid values are "true" or "false". Using original config value of {configured:d}.',
            )
        )
        return configured
    if (forced == "true") != configured:
        log(
            GpuLogLine(
                "W",
                "Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable is set. "
                f"Original config value was {configured:d}.",
            )
        )
    return forced == "true"


def _collects(environment: GpuEnvironment, log: Callable[[GpuLogLine], None]) -> bool:
    said = environment.enable_garbage_collection
    if said not in (None, "true", "false"):
        log(
            GpuLogLine(
                "E",
                f'The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is set but could not be parsed: "{said}". '
                'Valid values are "true" or "false". Using the default value "true".',
            )
        )
    return said != "false"
