"""Ops that combine the replicas' values: `tf.distribute.CrossDeviceOps`.

The graph is TensorFlow's in graph mode: a sum on one device and copies of it, or collectives on all devices.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distribute.values import DistributedValues, Mirrored, regroup
from placesim.tf1.gradients.aggregation import sum_slices
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

_FIRST_INSTANCE = 100
"""Instance key of a group's first collective."""


class ReduceOp(enum.Enum):
    """`tf.distribute.ReduceOp`."""

    SUM = "SUM"
    MEAN = "MEAN"


def as_reduce_op(value: Any) -> ReduceOp:
    """The reduction of a name or a ReduceOp.  Raises ValueError for another value."""
    return ReduceOp(value.upper()) if isinstance(value, str) else ReduceOp(value)


class CrossDeviceOps:
    """Base class of ways to combine the replicas' values."""

    def reduce(self, reduce_op: ReduceOp, value: DistributedValues, devices: Sequence[str]) -> Any:
        """Sum or mean of the components of `value`, on each of the devices."""
        parts = value.values
        if len(parts) == 1 and set(devices) == {parts[0].device}:
            return regroup([copy_to(parts[0].device, parts[0])], Mirrored)
        return self._reduce_parts(reduce_op, parts, devices)

    def batch_reduce(self, reduce_op: ReduceOp, pairs: Sequence[tuple[Any, Sequence[str]]]) -> list[Any]:
        """`reduce` of each value to its devices. A value with one component that is already there is unchanged."""
        if all(len(value.values) == 1 and value.devices == tuple(devices) for value, devices in pairs):
            return [regroup(value.values, Mirrored) for value, _ in pairs]
        return self._batch_reduce(reduce_op, pairs)

    def _batch_reduce(self, reduce_op: ReduceOp, pairs: Sequence[tuple[Any, Sequence[str]]]) -> list[Any]:
        """`reduce` of each value; subclasses may combine several values at once."""
        return [self.reduce(reduce_op, value, devices) for value, devices in pairs]

    def _reduce_parts(self, reduce_op: ReduceOp, parts: Sequence[Any], devices: Sequence[str]) -> Any:
        """Sum or mean of the replicas' components, on each of the devices."""
        raise NotImplementedError


class ReductionToOneDevice(CrossDeviceOps):
    """Combines the values on one device, by default the first of the destination, and copies the result."""

    def __init__(self, reduce_to_device: str | None = None, accumulation_fn: Callable[..., Any] | None = None) -> None:
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn or tf.add_n

    def _reduce_parts(self, reduce_op: ReduceOp, parts: Sequence[Any], devices: Sequence[str]) -> Any:
        with tf.device(self.reduce_to_device or devices[0]):
            is_sparse = any(isinstance(part, IndexedSlices) for part in parts)
            total = sum_slices(parts) if is_sparse else self.accumulation_fn(list(parts))
            if reduce_op is ReduceOp.MEAN:
                total = _divided(total, len(parts))
        return broadcast(total, devices)


class CollectiveAllReduce(CrossDeviceOps):
    """Combines the values with collective ops, one on each device; several values are packed into one tensor."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = tuple(devices)
        self._next_instance = _FIRST_INSTANCE

    def _batch_reduce(self, reduce_op: ReduceOp, pairs: Sequence[tuple[Any, Sequence[str]]]) -> list[Any]:
        if any(set(devices) != set(self._devices) for _, devices in pairs):
            return super()._batch_reduce(reduce_op, pairs)
        return self._all_reduce(reduce_op, [value.values for value, _ in pairs])

    def _reduce_parts(self, reduce_op: ReduceOp, parts: Sequence[Any], devices: Sequence[str]) -> Any:
        found = self._all_reduce(reduce_op, [parts])[0]
        if set(devices) == {part.device for part in parts}:
            return found
        own = {value.device: value for value in found.values}
        with tf.control_dependencies(found.values):
            return regroup([copy_to(device, own.get(device, found.values[0])) for device in devices], Mirrored)

    def _all_reduce(self, reduce_op: ReduceOp, values: Sequence[Sequence[Any]]) -> list[Any]:
        if any(isinstance(part, IndexedSlices) for parts in values for part in parts):
            other = "with cross_device_ops=tf.distribute.ReductionToOneDevice() it is"
            raise not_there("distribute.MirroredStrategy of IndexedSlices on GPUs", other)
        # one value is no NCCL batch, and TensorFlow leaves it to its own ring
        hint = "nccl" if len(values) > 1 else "ring"
        key, self._next_instance = self._next_instance, self._next_instance + 1
        on_devices = [
            self._packed(reduce_op, [parts[number] for parts in values], device, key, hint)
            for number, device in enumerate(self._devices)
        ]
        return [regroup(parts, Mirrored) for parts in zip(*on_devices, strict=True)]

    def _packed(self, reduce_op: ReduceOp, values: list[Any], device: str, key: int, hint: str) -> list[Any]:
        """The reduced values of one device, from one collective.

        Values are packed from last to first, since the last gradient is ready first.
        """
        values = values[::-1]
        with tf.device(device):
            flat = [tf.reshape(value, [-1]) for value in values]
            shapes = [tf.shape(value) for value in values]
            total = gen("CollectiveReduceV2")(
                tf.concat(flat, axis=0),
                len(self._devices),
                1,
                key,
                [],
                merge_op="Add",
                final_op="Id",
                communication_hint=hint,
                timeout_seconds=0.0,
            )
            sizes = [tf.reduce_prod(shape) for shape in shapes]
            parts = tf.split(total, sizes, axis=0)
            found = [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
            if reduce_op is ReduceOp.MEAN:
                found = [value / len(self._devices) for value in found]
        return found[::-1]


def broadcast(value: Any, devices: Sequence[str]) -> Any:
    """Copies of a value on the devices."""
    copies = [copy_to(device, value) for device in devices]
    return copies[0] if len(copies) == 1 else regroup(copies, Mirrored)


def copy_to(device: str, value: Any) -> Any:
    """A copy of a tensor, a variable's value or IndexedSlices on a device."""
    with tf.device(device):
        if not isinstance(value, IndexedSlices):
            return tf.identity(value)
        values, indices = tf.identity(value.values), tf.identity(value.indices)
        return IndexedSlices(values, indices, None if value.dense_shape is None else tf.identity(value.dense_shape))


def _divided(value: Any, count: int) -> Any:
    if not isinstance(value, IndexedSlices):
        return value / count
    return IndexedSlices(value.values / count, value.indices, value.dense_shape)
