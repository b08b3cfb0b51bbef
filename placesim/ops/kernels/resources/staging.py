"""Staging areas: tuples of tensors that pass from one part of a graph to another, in order or by key.

An op raises `KernelWait` if it must wait for room or for a tuple; the executor then tries it again.  Source: TensorFlow's
`stage_op.cc` and `map_stage_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError, ResourceExhaustedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.abstract_tensor import Sketch
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.kernel import Kernel, KernelContext, KernelWait, Table
from placesim.ops.kernels.memory_rules import ITSELF, KernelMemory
from placesim.ops.kernels.named_resources import infer_unknown_outputs, name_resource
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeFunction, format_dims, no_outputs, scalar

BUFFER_TYPE = "N10tensorflow12_GLOBAL__N_16BufferE"
MAP_TYPES = {
    "Map": "N10tensorflow12_GLOBAL__N_110StagingMapILb0EEE",
    "OrderedMap": "N10tensorflow12_GLOBAL__N_110StagingMapILb1EEE",
}

Staged = tuple[Any, ...]


def bytes_of(values: Sequence[Any]) -> int:
    """Total size of the values in bytes; None counts as nothing."""
    return sum((value if isinstance(value, Sketch) else np.asarray(value)).nbytes for value in values if value is not None)


# --- in order -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StagingBuffer:
    """Tuples in order of arrival; a limit of 0 means no limit."""

    capacity: int
    memory_limit_bytes: int
    tuples: list[Staged] = field(default_factory=list)

    def has_room(self, values: Staged) -> bool:
        """Whether a tuple fits beside the stored ones."""
        if self.capacity and len(self.tuples) >= self.capacity:
            return False
        return not self.memory_limit_bytes or sum(map(bytes_of, (*self.tuples, values))) <= self.memory_limit_bytes


def _buffer(attrs: Attrs, context: KernelContext) -> StagingBuffer:
    handle = name_resource(attrs, context, BUFFER_TYPE, by_node=True)
    # the first op sets the limits
    found: StagingBuffer = context.resources.lookup_or_create(
        handle, lambda: StagingBuffer(attrs["capacity"], attrs["memory_limit"])
    )
    return found


def stage(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Stage: append the tuple of the inputs.

    Raises KernelWait if there is no room, and ResourceExhaustedError for a tuple above the memory limit.
    """
    buffer, values = _buffer(attrs, context), tuple(inputs)
    _check_memory(bytes_of(values), buffer.memory_limit_bytes)
    if not buffer.has_room(values):
        raise KernelWait
    buffer.tuples.append(values)
    return ()


def _check_memory(size_bytes: int, limit_bytes: int) -> None:
    if limit_bytes and size_bytes > limit_bytes:
        raise ResourceExhaustedError(
            f"Attempted to insert tensors with combined size of '{size_bytes}' bytes into Staging Area with a memory limit "
            f"of '{limit_bytes}'."
        )


