"""Reader of `config`: fields of ConfigProto by their own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placesim.core.errors import UsageError
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.plain_values import bool_value, int_value, number_value, text_value
from placesim.formats.problems import WRONG, FileProblems, InvalidValue, key_position, spell, value_position
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


_FieldReader = Callable[[Any, str, int, FileProblems], Any]
"""Function that returns the value of a field from its value in the file, its name for messages, its position, and problems."""


def read_config(tree: Any, position: int, problems: FileProblems) -> Config:
    """Read the config. Invalid values are reported, and their defaults are used."""
    values: dict[str, Any] = {}
    fields = _read_fields(tree, position, "'config'", CONFIG_FIELDS, values, problems)
    if "gpu_options" in fields:
        values["gpu_options_location"] = problems.location(value_position(fields, "gpu_options"))
    return _replaced(Config(), values)


def override_config(config: Config, values: Mapping[str, Any]) -> Config:
    """Return a copy with other values of single fields, including nested ones such as those of `gpu_options`.

    Raises UsageError for unknown fields and all invalid values.
    """
    problems, found = FileProblems("config"), dict[str, Any]()
    for name in values:
        if name not in FIELD_READERS:
            near = did_you_mean(name, FIELD_READERS)
            raise UsageError(f"unknown key of a config: got '{name}', expected a field of ConfigProto{near}")
        _read(dict(values), name, found, problems)
    problems.raise_usage_error()
    return _replaced(config, found)


def _replaced(config: Config, values: dict[str, Any]) -> Config:
    """Return a copy with other values of fields. `values` also has the fields of `gpu_options`."""
    of_gpus = {name: values.pop(name) for name in list(values) if name in GpuOptions._fields}
    return replace(config, gpu_options=config.gpu_options._replace(**of_gpus), **values)


def _read_fields(
    tree: Any, position: int, what: str, known: Sequence[str], values: dict[str, Any], problems: FileProblems
) -> dict[Any, Any]:
    """Read the fields of a mapping and of the mappings in it into `values`, and return the mapping."""
    fields = problems.mapping(tree, position, what)
    problems.unknown_keys(fields, known, what)
    for name in fields:
        if name in known and name in _NESTED:
            _read_fields(fields[name], value_position(fields, name), f"'{name}'", _NESTED[name], values, problems)
        elif name in known:
            _read(fields, name, values, problems)
    return fields


def _read(tree: dict[Any, Any], key: str, values: dict[str, Any], problems: FileProblems) -> None:
    position = value_position(tree, key)
    found = problems.read(tree, key, lambda value: FIELD_READERS[key](value, f"'{key}'", position, problems), None)
    if found is not WRONG:
        values[key] = found


def _plain(read: Callable[..., Any], *bounds: int) -> _FieldReader:
    """Return a field reader that calls a function of `plain_values` with a field's value, these bounds and the field's name."""
    return lambda value, what, _position, _problems: read(value, *bounds, what)


def _device_list(value: Any, what: str) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise InvalidValue(f"wrong type of {what}: got {spell(value)}, expected a string such as '1,0'")
    return str(value)


def _share(value: Any, what: str) -> float:
    share = number_value(value, what)
    if not 0 <= share <= 1:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected a number from 0 to 1")
    return share


def _fraction(value: Any, what: str) -> float:
    fraction = number_value(value, what)
    if not 0 <= fraction < 1e6:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected 0 or more, and less than 1000000")
    return fraction


def _virtual_memory(value: Any, what: str) -> float:
    limit = value if type(value) is int else number_value(value, what)
    if not 1 <= limit <= MAX_MEMORY_MIB:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected MiB from 1 to {MAX_MEMORY_MIB}")
    return limit


def _virtual_devices(value: Any, what: str, position: int, problems: FileProblems) -> tuple[VirtualDevices, ...]:
    listed = problems.sequence(value, position, what)
    return tuple(_virtual_device(listed, index, f"an entry of {what}", problems) for index in range(len(listed)))


def _virtual_device(listed: list[Any], index: int, what: str, problems: FileProblems) -> VirtualDevices:
    fields = problems.mapping(listed[index], value_position(listed, index), what)
    problems.unknown_keys(fields, VirtualDevices._fields, what)
    found: dict[str, Any] = {}
    for key in VirtualDevices._fields:
        if key in fields:
            numbers = problems.sequence_at(fields, key)
            read = _virtual_memory if key == "memory_limit_mb" else _int32_value
            found[key] = tuple(_read_number(numbers, i, f"an entry of '{key}'", read, problems) for i in range(len(numbers)))
    return VirtualDevices(**found)


def _int32_value(value: Any, what: str) -> int:
    return int_value(value, -_INT32, _INT32 - 1, what)


def _read_number(listed: list[Any], index: int, what: str, read: Callable[[Any, str], Any], problems: FileProblems) -> Any:
    try:
        return read(listed[index], what)
    except InvalidValue as wrong:
        problems.add(value_position(listed, index), str(wrong))
        return 1


def _device_count(value: Any, what: str, position: int, problems: FileProblems) -> tuple[tuple[str, int], ...]:
    counts = problems.mapping(value, position, what)
    found = []
    for kind, count in counts.items():
        if isinstance(kind, str) and kind not in _COUNTED and kind.upper() in _COUNTED:
            problems.doubt(key_position(counts, kind), f"{what} of '{kind}' has no effect: the type is {kind.upper()}")
        try:
            found.append((text_value(kind, "a device type"), int_value(count, 0, MAX_COUNT, f"the count of '{kind}'")))
        except InvalidValue as wrong:
            problems.add(value_position(counts, kind) if isinstance(kind, str) else key_position(counts, kind), str(wrong))
    return tuple(found)


def _device_filters(value: Any, what: str, position: int, problems: FileProblems) -> tuple[str, ...]:
    return tuple(text_value(text, f"an entry of {what}") for text in problems.sequence(value, position, what))


def _thread_pools(value: Any, what: str, position: int, problems: FileProblems) -> tuple[ThreadPoolOptions, ...]:
    pools = []
    listed = problems.sequence(value, position, what)
    for index, entry in enumerate(listed):
        fields = problems.mapping(entry, value_position(listed, index), f"an entry of {what}")
        problems.unknown_keys(fields, ThreadPoolOptions._fields, f"an entry of {what}")
        threads = problems.read_or_default(
            fields, "num_threads", lambda value: int_value(value, 0, MAX_THREADS, "'num_threads'"), 0
        )
        pools.append(ThreadPoolOptions(threads, text_value(fields.get("global_name", ""), "'global_name'")))
    return tuple(pools)


_NESTED: Mapping[str, Sequence[str]] = {
    "graph_options": (*GRAPH_OPTIONS, "optimizer_options"),
    "optimizer_options": OPTIMIZER_OPTIONS,
    "gpu_options": (*GPU_OPTIONS, "experimental"),
    "experimental": EXPERIMENTAL_GPU_OPTIONS,
}
"""Fields that are mappings, and the fields in them."""
_BOOL, _TEXT = _plain(bool_value), _plain(text_value)
_THREADS = _plain(int_value, -_INT32, MAX_THREADS)
FIELD_READERS: Mapping[str, _FieldReader] = {
    "allow_soft_placement": _BOOL,
    "log_device_placement": _BOOL,
    "device_count": _device_count,
    "device_filters": _device_filters,
    "intra_op_parallelism_threads": _THREADS,
    "inter_op_parallelism_threads": _THREADS,
    "use_per_session_threads": _BOOL,
    "session_inter_op_thread_pool": _thread_pools,
    "operation_timeout_in_ms": _plain(int_value, -_INT64, _INT64 - 1),
    "allow_growth": _BOOL,
    "per_process_gpu_memory_fraction": _plain(_fraction),
    "visible_device_list": _plain(_device_list),
    "allocator_type": _TEXT,
    "virtual_devices": _virtual_devices,
    "internal_fragmentation_fraction": _plain(_share),
    "disallow_retry_on_allocation_failure": _BOOL,
    "gpu_system_memory_size_in_mb": _plain(int_value, 0, _INT32 - 1),
    "num_virtual_devices_per_gpu": _plain(int_value, 0, MAX_COUNT),
    "use_unified_memory": _BOOL,
    "place_pruned_graph": _BOOL,
    "do_constant_folding": _BOOL,
    "master": _TEXT,
}
