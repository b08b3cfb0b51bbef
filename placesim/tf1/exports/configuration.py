"""Devices of the machine, and session configuration."""

from __future__ import annotations

_DEVICES = (
    "list_physical_devices list_logical_devices get_visible_devices set_visible_devices get_logical_device_configuration "
    "set_logical_device_configuration get_soft_device_placement set_soft_device_placement LogicalDevice PhysicalDevice "
    "LogicalDeviceConfiguration run_functions_eagerly functions_run_eagerly experimental_run_functions_eagerly "
    "experimental_functions_run_eagerly"
)
_EXPERIMENTAL = (
    "list_physical_devices list_logical_devices get_visible_devices set_visible_devices get_memory_growth set_memory_growth "
    "get_device_details get_memory_info enable_tensor_float_32_execution tensor_float_32_execution_enabled "
    "get_synchronous_execution set_synchronous_execution get_device_policy set_device_policy enable_mlir_bridge "
    "disable_mlir_bridge VirtualDeviceConfiguration "
    "get_virtual_device_configuration=get_logical_device_configuration "
    "set_virtual_device_configuration=set_logical_device_configuration"
)
_THREADS = "get_{0}_op_parallelism_threads set_{0}_op_parallelism_threads"
_OPTIMIZER = "get_jit set_jit get_experimental_options set_experimental_options"
_DEBUGGING = (
    "get_log_device_placement set_log_device_placement enable_traceback_filtering disable_traceback_filtering "
    "is_traceback_filtering_enabled"
)


def _in(module: str, names: str) -> str:
    return " ".join(f"{module}.{name}" for name in names.split())


ROWS = {
    "session.configuration": " ".join(
        [
            _in("config", _DEVICES),
            _in("config.experimental", _EXPERIMENTAL),
            *(_in("config.threading", _THREADS.format(which)) for which in ("inter", "intra")),
            _in("config.optimizer", _OPTIMIZER),
            _in("debugging", _DEBUGGING),
        ]
    )
}
