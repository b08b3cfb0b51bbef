"""Partitioned variables and partitioners."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.conversion import register_tensor_conversion_function
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.shapes import TensorShape


class PartitionInfo(NamedTuple):
    """Shape of the whole variable, and offset of a shard, for the shard's initializer."""

    full_shape: list[int]
    var_offset: list[int]


def partition(partitioner: Callable[..., Any], shape: TensorShape, dtype: DTypeLike) -> list[int]:
    """Number of shards along each axis, as the partitioner returns it.  Raises ValueError for an invalid result."""
    if not shape.is_fully_defined():
        text = "<unknown>" if shape.rank is None else str(shape)
        raise ValueError(f"Shape of a new partitioned variable must be fully defined, but instead was {text}.")
    if shape.rank is None or shape.rank < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1: {shape}")
    parts = partitioner(shape=shape, dtype=dtype)
    if not isinstance(parts, Sequence):
        raise ValueError(f"Partitioner must return a sequence, but saw: {parts}")
    if len(parts) != shape.rank:
        ranks = f"the Variable's rank: {parts} vs. {shape}"
        raise ValueError(f"Partitioner returned a partition list that does not match {ranks}")
    if any(part < 1 for part in parts):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {parts}")
    if sum(part > 1 for part in parts) > 1:
        raise ValueError(f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {parts}")
    return list(parts)


def _split_axis(parts: Sequence[int]) -> int:
    """The axis that is split, 0 if none is."""
    return next((i for i, part in enumerate(parts) if part > 1), 0)


def slices(shape: list[int], parts: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Offset and shape of each shard.  If the size is not divisible, the first shards are larger by one."""
    axis = _split_axis(parts)
    size, extra = divmod(shape[axis], parts[axis])
    offset = [0] * len(shape)
    for i in range(parts[axis]):
        shard = list(shape)
        shard[axis] = size + (i < extra)
        if offset[axis] >= shape[axis]:
            at = f"offset={offset[axis]}, shape={shape[axis]} for var_offset={offset}, full_shape={shape}"
            raise ValueError(f"Expected 0 <= offset < shape but found {at}")
        yield list(offset), shard
        offset[axis] += shard[axis]


class PartitionedVariable:
    """The shards of one variable.  Each use as a tensor makes a new concatenation of them."""

    def __init__(
        self, name: str, shape: ShapeLike, dtype: DType, variable_list: Sequence[Any], partitions: Sequence[int]
    ) -> None:
        self.name, self.dtype = name, dtype
        self._shape, self._partitions = TensorShape(shape), list(partitions)
        self._shards = sorted(variable_list, key=lambda shard: shard._get_save_slice_info().var_offset)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        return self._shape

    def _get_variable_list(self) -> list[Any]:
        return self._shards

    def _get_partitions(self) -> list[int]:
        return self._partitions

    @property
    def _axis(self) -> int:
        return _split_axis(self._partitions)

    def as_tensor(self) -> Any:
        """The whole value, outside of the current control dependencies."""
        with tf.control_dependencies(None):
            whole = self._shards[0]
            if len(self._shards) > 1:
                with tf.name_scope(self.name + "/ConcatPartitions/"):
                    whole = tf.concat(self._shards, self._axis)
            with tf.name_scope(None):
                return tf.identity(whole, name=self.name)

    def assign(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        return self._each("assign", value, use_locking, name, read_value)

    def assign_add(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        return self._each("assign_add", value, use_locking, name, read_value)

    def assign_sub(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        return self._each("assign_sub", value, use_locking, name, read_value)

    def _each(self, method: str, value: TensorLike, use_locking: bool, name: str | None, read_value: bool) -> list[Any]:
        """Change each shard by its part of a value, or by its entry of a list of values."""
        if isinstance(value, (list, PartitionedVariable)):
            values = list(value)
        else:
            axis = self._axis
            values = tf.split(value, [shard.shape[axis].value for shard in self._shards], axis=axis)
        return [
            getattr(shard, method)(part, use_locking=use_locking, name=name, read_value=read_value)
            for shard, part in zip(self._shards, values, strict=True)
        ]


def _convert(variable: PartitionedVariable, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        asked = f"requested to type '{dtype.name}' for variable of type '{variable.dtype.name}'"
        raise ValueError(f"Incompatible type conversion {asked}")
    if as_ref:
        raise NotImplementedError("PartitionedVariable doesn't support being used as a reference.")
    return variable.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _convert)


# --- partitioners ---------------------------------------------------------------------------------------------------


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Callable[..., list[int]]:
    """`num_shards` shards along an axis, at most one per element."""

    def partitioner(shape: Any, **_: object) -> list[int]:
        return _along(shape, axis, min(num_shards, shape.as_list()[axis]))

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Callable[..., list[int]]:
    """Fewest shards along an axis with at most `max_shard_bytes` each; a larger row is a shard alone.  Raises ValueError."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError(
            "Both max_shard_bytes and bytes_per_string_element must be positive. Currently, max_shard_bytes is "
            f"{max_shard_bytes} andbytes_per_string_element is {bytes_per_string_element}"
        )
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: TensorShape, dtype: DType) -> list[int]:
        size = shape[axis].value
        element = bytes_per_string_element if dtype.base_dtype == tf.string else dtype.size
        row = max((shape.num_elements() // size) * element, 1.0)
        rows = max(1.0, math.floor(1.0 * max_shard_bytes / row))
        shards = math.ceil(1.0 * size / rows)
        return _along(shape, axis, min(max_shards, shards) if max_shards else shards)

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Callable[..., list[int]]:
    """Up to `max_partitions` shards along an axis: as many as have at least `min_slice_size` bytes each."""

    def partitioner(shape: Any, dtype: DType) -> list[int]:
        element = bytes_per_string_element if dtype.base_dtype == tf.string else dtype.size
        count = max(1, shape.num_elements() * element // min_slice_size)
        return _along(shape, axis, min(max_partitions, shape[axis].value, int(count)))

    return partitioner


def _along(shape: TensorShape, axis: int, count: int) -> list[int]:
    parts = [1] * len(shape)
    parts[axis] = count
    return parts


def create_partitioned_variables(
    shape: Any,
    slicing: Sequence[int],
    initializer: object,
    dtype: DTypeLike | None = None,
    trainable: bool = True,
    collections: object = None,
    name: str | None = None,
    reuse: object = None,
) -> list[Any]:
    """Shards of a new partitioned variable, made in its own variable scope."""
    if len(shape) != len(slicing):
        lengths = f"must have the length: shape: {shape}, slicing: {slicing}"
        raise ValueError(f"The 'shape' and 'slicing' of a partitioned Variable {lengths}")
    with tf.variable_scope(name, "PartitionedVariable", reuse=reuse):
        variable = tf.get_variable(
            None,
            shape,
            tf.float32 if dtype is None else dtype,
            initializer,
            trainable=trainable,
            partitioner=lambda **_: list(slicing),
            collections=collections,
        )
        return list(variable)
