"""Ragged tensors joined along a dimension, and values that a mask selects, in rows of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ragged.computing import gather, map_flat_values, reduce
from placesim.tf1.ragged.ragged_tensor import RaggedLike, RaggedTensor, segment_ids_of
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")


def concat(values: Any, axis: int, name: str | None = None) -> Any:
    """`tf.concat` of ragged tensors, or of ragged tensors and tensors.  Raises ValueError."""
    values = values if isinstance(values, list | tuple) else [values]
    with tf.name_scope(name, "RaggedConcat"):
        return _joined(values, axis, False)


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """`tf.ragged.stack`: a ragged tensor of a rank higher by one; tensors may have different sizes.  Raises ValueError."""
    with tf.name_scope(name, "RaggedConcat"):
        return _joined(values, axis, True)


def _joined(values: Sequence[Any], axis: int, is_stack: bool) -> Any:
    if not values:
        raise ValueError("rt_inputs may not be empty.")
    parts = [value if isinstance(value, RaggedTensor) else tf.convert_to_tensor(value, name="rt_input") for value in values]
    dtype = _splits_dtype(parts)
    if len(parts) == 1 and not is_stack:
        return parts[0]
    rank = parts[0].shape.ndims
    for part in parts[1:]:
        if rank is None:
            rank = part.shape.ndims
        else:
            part.shape.assert_has_rank(rank)
    axis = _positive(axis, rank if rank is None or not is_stack else rank + 1)
    if is_stack and rank == 1 and axis == 0:
        rows = tf.concat(parts, axis=0)
        return RaggedTensor.from_row_lengths(rows, tf.concat([tf.shape(part) for part in parts], axis=0))
    if (
        not any(isinstance(part, RaggedTensor) for part in parts)
        and rank is not None
        and axis in (rank - 1, rank - 1 + is_stack)
    ):
        return (tf.stack if is_stack else tf.concat)(parts, axis)
    parts = [_ragged(part, 1, dtype) for part in parts]
    ragged_rank = max(part.ragged_rank for part in parts)
    parts = [_ragged(part, ragged_rank, dtype) for part in parts]
    if axis == 0:
        return _rows_below(parts, is_stack)
    if axis == 1:
        return _rows_beside(parts, is_stack)
    splits = [(part.row_splits,) for part in parts]
    with tf.control_dependencies(_equal_splits(splits)):
        inner = _joined([part.values for part in parts], axis - 1, is_stack)
        return RaggedTensor.from_row_splits(inner, splits[0][0], validate=False)


def _positive(axis: int, rank: int | None) -> int:
    if rank is None:
        if axis < 0:
            raise ValueError(f"axis={axis} may only be negative if ndims is statically known.")
        return axis
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    return axis % rank


def _splits_dtype(parts: Sequence[Any]) -> Any:
    """The type of the row splits.  Raises ValueError for two types."""
    found = {part.row_splits.dtype for part in parts if isinstance(part, RaggedTensor)}
    if len(found) > 1:
        raise ValueError(
            "Input RaggedTensors have mismatched row_splits dtypes; use RaggedTensor.with_row_splits_dtype() to convert them "
            "to compatible dtypes."
        )
    return found.pop() if found else dtypes.int64


def _ragged(part: Any, ragged_rank: int, dtype: Any) -> Any:
    """The part with as many ragged dimensions."""
    if not isinstance(part, RaggedTensor):
        part = RaggedTensor.from_tensor(part, row_splits_dtype=dtype)
    if part.ragged_rank < ragged_rank:
        part = part.with_values(_ragged(part.values, ragged_rank - 1, dtype))
    return part


def _equal_splits(splits: Sequence[Sequence[Any]]) -> list[Any]:
    """Ops that fail for different row splits."""
    message = "Inputs must have identical ragged splits"
    if any(len(own) != len(splits[0]) for own in splits):
        raise ValueError(message)
    pairs = [(first, one) for own in splits[1:] for first, one in zip(splits[0], own, strict=True)]
    return [tf.assert_equal(first, one, message=message) for first, one in pairs]


def _rows_below(parts: list[Any], is_stack: bool = False) -> Any:
    """The rows of all parts, one part after the other."""
    values = tf.concat([part.flat_values for part in parts], axis=0)
    nested = [part.nested_row_splits for part in parts]
    splits = [_splits_below([own[depth] for own in nested]) for depth in range(parts[0].ragged_rank)]
    if is_stack:
        splits.insert(0, _splits_of(tf.stack([part.nrows() for part in parts])))
    return RaggedTensor.from_nested_row_splits(values, splits, validate=False)


def _splits_below(splits: list[Any]) -> Any:
    first, *others = splits
    pieces, offset = [first], first[-1]
    for one in others:
        pieces.append(one[1:] + offset)
        offset += one[-1]
    return tf.concat(pieces, axis=0)


def _splits_of(lengths: Any) -> Any:
    return tf.concat([[0], tf.cumsum(lengths)], axis=-1)


def _rows_beside(parts: list[Any], is_stack: bool) -> Any:
    """Each row of the first part with the same row of the others."""
    count, rows = len(parts), parts[0].nrows()
    checks = []
    for place, part in enumerate(parts[1:], 1):
        message = f"Input tensors at index 0 (=x) and {place} (=y) have incompatible shapes."
        checks.append(tf.assert_equal(rows, part.nrows(), message=message))
    with tf.control_dependencies(checks):
        below = _rows_below(parts)
        places = tf.transpose(tf.reshape(tf.range(rows * count), [count, -1]))
        mixed = gather(below, tf.reshape(places, [-1]))
        splits = tf.range(0, rows * count + 1, count) if is_stack else mixed.row_splits[::count]
        for part in parts:
            if (size := part.shape.as_list()[0]) is not None:
                splits.set_shape(TensorShape([size + 1]))
        return RaggedTensor.from_row_splits(mixed if is_stack else mixed.values, splits, validate=False)


def boolean_mask(data: RaggedLike, mask: RaggedLike, name: str | None = None) -> Any:
    """`tf.ragged.boolean_mask`: the values where `mask` is true, in the mask's rows.  Raises ValueError for a scalar mask."""
    with tf.name_scope(name, "RaggedMask"):
        found: Any = data if isinstance(data, RaggedTensor) else tf.convert_to_tensor(data, name="data")
        wanted: Any = mask if isinstance(mask, RaggedTensor) else tf.convert_to_tensor(mask, tf.bool, name="mask")
        dtype, rank = _splits_dtype([found, wanted]), wanted.shape.ndims
        if rank is None:
            raise ValueError("mask.shape.ndims must be known statically.")
        if not rank:
            raise ValueError("mask cannot be scalar.")
        if isinstance(wanted, RaggedTensor):
            return _masked_by_rows(found, wanted, dtype)
        if not isinstance(found, RaggedTensor):
            return _masked_tensor(found, wanted, dtype)
        if rank > 1:
            return boolean_mask(found, RaggedTensor.from_tensor(wanted, row_splits_dtype=found.row_splits.dtype))
        splits = _splits_of(tf.boolean_mask(found.row_lengths(), wanted))
        is_kept = tf.gather(wanted, segment_ids_of(found.row_splits))
        return RaggedTensor.from_row_splits(boolean_mask(found.values, is_kept), splits, validate=False)


