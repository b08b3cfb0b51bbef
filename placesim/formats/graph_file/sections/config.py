"""Reader of `config`: fields of ConfigProto by their own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placesim.core.errors import GraphFileError, UsageError
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.plain_values import bool_value, int_value, number_value, text_value
from placesim.formats.problems import FileProblems, InvalidValue, key_position, spell, value_position
from placesim.graph.session_steps import Config, ThreadPoolOptions
from placesim.machine.gpu_options import EXPERIMENTAL_GPU_OPTIONS, GPU_OPTIONS, GpuOptions, VirtualDevices
from placesim.machine.inventory import MAX_COUNT

MAX_THREADS = 1 << 16
"""Maximum number of threads of a pool."""
_INT32 = 1 << 31
_INT64 = 1 << 63
CONFIG_FIELDS = (
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
GRAPH_OPTIONS = ("place_pruned_graph",)
OPTIMIZER_OPTIONS = ("do_constant_folding",)
_COUNTED = ("CPU", "GPU")
MAX_MEMORY_MIB = 1 << 24
"""Maximum memory of a virtual device: 16 TiB, up to which ConfigProto's floats hold every whole number."""


def read_config(tree: Any, position: int, problems: FileProblems) -> Config:
    """Read the config. Problems are reported, and the default is used instead."""
    fields = problems.mapping(tree, position, "'config'")
    problems.unknown_keys(fields, CONFIG_FIELDS, "'config'")
    values: dict[str, Any] = {}
    for key in fields:
        if key in CONFIG_FIELDS and key in FIELD_READERS:
            _read(fields, key, key, values, problems)
    if "graph_options" in fields:
        options = _read_all(fields, "graph_options", (*GRAPH_OPTIONS, "optimizer_options"), values, problems)
        if "optimizer_options" in options:
            _read_all(options, "optimizer_options", OPTIMIZER_OPTIONS, values, problems)
    if "gpu_options" in fields:
        values["gpu_options"] = _gpu_options(fields, problems)
        values["gpu_options_location"] = problems.location(value_position(fields, "gpu_options"))
    return Config(**values)


def override_config(config: Config, values: Mapping[str, Any]) -> Config:
    """Return a copy with other values of single fields, including nested ones such as those of `gpu_options`.

    Raises UsageError for unknown fields and all invalid values.
    """
    problems, found = FileProblems("config"), dict[str, Any]()
    for name in values:
        if name not in FIELD_READERS:
            raise UsageError(
                f"unknown key of a config: got '{name}', expected a field of ConfigProto{did_you_mean(name, FIELD_READERS)}"
            )
        _read(dict(values), name, name, found, problems)
    try:
        problems.raise_if_any()
    except GraphFileError as error:
        raise UsageError("; ".join(problem.message for problem in error.problems)) from None
    of_gpus = {name: found.pop(name) for name in list(found) if name in GpuOptions._fields}
    return replace(config, gpu_options=config.gpu_options._replace(**of_gpus), **found)


def _gpu_options(tree: dict[Any, Any], problems: FileProblems) -> GpuOptions:
    found: dict[str, Any] = {}
    options = _read_all(tree, "gpu_options", (*GPU_OPTIONS, "experimental"), found, problems)
    if "experimental" in options:
        _read_all(options, "experimental", EXPERIMENTAL_GPU_OPTIONS, found, problems)
    return GpuOptions(**found)


def _read_all(
    tree: dict[Any, Any], key: str, known: tuple[str, ...], values: dict[str, Any], problems: FileProblems
) -> dict[Any, Any]:
    """Read the fields of the mapping under a key into `values`, and return the mapping."""
    fields = problems.mapping(tree[key], value_position(tree, key), f"'{key}'")
    problems.unknown_keys(fields, known, f"'{key}'")
    for name in fields:
        if name in known and name in FIELD_READERS:
            _read(fields, name, name, values, problems)
    return fields


def _read(tree: dict[Any, Any], key: str, field: str, values: dict[str, Any], problems: FileProblems) -> None:
    try:
        values[field] = FIELD_READERS[field](tree[key], f"'{key}'", tree, problems)
    except InvalidValue as wrong:
        problems.add(value_position(tree, key), str(wrong))


def _bool(value: Any, what: str, _tree: Any, _problems: FileProblems) -> bool:
    return bool_value(value, what)


def _int32(value: Any, what: str, _tree: Any, _problems: FileProblems) -> int:
    return int_value(value, -_INT32, _INT32 - 1, what)


def _threads(value: Any, what: str, _tree: Any, _problems: FileProblems) -> int:
    return int_value(value, -_INT32, MAX_THREADS, what)


def _int64(value: Any, what: str, _tree: Any, _problems: FileProblems) -> int:
    return int_value(value, -_INT64, _INT64 - 1, what)


def _text(value: Any, what: str, _tree: Any, _problems: FileProblems) -> str:
    return text_value(value, what)


def _device_list(value: Any, what: str, _tree: Any, _problems: FileProblems) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise InvalidValue(f"wrong type of {what}: got {spell(value)}, expected a string such as '1,0'")
    return str(value)


