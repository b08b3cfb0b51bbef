"""GPU options of a session and of the process's environment, as values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from placesim.core.errors import Location
from placesim.core.releases import CURRENT, Release
from placesim.machine.gpu_models import MIB

INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*", re.ASCII)
"""Matches a text that TensorFlow's own parsers (`SimpleAtoi`, `safe_strto64`) accept as an integer."""


class VirtualDevices(NamedTuple):
    """An entry of `experimental.virtual_devices`, which splits one visible GPU into devices.

    `memory_limit_mb` has the limit of each device in MiB; the GPU stays whole if it is empty.  `priority` is the priority of
    each device's stream.  `device_ordinal` is the sort key for numbering the devices of all GPUs.  `priority` and
    `device_ordinal` are empty or as long as `memory_limit_mb`.
    """

    memory_limit_mb: tuple[float, ...] = ()
    priority: tuple[int, ...] = ()
    device_ordinal: tuple[int, ...] = ()


class GpuOptions(NamedTuple):
    """Fields of a session's `gpu_options`, including those of `experimental`."""

    allow_growth: bool = False
    per_process_gpu_memory_fraction: float = 0.0
    visible_device_list: str = ""
    allocator_type: str = ""
    virtual_devices: tuple[VirtualDevices, ...] = ()
    internal_fragmentation_fraction: float = 0.0
    disallow_retry_on_allocation_failure: bool = False
    gpu_system_memory_size_in_mb: int = 0
    num_virtual_devices_per_gpu: int = 0
    use_unified_memory: bool = False


GPU_OPTIONS = ("allow_growth", "per_process_gpu_memory_fraction", "visible_device_list", "allocator_type")
"""Fields of `gpu_options` itself."""
EXPERIMENTAL_GPU_OPTIONS = tuple(name for name in GpuOptions._fields if name not in GPU_OPTIONS)
"""Fields under `gpu_options.experimental`."""

ENVIRONMENT_VARIABLES = (
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_ENABLE_GPU_GARBAGE_COLLECTION",
    "TF_DEVICE_MIN_SYS_MEMORY_IN_MB",
    "TF_GPU_ALLOCATOR",
    "TF_GPU_HOST_MEM_LIMIT_IN_MB",
)


def shell_environment() -> dict[str, str]:
    """Return the variables that configure GPU memory in the user's shell.  No other function reads them."""
    return {name: os.environ[name] for name in ENVIRONMENT_VARIABLES if name in os.environ}


class GpuEnvironment(NamedTuple):
    """Environment variables that TensorFlow reads for GPU memory; None for an unset one."""

    force_allow_growth: str | None = None
    enable_garbage_collection: str | None = None
    min_system_memory_in_mb: str | None = None
    allocator: str | None = None
    host_memory_limit_in_mb: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> GpuEnvironment:
        """Return the values of the variables in `ENVIRONMENT_VARIABLES`."""
        return cls(*map(environment.get, ENVIRONMENT_VARIABLES))

    @property
    def host_memory_limit(self) -> int:
        """Maximum size in bytes of `gpu_host_bfc`, the pinned host memory of a process with GPUs; 128 GiB by default."""
        text = self.host_memory_limit_in_mb
        return int(text if text is not None and INTEGER.fullmatch(text) else "131072") * MIB


class DeviceOptions(NamedTuple):
    """A session's device settings; `location` is the place of `gpu_options` in the file.

    `release` is the simulated TensorFlow release.
    """

    gpu: GpuOptions = GpuOptions()
    device_count: Mapping[str, int] = {}
    environment: GpuEnvironment = GpuEnvironment()
    location: Location | None = None
    release: Release = CURRENT