def unstage(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Unstage: remove and return the first tuple.

    Raises KernelWait if there is none, and InvalidArgumentError for another number of values than `dtypes`.
    """
    buffer = _buffer(attrs, context)
    if not buffer.tuples:
        raise KernelWait
    return _checked_count(buffer.tuples.pop(0), attrs)


def peek_stage(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """StagePeek: return the tuple at a scalar index; the tuple stays.

    Raises KernelWait if there is none, and InvalidArgumentError for another number of values than `dtypes` or another index.
    """
    buffer = _buffer(attrs, context)
    if value_dims(inputs[0]):
        raise InvalidArgumentError("index must be scalar")
    if not 0 <= int(inputs[0]) < len(buffer.tuples):
        raise KernelWait
    return _checked_count(buffer.tuples[int(inputs[0])], attrs)


def _checked_count(values: Staged, attrs: Attrs) -> Staged:
    if len(values) != len(attrs["dtypes"]):
        raise InvalidArgumentError(f"Mismatch stage/unstage: {len(values)} vs. {len(attrs['dtypes'])}")
    return values


def tell_stage_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """StageSize: the number of tuples, a scalar."""
    return (np.int32(len(_buffer(attrs, context).tuples)),)


def clear_stage(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """StageClear: remove all tuples."""
    _buffer(attrs, context).tuples.clear()
    return ()


# --- by key ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StagingMap:
    """Tuples of `count` components by key: complete tuples, and tuples with missing components (None)."""

    count: int
    capacity: int
    memory_limit_bytes: int
    complete: dict[int, list[Any]] = field(default_factory=dict)
    incomplete: dict[int, list[Any]] = field(default_factory=dict)

    def would_exceed(self, size_bytes: int) -> bool:
        """Whether `size_bytes` more would exceed the limit."""
        held = sum(bytes_of(values) for values in (*self.complete.values(), *self.incomplete.values()))
        return bool(self.memory_limit_bytes) and held + size_bytes > self.memory_limit_bytes

    def check_index(self, key: int, index: int) -> None:
        """Raises InvalidArgumentError for a component that does not exist."""
        if not 0 <= index < self.count:
            raise InvalidArgumentError(f"Index '{index}' for key '{key}' was out of bounds '{self.count}'.")


def _indices(value: Any) -> list[int]:
    found = [int(index) for index in np.asarray(value).reshape(-1)]
    if not found:
        raise InvalidArgumentError("Indices are empty")
    if any(a >= b for a, b in pairwise(found)):
        raise InvalidArgumentError("Indices are not strictly ordered")
    return found


def _put(staging: StagingMap, key: int, indices: list[int], values: Sequence[Any]) -> None:
    size_bytes = bytes_of(values)
    is_whole = len(indices) == staging.count
    _check_memory(size_bytes, staging.memory_limit_bytes)
    if staging.would_exceed(size_bytes) or (is_whole and 0 < staging.capacity <= len(staging.complete)):
        raise KernelWait
    # like C++'s `insert`: an existing tuple of the key stays
    if is_whole:
        staging.complete.setdefault(key, list(values))
        return
    present = staging.incomplete.get(key, [None] * staging.count)
    for index, value in zip(indices, values, strict=False):
        staging.check_index(key, index)
        if present[index] is not None:
            raise InvalidArgumentError(
                f"The tensor for index '{index}' for key '{key}' was already initialized '{staging.count}'."
            )
        present[index] = value
    staging.incomplete[key] = present
    if all(value is not None for value in present):
        staging.complete.setdefault(key, staging.incomplete.pop(key))


def _take(staging: StagingMap, key: int, indices: list[int], stays: bool = False) -> list[Any]:
    present, found = staging.complete[key], []
    for index in indices:
        staging.check_index(key, index)
        if present[index] is None:
            raise InvalidArgumentError(f"Tensor at index '{index}' for key '{key}' has already been removed.")
        found.append(present[index])
        if not stays:
            present[index] = None
    # a tuple without remaining components is removed
    if all(value is None for value in present):
        del staging.complete[key]
    return found


def _staging_map(kind: str, attrs: Attrs, context: KernelContext) -> StagingMap:
    handle = name_resource(attrs, context, MAP_TYPES[kind], by_node=True)
    found: StagingMap = context.resources.lookup_or_create(
        handle, lambda: StagingMap(len(attrs["dtypes"]), attrs["capacity"], attrs["memory_limit"])
    )
    return found


def _single_key(value: Any) -> int:
    key = np.asarray(value)
    if not key.size:
        raise InvalidArgumentError("key must not be empty")
    if key.size != 1:
        raise InvalidArgumentError(f"key must be an int64 scalar, got tensor with shape: {format_dims(key.shape)}")
    return int(key.item())


def put_in_map(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, kind: str) -> Sequence[Any]:
    """(key, indices `[n]`, n values) -> nothing: set these components of the key's tuple.

    Raises KernelWait if there is no room, and ResourceExhaustedError for values above the memory limit. Raises
    InvalidArgumentError for a key that is not one element, indices that are not increasing or out of range, and a component
    that is already set.
    """
    key = _single_key(inputs[0])
    _put(_staging_map(kind, attrs, context), key, _indices(inputs[1]), inputs[2:])
    return ()


def take_from_map(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, kind: str, stays: bool = False) -> Sequence[Any]:
    """(key, indices `[n]`) -> n components of the key's tuple, which are removed unless `stays`.

    Raises KernelWait if the tuple is not complete. Raises InvalidArgumentError for a key that is not one element, indices that
    are not increasing or out of range, and a component that is already removed.
    """
    key, indices = _single_key(inputs[0]), _indices(inputs[1])
    staging = _staging_map(kind, attrs, context)
    if key not in staging.complete:
        raise KernelWait
    return _take(staging, key, indices, stays)


def take_any_from_map(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, kind: str) -> Sequence[Any]:
    """Indices `[n]` -> a key, and n components of its tuple, which are removed.

    The key is the smallest key of an ordered map, else the key that was first complete. Raises KernelWait if there is no
    complete tuple, and InvalidArgumentError like `take_from_map`.
    """
    staging, indices = _staging_map(kind, attrs, context), _indices(inputs[0])
    if not staging.complete:
        raise KernelWait
    key = min(staging.complete) if kind == "OrderedMap" else next(iter(staging.complete))
    return np.int64(key), *_take(staging, key, indices)


def tell_map_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, kind: str) -> Sequence[Any]:
    """The number of complete tuples, a scalar."""
    return (np.int32(len(_staging_map(kind, attrs, context).complete)),)


def tell_incomplete_map_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, kind: str) -> Sequence[Any]:
    """The number of tuples with missing components, a scalar."""
    return (np.int32(len(_staging_map(kind, attrs, context).incomplete)),)


def clear_map(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, kind: str) -> Sequence[Any]:
    """Remove all tuples."""
    staging = _staging_map(kind, attrs, context)
    staging.complete.clear()
    staging.incomplete.clear()
    return ()


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_key_and_values(context: ShapeContext) -> Sequence[Dims]:
    # TensorFlow does not infer the key's shape, although it is a scalar
    return (None, *infer_unknown_outputs(context))


def stage_memory(memory: KernelMemory) -> None:
    """The staging area, which the node's attrs identify, holds the buffers until they are taken."""
    memory.keep(ITSELF, range(len(memory.inputs)))


def unstage_memory(memory: KernelMemory) -> None:
    """The outputs are the buffers of the oldest tuple."""
    memory.take(ITSELF, memory.store(ITSELF).oldest())


def peek_memory(memory: KernelMemory) -> None:
    """The outputs are the buffers of the tuple, which stays."""
    keys = list(memory.store(ITSELF).held)
    place = int(memory.value(0))
    if 0 <= place < len(keys):
        memory.take(ITSELF, keys[place], stays=True)


def clear_memory(memory: KernelMemory) -> None:
    """Release everything."""
    memory.store(ITSELF).clear()


def _on_map(kind: str, compute: Callable[..., Sequence[Any]], shape: ShapeFunction, may_wait: bool = True) -> Kernel:
    """Kernel of an op on a `Map` or an `OrderedMap`."""
    return Kernel(partial(compute, kind=kind), shape, needs_context=True, may_wait=may_wait)


TABLE: Table = {
    "Stage": Kernel(stage, no_outputs, needs_context=True, may_wait=True, memory=stage_memory),
    "Unstage": Kernel(unstage, infer_unknown_outputs, needs_context=True, may_wait=True, memory=unstage_memory),
    "StagePeek": Kernel(peek_stage, infer_unknown_outputs, needs_context=True, may_wait=True, memory=peek_memory),
    "StageSize": Kernel(tell_stage_size, scalar, needs_context=True),
    "StageClear": Kernel(clear_stage, no_outputs, needs_context=True, memory=clear_memory),
    "MapStage": _on_map("Map", put_in_map, no_outputs),
    "MapUnstage": _on_map("Map", take_from_map, infer_unknown_outputs),
    "MapPeek": _on_map("Map", partial(take_from_map, stays=True), infer_unknown_outputs),
    "MapUnstageNoKey": _on_map("Map", take_any_from_map, _infer_key_and_values),
    "MapSize": _on_map("Map", tell_map_size, scalar, may_wait=False),
    "MapIncompleteSize": _on_map("Map", tell_incomplete_map_size, scalar, may_wait=False),
    "MapClear": _on_map("Map", clear_map, no_outputs, may_wait=False),
    "OrderedMapStage": _on_map("OrderedMap", put_in_map, no_outputs),
    "OrderedMapUnstage": _on_map("OrderedMap", take_from_map, infer_unknown_outputs),
    "OrderedMapPeek": _on_map("OrderedMap", partial(take_from_map, stays=True), infer_unknown_outputs),
    "OrderedMapUnstageNoKey": _on_map("OrderedMap", take_any_from_map, _infer_key_and_values),
    "OrderedMapSize": _on_map("OrderedMap", tell_map_size, scalar, may_wait=False),
    "OrderedMapIncompleteSize": _on_map("OrderedMap", tell_incomplete_map_size, scalar, may_wait=False),
    "OrderedMapClear": _on_map("OrderedMap", clear_map, no_outputs, may_wait=False),
}
