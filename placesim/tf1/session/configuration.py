"""`tf.config`: devices of the machine, and the default configuration of sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.graphs.tensor_likes import TensorLike


class PhysicalDevice(NamedTuple):
    """A device of the machine, named by its index."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device on which ops can be placed."""

    name: str
    device_type: str


class LogicalDeviceConfiguration(NamedTuple):
    """A part of a physical device with a memory limit in MiB."""

    memory_limit: Any = None
    experimental_priority: Any = None
    experimental_device_ordinal: Any = None


VirtualDeviceConfiguration = LogicalDeviceConfiguration


@dataclass
class _Settings:
    """Settings of a script.  `is_made`: logical devices were listed."""

    values: dict[str, Any] = field(default_factory=dict)
    growth: dict[PhysicalDevice, bool] = field(default_factory=dict)
    parts: dict[PhysicalDevice, list[LogicalDeviceConfiguration]] = field(default_factory=dict)
    visible: list[PhysicalDevice] | None = None
    optimizer: dict[str, Any] = field(default_factory=dict)
    jit: str = ""
    is_made: bool = False


_settings = _Settings()


def reset() -> None:
    """Forget all settings, as at the start of a program."""
    global _settings
    _settings = _Settings()


_CONFIG_FIELDS = (
    *("allow_soft_placement", "log_device_placement"),
    *("inter_op_parallelism_threads", "intra_op_parallelism_threads"),
)


def default_config() -> Any:
    """Default ConfigProto of sessions; None if nothing was set.  Raises ValueError if memory is to grow on some GPUs only."""
    settings = _settings
    if not (settings.values or settings.growth or settings.parts or settings.visible is not None):
        return None
    config = message_class("ConfigProto")()
    for name in _CONFIG_FIELDS:
        if name in settings.values:
            setattr(config, name, settings.values[name])
    gpus = list_physical_devices("GPU")
    seen = [gpu for gpu in gpus if settings.visible is None or gpu in settings.visible]
    if settings.visible is not None:
        config.gpu_options.visible_device_list = ",".join(str(gpus.index(gpu)) for gpu in seen) or "-1"
        if not seen:
            config.device_count["GPU"] = 0
    growing = {settings.growth.get(gpu, False) for gpu in seen}
    if len(growing) > 1:
        raise ValueError("Memory growth cannot differ between GPU devices")
    config.gpu_options.allow_growth = growing == {True}
    if any(gpu in settings.parts for gpu in seen):
        # one entry for each visible GPU, an empty one if it is not divided
        for gpu in seen:
            entry = config.gpu_options.experimental.virtual_devices.add()
            entry.memory_limit_mb.extend(part.memory_limit for part in settings.parts.get(gpu, ()))
    cpus = settings.parts.get(PhysicalDevice("/physical_device:CPU:0", "CPU"))
    if cpus:
        config.device_count["CPU"] = len(cpus)
    return config


# --- devices --------------------------------------------------------------------------------------------------------


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Processors and GPUs of the machine, optionally of one type."""
    found: list[PhysicalDevice] = []
    for device in _machine_devices():
        if device.device_type not in ("CPU", "GPU") or device_type not in (None, device.device_type):
            continue
        if device.device_type == "CPU" and any(one.device_type == "CPU" for one in found):
            continue  # several CPU devices belong to one physical device
        found.append(PhysicalDevice(device.name.replace("/device:", "/physical_device:"), device.device_type))
    return found


def _machine_devices() -> list[Any]:
    """Devices of the machine, listed without taking GPUs for this process."""
    from placesim.machine.gpu_memory import GpuProcess
    from placesim.tf1.session.devices import list_local_devices

    return list_local_devices(process=GpuProcess())


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Configured devices for ops."""
    from placesim.tf1.session.devices import list_local_devices

    devices = list_local_devices(default_config())
    _settings.is_made = True
    return [LogicalDevice(device.name, device.device_type) for device in devices if device_type in (None, device.device_type)]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Devices that sessions may use."""
    found = list_physical_devices() if _settings.visible is None else _settings.visible
    return [device for device in found if device_type in (None, device.device_type)]


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Use only these devices; with `device_type`, other types stay as they are.  Raises ValueError, RuntimeError."""
    wanted = list(devices) if isinstance(devices, list) else [devices]
    for device in wanted:
        _check_known(device)
        if device_type is not None and device.device_type != device_type:
            raise ValueError(f"Unrecognized device: {device!r}")
    kept = [] if device_type is None else [one for one in get_visible_devices() if one.device_type != device_type]
    found = kept + wanted
    if found == get_visible_devices():
        return
    _check_not_made("Visible devices cannot be modified after being initialized")
    _settings.visible = found


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Whether GPU memory is allocated as needed.  Raises ValueError for an unknown device, KeyError unless it is a GPU."""
    _check_known(device)
    if device.device_type != "GPU":
        raise KeyError(device)
    return _settings.growth.get(device, False)


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Allocate GPU memory as needed, or all at once.  Raises ValueError, RuntimeError."""
    _check_known(device)
    if device in _settings.parts:
        raise ValueError("Cannot set memory growth on device when virtual devices configured")
    if device.device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU and non-Pluggable devices")
    if _settings.growth.get(device) == enable:
        return
    _check_not_made("Physical devices cannot be modified after being initialized")
    _settings.growth[device] = enable


def get_logical_device_configuration(device: PhysicalDevice) -> list[LogicalDeviceConfiguration] | None:
    """Logical devices of a physical one; None if it is not divided."""
    _check_known(device)
    return _settings.parts.get(device)


