"""`config`: ConfigProto's fields by their own names."""

from __future__ import annotations

from typing import Any

from placesim.devices.inventory import MAX_COUNT
from placesim.formats.graph_file.plain_values import bool_value, int_value, number_value, text_value
from placesim.formats.problems import Problems, Wrong, key_position, shown, value_position
from placesim.graph.steps import Config, ThreadPoolOptions

MAX_THREADS = 1 << 16
"""The most threads that a pool may have."""
_INT32 = 1 << 31
_INT64 = 1 << 63
_FIELDS = (
    "allow_soft_placement",
    "log_device_placement",
    "device_count",
    "device_filters",
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
    "use_per_session_threads",
    "session_inter_op_thread_pool",
    "operation_timeout_in_ms",
    "gpu_options",
    "graph_options",
    "master",
)
_GPU_OPTIONS = {
    "allow_growth": "gpu_allow_growth",
    "per_process_gpu_memory_fraction": "gpu_memory_fraction",
    "visible_device_list": "gpu_visible_device_list",
}
_GRAPH_OPTIONS = {"place_pruned_graph": "place_pruned_graph"}


def read_config(tree: Any, position: int, problems: Problems) -> Config:
    """What is wrong is reported, and its default taken."""
    fields = problems.mapping(tree, position, "'config'")
    problems.unknown_keys(fields, _FIELDS, "'config'")
    values: dict[str, Any] = {}
    for key in fields:
        if key in _READERS:
            _read(fields, key, key, values, problems)
    for key, names in (("gpu_options", _GPU_OPTIONS), ("graph_options", _GRAPH_OPTIONS)):
        if key in fields:
            options = problems.mapping(fields[key], value_position(fields, key), f"'{key}'")
            problems.unknown_keys(options, names, f"'{key}'")
            for name in options:
                if name in names:
                    _read(options, name, names[name], values, problems)
    return Config(**values)


def _read(tree: dict[Any, Any], key: str, field: str, values: dict[str, Any], problems: Problems) -> None:
    try:
        values[field] = _READERS[field](tree[key], f"'{key}'", tree, problems)
    except Wrong as wrong:
        problems.add(value_position(tree, key), str(wrong))


def _bool(value: Any, what: str, _tree: Any, _problems: Problems) -> bool:
    return bool_value(value, what)


def _int32(value: Any, what: str, _tree: Any, _problems: Problems) -> int:
    return int_value(value, -_INT32, _INT32 - 1, what)


def _int64(value: Any, what: str, _tree: Any, _problems: Problems) -> int:
    return int_value(value, -_INT64, _INT64 - 1, what)


def _text(value: Any, what: str, _tree: Any, _problems: Problems) -> str:
    return text_value(value, what)


def _device_list(value: Any, what: str, _tree: Any, _problems: Problems) -> str:
    return str(value) if type(value) is int else text_value(value, what)


def _fraction(value: Any, what: str, _tree: Any, _problems: Problems) -> float:
    fraction = number_value(value, what)
    if not 0 <= fraction < 1e6:
        raise Wrong(f"{what} out of range: got {shown(value)}, expected a number from 0")
    return fraction


def _device_count(value: Any, what: str, tree: Any, problems: Problems) -> tuple[tuple[str, int], ...]:
    counts = problems.mapping(value, value_position(tree, "device_count"), what)
    found = []
    for kind, count in counts.items():
        try:
            found.append((text_value(kind, "a device type"), int_value(count, 0, MAX_COUNT, f"count of '{kind}'")))
        except Wrong as wrong:
            problems.add(value_position(counts, kind) if isinstance(kind, str) else key_position(counts, kind), str(wrong))
    return tuple(found)


def _device_filters(value: Any, what: str, tree: Any, problems: Problems) -> tuple[str, ...]:
    listed = problems.sequence(value, value_position(tree, "device_filters"), what)
    return tuple(text_value(text, f"an entry of {what}") for text in listed)


def _thread_pools(value: Any, what: str, tree: Any, problems: Problems) -> tuple[ThreadPoolOptions, ...]:
    pools = []
    listed = problems.sequence(value, value_position(tree, "session_inter_op_thread_pool"), what)
    for index, entry in enumerate(listed):
        fields = problems.mapping(entry, value_position(listed, index), f"an entry of {what}")
        problems.unknown_keys(fields, ThreadPoolOptions._fields, f"an entry of {what}")
        number = 0
        try:
            number = int_value(fields.get("num_threads", 0), 0, MAX_THREADS, "'num_threads'")
        except Wrong as wrong:
            problems.add(value_position(fields, "num_threads"), str(wrong))
        pools.append(ThreadPoolOptions(number, text_value(fields.get("global_name", ""), "'global_name'")))
    return tuple(pools)


_READERS = {
    "allow_soft_placement": _bool,
    "log_device_placement": _bool,
    "device_count": _device_count,
    "device_filters": _device_filters,
    "intra_op_parallelism_threads": _int32,
    "inter_op_parallelism_threads": _int32,
    "use_per_session_threads": _bool,
    "session_inter_op_thread_pool": _thread_pools,
    "operation_timeout_in_ms": _int64,
    "gpu_allow_growth": _bool,
    "gpu_memory_fraction": _fraction,
    "gpu_visible_device_list": _device_list,
    "place_pruned_graph": _bool,
    "master": _text,
}
