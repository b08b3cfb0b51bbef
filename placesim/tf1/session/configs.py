"""`tf.ConfigProto` -> the config of a session."""

from __future__ import annotations

from typing import Any

from placesim.graph.session_steps import Config, ThreadPoolOptions
from placesim.machine.gpu_options import EXPERIMENTAL_GPU_OPTIONS, GPU_OPTIONS, GpuOptions, VirtualDevices

_SAME = (
    *("allow_soft_placement", "log_device_placement", "intra_op_parallelism_threads", "inter_op_parallelism_threads"),
    *("use_per_session_threads", "operation_timeout_in_ms"),
)
"""Fields with the same names and values in a ConfigProto and in a Config."""


def config_of(message: Any) -> Config:
    """Supported settings of a ConfigProto; defaults for None."""
    if message is None:
        return Config()
    return Config(
        **{name: getattr(message, name) for name in _SAME},
        device_count=tuple(message.device_count.items()),
        device_filters=tuple(message.device_filters),
        session_inter_op_thread_pool=tuple(
            ThreadPoolOptions(pool.num_threads, pool.global_name) for pool in message.session_inter_op_thread_pool
        ),
        gpu_options=_gpu_options(message.gpu_options),
        place_pruned_graph=message.graph_options.place_pruned_graph,
        do_constant_folding=message.graph_options.optimizer_options.do_constant_folding,
    )


def _gpu_options(message: Any) -> GpuOptions:
    experimental = message.experimental
    found: dict[str, Any] = {name: getattr(message, name) for name in GPU_OPTIONS}
    for name in EXPERIMENTAL_GPU_OPTIONS:
        if name != "virtual_devices":
            found[name] = getattr(experimental, name)
    devices = tuple(
        VirtualDevices(tuple(entry.memory_limit_mb), tuple(entry.priority), tuple(entry.device_ordinal))
        for entry in experimental.virtual_devices
    )
    return GpuOptions(**found, virtual_devices=devices)