def _masked_by_rows(data: Any, mask: Any, dtype: Any) -> Any:
    if not isinstance(data, RaggedTensor):
        data = RaggedTensor.from_tensor(data, ragged_rank=mask.ragged_rank, row_splits_dtype=dtype)
    with tf.control_dependencies(_equal_splits([mask.nested_row_splits, data.nested_row_splits[: mask.ragged_rank]])):
        splits = []
        while isinstance(mask, RaggedTensor):
            if mask.shape.ndims > 2:
                splits.append(mask.row_splits)
            else:
                splits.append(_splits_of(reduce("Sum", map_flat_values(tf.cast, mask, dtype=dtype), 1, False, None)))
            mask, data = mask.values, data.values
        return RaggedTensor.from_nested_row_splits(boolean_mask(data, mask), splits, validate=False)


def _masked_tensor(data: Any, mask: Any, dtype: Any) -> Any:
    found = tf.boolean_mask(data, mask)
    rank = mask.shape.ndims
    if rank >= 2:
        lengths = tf.reshape(tf.count_nonzero(mask, axis=-1, dtype=dtype), [-1])
        found = RaggedTensor.from_row_lengths(found, lengths, validate=False)
    if rank > 2:
        sizes = tf.shape(mask, out_type=dtype)
        counts = tf.cumprod(sizes) + 1
        for axis in range(rank - 3, -1, -1):
            size = sizes[axis + 1]
            found = RaggedTensor.from_row_splits(found, tf.range(counts[axis]) * size, validate=False)
    return found


def stack_dynamic_partitions(
    data: RaggedLike, partitions: RaggedLike, num_partitions: TensorLike, name: str | None = None
) -> Any:
    """`tf.ragged.stack_dynamic_partitions`: a row of data for each partition.  Raises ValueError."""
    with tf.name_scope(name, "SegmentStack"):
        found: Any = data if isinstance(data, RaggedTensor) else tf.convert_to_tensor(data, name="data")
        dtype = found.row_splits.dtype if isinstance(found, RaggedTensor) else None
        places: Any = partitions
        if not isinstance(places, RaggedTensor):
            places = tf.convert_to_tensor(places, name="partitions", preferred_dtype=dtype)
        count = tf.convert_to_tensor(num_partitions, name="num_partitions", preferred_dtype=places.dtype)
        if dtype is not None:
            places = tf.cast(places, dtype)
        count = tf.cast(count, places.dtype)
        rank = places.shape.ndims
        if rank is None:
            raise ValueError("partitions must have known rank.")
        count.shape.assert_has_rank(0)
        places.shape.assert_is_compatible_with(found.shape[:rank])
        if rank == 0:
            return RaggedTensor.from_value_rowids(tf.stack([found]), tf.stack([places]), count, validate=False)
        if rank == 1:
            return _sorted_by(found, places, count)
        if not isinstance(found, RaggedTensor):
            found = RaggedTensor.from_tensor(found, row_splits_dtype=places.dtype)
        if not isinstance(places, RaggedTensor):
            places = RaggedTensor.from_tensor(
                places, row_splits_dtype=places.dtype, ragged_rank=max(found.ragged_rank, rank - 1)
            )
        message = "data and partitions have incompatible ragged shapes"
        with tf.control_dependencies([tf.assert_equal(found.row_splits, places.row_splits, message=message)]):
            return stack_dynamic_partitions(found.values, places.values, count)


def _sorted_by(data: Any, partitions: Tensor, count: Tensor) -> Any:
    order = tf.argsort(partitions, stable=True)
    rowids = tf.gather(partitions, order)
    values = tf.gather(data, order)
    checks = [
        tf.assert_less(rowids[-1:], count, message="partitions must be less than num_partitions"),
        tf.assert_non_negative(partitions, message="partitions must be non-negative."),
    ]
    with tf.control_dependencies(checks):
        return RaggedTensor.from_value_rowids(values, rowids, count, validate=False)