def _size_in_mb(value: Any, what: str, _tree: Any, _problems: FileProblems) -> int:
    return int_value(value, 0, _INT32 - 1, what)


def _count(value: Any, what: str, _tree: Any, _problems: FileProblems) -> int:
    return int_value(value, 0, MAX_COUNT, what)


def _share(value: Any, what: str, _tree: Any, _problems: FileProblems) -> float:
    share = number_value(value, what)
    if not 0 <= share <= 1:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected a number from 0 to 1")
    return share


def _virtual_devices(value: Any, what: str, tree: Any, problems: FileProblems) -> tuple[VirtualDevices, ...]:
    listed = problems.sequence(value, value_position(tree, "virtual_devices"), what)
    return tuple(_virtual_device(listed, index, f"an entry of {what}", problems) for index in range(len(listed)))


def _virtual_device(listed: list[Any], index: int, what: str, problems: FileProblems) -> VirtualDevices:
    fields = problems.mapping(listed[index], value_position(listed, index), what)
    problems.unknown_keys(fields, VirtualDevices._fields, what)
    found: dict[str, Any] = {}
    for key in VirtualDevices._fields:
        if key in fields:
            numbers = problems.sequence(fields[key], value_position(fields, key), f"'{key}'")
            read = _virtual_memory if key == "memory_limit_mb" else _int32
            found[key] = tuple(_read_number(numbers, i, f"an entry of '{key}'", read, problems) for i in range(len(numbers)))
    return VirtualDevices(**found)


def _read_number(listed: list[Any], index: int, what: str, read: Any, problems: FileProblems) -> Any:
    try:
        return read(listed[index], what, listed, problems)
    except InvalidValue as wrong:
        problems.add(value_position(listed, index), str(wrong))
        return 1


def _virtual_memory(value: Any, what: str, _tree: Any, _problems: FileProblems) -> float:
    limit = value if type(value) is int else number_value(value, what)
    if not 1 <= limit <= MAX_MEMORY_MIB:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected MiB from 1 to {MAX_MEMORY_MIB}")
    return limit


def _fraction(value: Any, what: str, _tree: Any, _problems: FileProblems) -> float:
    fraction = number_value(value, what)
    if not 0 <= fraction < 1e6:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected 0 or more, and less than 1000000")
    return fraction


def _device_count(value: Any, what: str, tree: Any, problems: FileProblems) -> tuple[tuple[str, int], ...]:
    counts = problems.mapping(value, value_position(tree, "device_count"), what)
    found = []
    for kind, count in counts.items():
        if isinstance(kind, str) and kind not in _COUNTED and kind.upper() in _COUNTED:
            problems.doubt(key_position(counts, kind), f"{what} of '{kind}' has no effect: the type is {kind.upper()}")
        try:
            found.append((text_value(kind, "a device type"), int_value(count, 0, MAX_COUNT, f"count of '{kind}'")))
        except InvalidValue as wrong:
            problems.add(value_position(counts, kind) if isinstance(kind, str) else key_position(counts, kind), str(wrong))
    return tuple(found)


def _device_filters(value: Any, what: str, tree: Any, problems: FileProblems) -> tuple[str, ...]:
    listed = problems.sequence(value, value_position(tree, "device_filters"), what)
    return tuple(text_value(text, f"an entry of {what}") for text in listed)


def _thread_pools(value: Any, what: str, tree: Any, problems: FileProblems) -> tuple[ThreadPoolOptions, ...]:
    pools = []
    listed = problems.sequence(value, value_position(tree, "session_inter_op_thread_pool"), what)
    for index, entry in enumerate(listed):
        fields = problems.mapping(entry, value_position(listed, index), f"an entry of {what}")
        problems.unknown_keys(fields, ThreadPoolOptions._fields, f"an entry of {what}")
        number = 0
        try:
            number = int_value(fields.get("num_threads", 0), 0, MAX_THREADS, "'num_threads'")
        except InvalidValue as wrong:
            problems.add(value_position(fields, "num_threads"), str(wrong))
        pools.append(ThreadPoolOptions(number, text_value(fields.get("global_name", ""), "'global_name'")))
    return tuple(pools)


FIELD_READERS = {
    "allow_soft_placement": _bool,
    "log_device_placement": _bool,
    "device_count": _device_count,
    "device_filters": _device_filters,
    "intra_op_parallelism_threads": _threads,
    "inter_op_parallelism_threads": _threads,
    "use_per_session_threads": _bool,
    "session_inter_op_thread_pool": _thread_pools,
    "operation_timeout_in_ms": _int64,
    "allow_growth": _bool,
    "per_process_gpu_memory_fraction": _fraction,
    "visible_device_list": _device_list,
    "allocator_type": _text,
    "virtual_devices": _virtual_devices,
    "internal_fragmentation_fraction": _share,
    "disallow_retry_on_allocation_failure": _bool,
    "gpu_system_memory_size_in_mb": _size_in_mb,
    "num_virtual_devices_per_gpu": _count,
    "use_unified_memory": _bool,
    "place_pruned_graph": _bool,
    "do_constant_folding": _bool,
    "master": _text,
}