def set_logical_device_configuration(device: PhysicalDevice, logical_devices: list[LogicalDeviceConfiguration]) -> None:
    """Split a device.  Raises ValueError for memory limits on a CPU, RuntimeError after devices were made."""
    _check_known(device)
    if device.device_type == "CPU":
        if any(part.memory_limit is not None for part in logical_devices):
            raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    elif any(part.memory_limit is None for part in logical_devices):
        raise ValueError("memory limit must be set for GPU virtual devices")
    _check_not_made("Virtual devices cannot be modified after being initialized")
    _settings.parts[device] = list(logical_devices)


def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """Name and compute capability of a GPU; empty for other devices.  Raises ValueError for an unknown device."""
    if not isinstance(device, PhysicalDevice):
        raise ValueError(f"device must be a tf.config.PhysicalDevice, but got: {device}")
    _check_known(device)
    if device.device_type != "GPU":
        return {}
    name = device.name.replace("/physical_device:", "/device:")
    told = next(one.physical_device_desc for one in _machine_devices() if one.name == name)
    parts = dict(part.strip().split(": ", 1) for part in told.split(",") if ": " in part)
    found: dict[str, Any] = {}
    if "name" in parts:
        found["device_name"] = parts["name"]
    if "compute capability" in parts:
        major, minor = parts["compute capability"].split(".")
        found["compute_capability"] = int(major), int(minor)
    return found


def get_memory_info(device: str) -> dict[str, int]:
    """Memory in use outside sessions: none.  Raises ValueError for a device that is not there."""
    wanted = device.rpartition("/")[2].removeprefix("device:").upper()
    if all(one.name != f"/physical_device:{wanted}" for one in list_physical_devices()):
        raise ValueError(f"No matching devices found for '{device}'")
    return {"current": 0, "peak": 0}


def _check_known(device: object) -> None:
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")


def _check_not_made(message: str) -> None:
    if _settings.is_made:
        raise RuntimeError(message)


# --- values ---------------------------------------------------------------------------------------------------------


def _value(key: str, default: object, fixed: str = "") -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Getter and setter of a value.  `fixed`: error text if the value cannot change after devices were made."""

    def get() -> Any:
        return _settings.values.get(key, default)

    def set_(value: TensorLike) -> None:
        if fixed and get() != value:
            _check_not_made(fixed)
        _settings.values[key] = value

    return get, set_


_THREADS = "{} op parallelism cannot be modified after initialization."
get_inter_op_parallelism_threads, _set_inter = _value("inter_op_parallelism_threads", 0, _THREADS.format("Inter"))
get_intra_op_parallelism_threads, _set_intra = _value("intra_op_parallelism_threads", 0, _THREADS.format("Intra"))
get_soft_device_placement, _set_soft = _value("allow_soft_placement", False)
get_log_device_placement, _set_log = _value("log_device_placement", False)
tensor_float_32_execution_enabled, _set_tf32 = _value("tf32", True)
functions_run_eagerly, _set_eager = _value("eager_functions", False)
get_synchronous_execution, _set_synchronous = _value("synchronous", True)
get_device_policy, _set_policy = _value("policy", "silent")
is_traceback_filtering_enabled, _set_filtering = _value("filtering", True)


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Set the inter-op threads of sessions without a config."""
    _set_inter(num_threads)


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set the intra-op threads of sessions without a config."""
    _set_intra(num_threads)


def set_soft_device_placement(enabled: bool) -> None:
    """Enable soft placement for sessions without a config."""
    _set_soft(enabled)


def set_log_device_placement(enabled: bool) -> None:
    """Enable the log of placements for sessions without a config."""
    _set_log(enabled)


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Set the flag only: simulated GPUs have no TensorFloat-32."""
    _set_tf32(enabled)


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Set the flag only: graphs are always built."""
    _set_eager(run_eagerly)


experimental_run_functions_eagerly, experimental_functions_run_eagerly = run_functions_eagerly, functions_run_eagerly


def set_synchronous_execution(enable: bool) -> None:
    """Set the flag only; it does not affect sessions."""
    _set_synchronous(enable)


def set_device_policy(device_policy: str | None) -> None:
    """Set the flag only; it does not affect sessions.  Raises ValueError for an unknown policy."""
    if device_policy not in (None, "silent", "silent_for_int32", "warn", "explicit"):
        raise ValueError(
            f"Invalid argument `device_policy`: {device_policy!r}. Please refer to "
            "https://www.tensorflow.org/api_docs/python/tf/config/experimental/set_device_policy for valid `device_policy` "
            "arguments."
        )
    _set_policy(device_policy or "silent")


def enable_mlir_bridge() -> None:
    """Do nothing: graphs are not compiled."""


def disable_mlir_bridge() -> None:
    """Do nothing: graphs are not compiled."""


def enable_traceback_filtering() -> None:
    """Set the flag only: tracebacks are Python's."""
    _set_filtering(True)


def disable_traceback_filtering() -> None:
    """Clear the flag only: tracebacks are Python's."""
    _set_filtering(False)


# --- optimizers of graphs -------------------------------------------------------------------------------------------

_ALWAYS = ("disable_model_pruning", "disable_meta_optimizer")


def get_jit() -> str:
    """`autoclustering`, or an empty string."""
    return _settings.jit


def set_jit(enabled: bool | str) -> None:
    """Set the flag only: graphs are not compiled."""
    _settings.jit = "autoclustering" if enabled is True or enabled == "autoclustering" else ""


def get_experimental_options() -> dict[str, Any]:
    """Optimizer options that were set."""
    return _settings.optimizer | {name: _settings.optimizer.get(name, False) for name in _ALWAYS}


def set_experimental_options(options: dict[str, Any]) -> None:
    """Set the options only: graphs run as written."""
    _settings.optimizer.update(options)
