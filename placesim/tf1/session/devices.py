"""Device queries of scripts: `device_lib.list_local_devices()`, `tf.test.gpu_device_name()` and the like."""

from __future__ import annotations

import hashlib
from typing import Any

from placesim.formats.tensorflow.messages import message_class
from placesim.graph.session_steps import Config
from placesim.machine.gpu_memory import GpuProcess
from placesim.machine.program_machine import current_machine
from placesim.tf1.session.configs import config_of


def incarnation_of(name: str) -> int:
    """Incarnation number of a device: fixed for a simulated one, 64 random bits in TensorFlow."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") >> 1


def list_local_devices(session_config: Any = None, process: GpuProcess | None = None) -> list[Any]:
    """Devices of the machine as DeviceAttributes messages, named as in a local process (`/device:CPU:0`).

    They are made for this process, unless another `process` is given.
    """
    from placesim.studies.simulation.program_sessions import open_machine

    machine = current_machine()
    config = Config() if session_config is None else config_of(session_config)
    opened = open_machine(config, machine.options, process or machine.process, puts_counts_aside=machine.is_overridden)
    found = []
    for device in opened.devices:
        attributes = message_class("DeviceAttributes")(
            name=f"/device:{device.type}:{device.spec.id}",
            device_type=device.type,
            memory_limit=device.memory_limit,
            incarnation=incarnation_of(device.name),
            physical_device_desc=device.physical_device_desc,
            xla_global_id=-1,
        )
        attributes.locality.SetInParent()
        if device.type == "GPU":
            attributes.locality.bus_id = 1
            attributes.locality.links.SetInParent()
        found.append(attributes)
    return found


def gpu_device_name() -> str:
    """Name of the first GPU, `/device:GPU:0`; empty if there is none."""
    return next((device.name for device in list_local_devices() if device.device_type == "GPU"), "")


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether the machine has a GPU of at least this compute capability, given as `(major, minor)`."""
    for device in list_local_devices():
        if device.device_type != "GPU":
            continue
        if min_cuda_compute_capability is None:
            return True
        shown = device.physical_device_desc.rpartition("compute capability: ")[2]
        if tuple(map(int, shown.split("."))) >= tuple(min_cuda_compute_capability):
            return True
    return False


def is_built_with_cuda() -> bool:
    """Whether the simulated TensorFlow knows GPUs: it always does."""
    return True
