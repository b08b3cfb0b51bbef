"""Devices that TensorFlow creates for a session's config in a process, and devices that the session can use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from placesim.core.errors import InvalidArgumentError
from placesim.core.releases import CURRENT, Release
from placesim.graph.session_steps import Config
from placesim.machine.device_names import ANY, DeviceName, parse_runtime_name
from placesim.machine.gpu_memory import GpuLogLine, GpuProcess
from placesim.machine.gpu_options import DeviceOptions, GpuEnvironment
from placesim.machine.inventory import Device, DeviceSet, TaskInventory, build_devices

_MOST_NAMED = 3


def build_session_devices(
    inventory: Sequence[TaskInventory],
    config: Config,
    environment: Mapping[str, str] | None = None,
    process: GpuProcess | None = None,
    log: Callable[[GpuLogLine], None] = lambda line: None,
    release: Release = CURRENT,
) -> tuple[Device, ...]:
    """Create a TensorFlow release's devices for a session with this config, in a process with these environment variables.

    The environment of placesim's own process is not read. Errors and log lines are those of `build_devices`.
    """
    gpu, counts, variables = config.gpu_options, dict(config.device_count), GpuEnvironment.of(environment or {})
    options = DeviceOptions(gpu, counts, variables, config.gpu_options_location, release)
    return build_devices(inventory, options, process, log)


def build_device_set(devices: Sequence[Device], config: Config, release: Release = CURRENT) -> DeviceSet:
    """Return the devices that a session can use (3.9): those of its master, and those of remote tasks that its filters admit.

    Raises InvalidArgumentError for a master that is not a task of the machine.
    """
    local = devices[0].spec.address_space if devices else ANY
    if config.master:
        local = _find_master(devices, config.master)
    filters = [spec for text in config.device_filters if (spec := parse_runtime_name(text)) is not None]
    several = len({device.spec.address_space for device in devices}) > 1
    if filters and several:
        devices = [d for d in devices if d.spec.address_space == local or any(_is_in(d.spec, f) for f in filters)]
    return DeviceSet(devices, local, release=release)


def _find_master(devices: Sequence[Device], master: str) -> DeviceName:
    wanted = parse_runtime_name(master)
    found = None if wanted is None else next((d for d in devices if wanted.matches(d.spec)), None)
    if found is None:
        tasks = [str(space) for space in dict.fromkeys(device.spec.address_space for device in devices)][:_MOST_NAMED]
        expected = f", expected one such as {' or '.join(tasks)}" if tasks else ""
        raise InvalidArgumentError(f"config.master is not a task of the inventory: got {master!r}{expected}")
    return found.spec.address_space


def _is_in(spec: DeviceName, wanted: DeviceName) -> bool:
    return wanted.address_space.matches(spec)
