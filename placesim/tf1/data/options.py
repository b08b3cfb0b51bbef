"""`tf.data.Options`: settings for running a dataset, and their message in an op's attr."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, NamedTuple

from placesim.core.protobuf_wire import message_field, number_field
from placesim.tf1.graphs.tensor_likes import TensorLike


class AutoShardPolicy(enum.IntEnum):
    """Sharding policy of a dataset among workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class AutotuneAlgorithm(enum.Enum):
    """Algorithm that tunes parallelism."""

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class ExternalStatePolicy(enum.Enum):
    """Policy for external state when a dataset is saved."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


class _Field(NamedTuple):
    """An option: number of its field in the message, and the type of its values or the class of its group."""

    number: int
    kind: Any


class _Group:
    """Group of options, which are attributes; unset options are None."""

    FIELDS: ClassVar[dict[str, _Field]] = {}
    ALIASES: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        groups = {name: field.kind() for name, field in self.FIELDS.items() if _is_group(field)}
        object.__setattr__(self, "_held", dict.fromkeys(self.FIELDS) | groups)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_held" not in self.__dict__:
            raise AttributeError(name)
        held: dict[str, Any] = self.__dict__["_held"]
        key = self.ALIASES.get(name, name)
        if key not in held:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return held[key]

    def __setattr__(self, name: str, value: TensorLike) -> None:
        key = self.ALIASES.get(name, name)
        field = self.FIELDS.get(key)
        if field is None:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        if value is not None and not isinstance(value, field.kind):
            raise TypeError(f'Property "{key}" must be of type {field.kind}, got: {value!r} (type: {type(value)})')
        self._held[key] = value

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._held == other._held

    def __hash__(self) -> int:
        return hash(self.serialised())

    def __repr__(self) -> str:
        return f"<tensorflow.python.data.ops.options.{type(self).__name__} object at {id(self):#x}>"

    def serialised(self) -> bytes:
        """Bytes of the message: the fields that are set, and every group."""
        found = b""
        for name, field in sorted(self.FIELDS.items(), key=lambda item: item[1].number):
            value = self._held[name]
            if _is_group(field):
                found += message_field(field.number, value.serialised())
            elif isinstance(value, str):
                found += message_field(field.number, value.encode())
            elif value is not None:
                plain = value.value if isinstance(value, enum.Enum) else int(value)
                found += number_field(field.number, plain, is_written=field.kind is not AutoShardPolicy)
        return found

    def update(self, other: _Group) -> None:
        """Override these options by those that are set in another group."""
        for name, field in self.FIELDS.items():
            value = other._held[name]
            if _is_group(field):
                self._held[name].update(value)
            elif value is not None:
                self._held[name] = value


def _is_group(field: _Field) -> bool:
    return issubclass(field.kind, _Group)


class AutotuneOptions(_Group):
    """Options of autotuning."""

    FIELDS: ClassVar = {
        "enabled": _Field(1, bool),
        "cpu_budget": _Field(2, int),
        "ram_budget": _Field(3, int),
        "autotune_algorithm": _Field(4, AutotuneAlgorithm),
        "initial_parallelism": _Field(5, int),
        "min_parallelism": _Field(6, int),
    }


class DistributeOptions(_Group):
    """Options of the distribution among workers."""

    FIELDS: ClassVar = {"auto_shard_policy": _Field(1, AutoShardPolicy), "num_devices": _Field(2, int)}

    def __init__(self) -> None:
        super().__init__()
        self._held["auto_shard_policy"] = AutoShardPolicy.AUTO


class OptimizationOptions(_Group):
    """Graph rewrites to try."""

    FIELDS: ClassVar = {
        "apply_default_optimizations": _Field(1, bool),
        "filter_fusion": _Field(6, bool),
        "map_and_batch_fusion": _Field(9, bool),
        "map_and_filter_fusion": _Field(10, bool),
        "map_fusion": _Field(11, bool),
        "map_parallelization": _Field(12, bool),
        "noop_elimination": _Field(14, bool),
        "parallel_batch": _Field(15, bool),
        "shuffle_and_repeat_fusion": _Field(17, bool),
        "filter_parallelization": _Field(18, bool),
        "inject_prefetch": _Field(19, bool),
        "seq_interleave_prefetch": _Field(21, bool),
    }


class ServiceOptions(_Group):
    """Options of the tf.data service."""

    FIELDS: ClassVar = {"pinned": _Field(1, bool)}


class ThreadingOptions(_Group):
    """Options of threads."""

    FIELDS: ClassVar = {"max_intra_op_parallelism": _Field(1, int), "private_threadpool_size": _Field(2, int)}


class Options(_Group):
    """`tf.data.Options`."""

    FIELDS: ClassVar = {
        "deterministic": _Field(1, bool),
        "experimental_distribute": _Field(2, DistributeOptions),
        "experimental_optimization": _Field(3, OptimizationOptions),
        "experimental_slack": _Field(4, bool),
        "threading": _Field(5, ThreadingOptions),
        "experimental_external_state_policy": _Field(6, ExternalStatePolicy),
        "autotune": _Field(7, AutotuneOptions),
        "experimental_symbolic_checkpoint": _Field(8, bool),
        "experimental_warm_start": _Field(9, bool),
        "dataset_name": _Field(10, str),
        "framework_type": _Field(11, list),
        "experimental_service": _Field(12, ServiceOptions),
    }
    ALIASES: ClassVar = {"experimental_deterministic": "deterministic", "experimental_threading": "threading"}

    def merge(self, options: Options) -> Options:
        """A copy of these options, overridden by the options that are set in `options`."""
        return merged(self, options)


def merged(*options: Options) -> Options:
    """Merge options; later ones win."""
    found = Options()
    for each in options:
        found.update(each)
    return found
