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
"""A text that TensorFlow's own parsers (`SimpleAtoi`, `safe_strto64`) take for an integer."""


class VirtualDevices(NamedTuple):
    """An entry of `experimental.virtual_devices`: into which devices one visible GPU is cut.

    `memory_limit_mb` in MiB, one device each (empty: the GPU stays whole); `priority` of its stream and `device_ordinal`, by
    which the devices of all GPUs are numbered, are empty or as long.
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
"""The fields that stand under `experimental`."""

ENVIRONMENT_VARIABLES = (
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_ENABLE_GPU_GARBAGE_COLLECTION",
    "TF_DEVICE_MIN_SYS_MEMORY_IN_MB",
    "TF_GPU_ALLOCATOR",
    "TF_GPU_HOST_MEM_LIMIT_IN_MB",
)


def shell_environment() -> dict[str, str]:
    """The variables by which the user's shell configures GPU memory: the only place that reads them."""
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
        """The five variables of `ENVIRONMENT_VARIABLES` out of all."""
        return cls(*map(environment.get, ENVIRONMENT_VARIABLES))

    @property
    def host_memory_limit(self) -> int:
        """Bytes that `gpu_host_bfc`, the pinned host memory of a process with GPUs, may grow to: 128 GiB by default."""
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
