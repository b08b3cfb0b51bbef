"""`tf.distribute.NcclAllReduce` and `HierarchicalCopyAllReduce`: all values of a device are packed, and the packs reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.distribute.reductions import CrossDeviceOps, ReduceOp, ReductionToOneDevice, copy_to
from placesim.tf1.distribute.values import Mirrored, PerReplica, regroup
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices


class _Packs(NamedTuple):
    """The packs of a device's values, and the values' shapes and sizes."""

    tensors: Sequence[Any]
    shapes: Sequence[Any]
    sizes: Sequence[Any]


class AllReduceCrossDeviceOps(CrossDeviceOps):
    """Base class; values that are not on all devices, and IndexedSlices, are combined on one device."""

    _title: str

    def __init__(self, num_packs: int = 1) -> None:
        """Raise ValueError for a negative number of packs; 0 reduces each value alone."""
        if num_packs < 0:
            raise ValueError(f"{self._title} requires num_packs >= 0, but {num_packs} is specified")
        self._num_packs = num_packs

    def _reduce_packs(self, packs: Sequence[Any], number: int) -> list[Any]:
        """The sum of the devices' packs, on each device; `number` counts the packs of a device."""
        raise NotImplementedError

    def _reduce_parts(self, reduce_op: ReduceOp, parts: Sequence[Any], devices: Sequence[str]) -> Any:
        if set(devices) != {part.device for part in parts} or any("CPU" in device for device in devices):
            return ReductionToOneDevice()._reduce_parts(reduce_op, parts, devices)
        return self._all_reduce(reduce_op, [parts])[0]

    def _batch_reduce(self, reduce_op: ReduceOp, pairs: Sequence[tuple[Any, Sequence[str]]]) -> list[Any]:
        first = set(pairs[0][0].devices)
        if any(set(value.devices) != first or set(devices) != first for value, devices in pairs):
            return super()._batch_reduce(reduce_op, pairs)
        return self._all_reduce(reduce_op, [value.values for value, _ in pairs])

    def _all_reduce(self, reduce_op: ReduceOp, values: Sequence[Sequence[Any]]) -> list[Any]:
        is_sparse = [any(isinstance(part, IndexedSlices) for part in parts) for parts in values]
        dense = [parts for parts, sparse in zip(values, is_sparse, strict=True) if not sparse]
        found = iter(self._reduce_dense(reduce_op, dense) if dense else [])
        reduced: list[Any] = [None if sparse else next(found) for sparse in is_sparse]
        for number, parts in enumerate(values):
            if is_sparse[number]:
                value = PerReplica(parts)
                reduced[number] = ReductionToOneDevice().reduce(reduce_op, value, value.devices)
        return reduced

    def _reduce_dense(self, reduce_op: ReduceOp, values: Sequence[Sequence[Any]]) -> list[Any]:
        by_device = list(zip(*values, strict=True))
        if self._num_packs:
            packed = [_packed(own, self._num_packs) for own in by_device]
            packs = zip(*(each.tensors for each in packed), strict=True)
        else:
            packed, packs = [], zip(*by_device, strict=True)
        sums: list[Sequence[Any]] = list(
            zip(*(self._reduce_packs(pack, number) for number, pack in enumerate(packs)), strict=True)
        )
        if packed:
            sums = [_unpacked(own, each) for own, each in zip(sums, packed, strict=True)]
        if reduce_op is ReduceOp.MEAN:
            sums = [[_divided(value, len(sums)) for value in own] for own in sums]
        return [regroup(parts, Mirrored) for parts in zip(*sums, strict=True)]


def _packed(values: Sequence[Any], count: int) -> _Packs:
    with tf.colocate_with(values[0]):
        flat = [tf.reshape(value, [-1]) for value in values]
        shapes = [tf.shape(value) for value in values]
        sizes = [tf.size(value) for value in values]
        joined = tf.concat(flat, 0)
        is_known = all(value.shape.is_fully_defined() for value in values)
        total = sum(value.shape.num_elements() for value in values) if is_known else tf.size(joined)
        size = total // count
        last = total - size * (count - 1)
        return _Packs(tf.split(joined, [size] * (count - 1) + [last]), shapes, sizes)


def _unpacked(packs: Sequence[Any], of: _Packs) -> Any:
    with tf.colocate_with(packs[0]):
        parts = tf.split(tf.concat(list(packs), 0), list(of.sizes))
        return [tf.reshape(part, shape) for part, shape in zip(parts, of.shapes, strict=True)]


def _divided(value: Any, count: int) -> Any:
    with tf.device(value.device):
        return value / count


class NcclAllReduce(AllReduceCrossDeviceOps):
    """Reduces packs with NCCL's ops."""

    _title = "NCCL all-reduce"

    def _reduce_packs(self, packs: Sequence[Any], number: int) -> list[Any]:
        graph = tf.get_default_graph()
        count = graph.nccl_reductions = getattr(graph, "nccl_reductions", -1) + 1
        sums = []
        for pack in packs:
            with tf.device(pack.device):
                attrs = {"reduction": "sum", "num_devices": len(packs), "shared_name": f"c{count}"}
                sums.append(gen("NcclAllReduce")(pack, **attrs))
        return sums


class HierarchicalCopyAllReduce(AllReduceCrossDeviceOps):
    """Reduces packs in two groups of devices, then both sums, and copies the result back along the groups."""

    _title = "HierarchicalCopy"

    def _reduce_packs(self, packs: Sequence[Any], number: int) -> list[Any]:
        devices, half = [pack.device for pack in packs], len(packs) // 2
        mains = number % len(packs), (number % len(packs) + half) % len(packs)
        first_is_low = mains[0] < half
        begins = (0, half) if first_is_low else (half, 0)
        sums = []
        for main, begin in zip(mains, begins, strict=True):
            with tf.device(devices[main]):
                sums.append(tf.add_n(list(packs[begin : begin + half])))
        with tf.device(devices[mains[0]]):
            total = tf.add_n(sums)
        copies = [copy_to(devices[main], total) for main in mains]
        return [
            copy_to(device, copies[0 if first_is_low == (position < half) else 1]) for position, device in enumerate(devices)
        ]
