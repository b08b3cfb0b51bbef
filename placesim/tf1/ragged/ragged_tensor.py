"""`tf.RaggedTensor`: values in rows of different lengths, of which `row_splits` has the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")

RaggedLike: TypeAlias = "RaggedTensor | TensorLike"
"""Values of rows: a ragged tensor, or an argument of `convert_to_tensor`."""

# --- row partitions ---


class RowPartition(NamedTuple):
    """Limits of rows, and other descriptions of the rows, as far as they are tensors already."""

    row_splits: Tensor
    lengths: Tensor | None = None
    rowids: Tensor | None = None
    count: Any = None
    uniform_length: int | None = None

    def after(self, checks: list[Any]) -> RowPartition:
        """The partition, once these checks have passed."""
        return self._replace(row_splits=with_dependencies(checks, self.row_splits))

    def with_dtype(self, dtype: DTypeLike) -> RowPartition:
        known = ("row_splits", "lengths", "rowids", "count")
        tensors = {name: part for name in known if isinstance(part := getattr(self, name), Tensor)}
        return self._replace(**{name: tf.cast(part, dtype) for name, part in tensors.items()})

    def merged(self, other: RowPartition) -> RowPartition:
        """The partition, once its rows are those of the other one.  Raises ValueError for other numbers of rows."""
        if self is other:
            return self
        return self._replace(
            count=_checked("nrows", self.count, other.count),
            row_splits=_checked("row_splits", self.row_splits, other.row_splits),
        )

    def row_lengths(self) -> Any:
        return self.row_splits[1:] - self.row_splits[:-1] if self.lengths is None else self.lengths

    def value_rowids(self) -> Any:
        return segment_ids_of(self.row_splits) if self.rowids is None else self.rowids

    def nrows(self) -> Any:
        if self.count is not None:
            return self.count
        splits = self.row_splits.shape.as_list()[0]
        if splits is None:
            return tf.shape(self.row_splits, out_type=self.row_splits.dtype)[0] - 1
        return tf.constant(splits - 1, dtype=self.row_splits.dtype)


def _checked(part: str, own: Any, other: Any) -> Any:
    if own is None or other is None or own is other:
        return other if own is None else own
    message = f"RowPartition._merge_precomputed_encodings: partitions have incompatible {part}"
    if not own.shape.is_compatible_with(other.shape):
        raise ValueError(message)
    return with_dependencies([tf.debugging.assert_equal(own, other, message=message)], own)


def _converted(partition: TensorLike, name: str) -> Any:
    preferred = None if isinstance(partition, np.ndarray) and partition.dtype == np.int32 else tf.int64
    found = tf.convert_to_tensor(partition, preferred_dtype=preferred, name=name)
    if found.dtype not in (tf.int32, tf.int64):
        raise ValueError(f"{name} must have dtype int32 or int64")
    if found.shape.rank not in (1, None):
        raise ValueError(f"Shape {found.shape} must have rank 1")
    return found


def _rise(tensor: Tensor, message: str) -> Any:
    return tf.debugging.assert_non_negative(tensor[1:] - tensor[:-1], message=message)


def _zero(tensor: Tensor, message: str) -> Any:
    return tf.debugging.assert_equal(tensor, tf.constant(0, dtype=tensor.dtype), message=message)


def _of_splits(given: TensorLike, validate: bool) -> RowPartition:
    splits = _converted(given, "row_splits")
    if validate:
        message = "Arguments to from_row_splits do not form a valid RaggedTensor:"
        checks = [
            tf.debugging.assert_rank(splits, 1, message=f"{message}rank"),
            _zero(splits[0], f"{message}zero"),
            _rise(splits, f"{message}monotonic"),
        ]
        splits = with_dependencies(checks, splits)
    return RowPartition(splits)


def _of_lengths(given: TensorLike, validate: bool) -> RowPartition:
    lengths = _converted(given, "row_lengths")
    if validate:
        message = "Arguments to from_row_lengths do not form a valid RowPartition"
        checks = [
            tf.debugging.assert_rank(lengths, 1, message=message),
            tf.debugging.assert_non_negative(lengths, message=message),
        ]
        lengths = with_dependencies(checks, lengths)
    return RowPartition(tf.concat([[0], tf.cumsum(lengths)], axis=0), lengths)


def _of_rowids(given: TensorLike, validate: bool, nrows: TensorLike | None) -> RowPartition:
    rowids = _converted(given, "value_rowids")
    known = tf.get_static_value(rowids)
    if nrows is not None:
        count = tf.convert_to_tensor(nrows, rowids.dtype, "nrows")
        static = tf.get_static_value(count)
    elif known is None:
        count, static = tf.concat([rowids[-1:], [-1]], axis=0)[0] + 1, None
    else:
        static = known[-1] + 1 if known.size else 0
        count = tf.convert_to_tensor(static, rowids.dtype, name="nrows")
    if static is not None and static < 0:
        raise ValueError(f"Expected nrows >= 0; got {static}")
    if nrows is not None and static is not None and known is not None and known.size and static <= known[-1]:
        raise ValueError(f"Expected nrows >= value_rowids[-1] + 1; got nrows={static}, value_rowids[-1]={known[-1]}")
    if validate:
        message = "Arguments to from_value_rowids do not form a valid RowPartition"
        checks = [
            tf.debugging.assert_rank(rowids, 1, message=message),
            tf.debugging.assert_rank(count, 0, message=message),
            tf.debugging.assert_non_negative(rowids[:1], message=message),
            _rise(rowids, message),
            tf.debugging.assert_less(rowids[-1:], count, message=message),
        ]
        rowids = with_dependencies(checks, rowids)
    narrow, most = tf.cast(rowids, tf.int32), tf.cast(count, tf.int32)
    lengths = tf.math.bincount(narrow, minlength=most, maxlength=most, dtype=rowids.dtype)
    splits = tf.concat([[0], tf.cumsum(lengths)], axis=0)
    if static is not None:
        lengths.set_shape([static])
        splits.set_shape([static + 1])
    return RowPartition(splits, lengths, rowids, count)


def _of_starts(given: TensorLike, validate: bool, count: TensorLike) -> RowPartition:
    starts = _converted(given, "row_starts")
    count = tf.cast(count, starts.dtype)
    if validate:
        message = "Arguments to from_row_starts do not form a valid RaggedTensor"
        checks = [
            tf.debugging.assert_rank(starts, 1, message=message),
            _zero(starts[:1], message),
            _rise(starts, message),
            tf.debugging.assert_less_equal(starts[-1:], count, message=message),
        ]
        starts = with_dependencies(checks, starts)
    return RowPartition(tf.concat([starts, [count]], axis=0))


def _of_limits(given: TensorLike, validate: bool) -> RowPartition:
    limits = _converted(given, "row_limits")
    if validate:
        message = "Arguments to from_row_limits do not form a valid RaggedTensor"
        checks = [
            tf.debugging.assert_rank(limits, 1, message=message),
            tf.debugging.assert_non_negative(limits[:1], message=message),
            _rise(limits, message),
        ]
        limits = with_dependencies(checks, limits)
    return RowPartition(tf.concat([tf.zeros([1], limits.dtype), limits], axis=0))


def _of_uniform_length(length: Tensor, count: Tensor) -> RowPartition:
    with tf.name_scope("RowPartitionFromUniformRowLength"):
        wide, rows = tf.get_static_value(length), tf.get_static_value(count)
        if wide is None or rows is None:
            return RowPartition(tf.range(count + 1, dtype=length.dtype) * length, None, None, count, wide and int(wide))
        splits = tf.constant([row * wide for row in range(rows + 1)], length.dtype)
        return RowPartition(splits, None, None, count, int(wide))


def segment_ids_of(splits: TensorLike, name: str | None = None, out_type: DTypeLike | None = None) -> Any:
    """`tf.ragged.row_splits_to_segment_ids`: the row number of each value.

    Raises ValueError unless the row splits are a vector of integers.
    """
    with tf.name_scope(name, "RaggedSplitsToSegmentIds"):
        found = tf.convert_to_tensor(splits, preferred_dtype=tf.int64, name="splits")
        if found.dtype not in (tf.int32, tf.int64):
            raise ValueError("splits must have dtype int32 or int64")
        found.shape.assert_has_rank(1)
        if found.shape.as_list()[0] == 0:
            raise ValueError("Invalid row_splits: []")
        lengths = found[1:] - found[:-1]
        count = tf.shape(found, out_type=out_type or found.dtype)[-1] - 1
        return tf.repeat(tf.range(count), repeats=lengths, axis=0)


def splits_of(
    segment_ids: TensorLike, num_segments: Any = None, out_type: DTypeLike | None = None, name: str | None = None
) -> Any:
    """`tf.ragged.segment_ids_to_row_splits`: limits of rows from the sorted row numbers of the values."""
    typed = [given.dtype for given in (segment_ids, num_segments) if isinstance(given, Tensor)]
    dtype = out_type or [*typed, tf.int64][0]
    with tf.name_scope(name, "SegmentIdsToRaggedSplits"):
        ids = gen("Cast")(tf.convert_to_tensor(segment_ids, name="segment_ids"), tf.int32)
        ids.shape.assert_has_rank(1)
        count = num_segments
        if count is not None:
            count = gen("Cast")(tf.convert_to_tensor(count, name="num_segments"), tf.int32)
            count.shape.assert_has_rank(0)
        lengths = tf.math.bincount(ids, minlength=count, maxlength=count, dtype=dtype)
        splits = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        known = None if count is None else tf.get_static_value(count)
        if known is not None:
            splits.set_shape([known + 1])
        return splits


def _count(values: Tensor | RaggedTensor, dtype: DTypeLike) -> Any:
    """Number of values, or of rows of ragged values."""
    return values.nrows(out_type=dtype) if isinstance(values, RaggedTensor) else tf.shape(values, out_type=dtype)[0]


# --- ragged tensors ---


class RaggedTensor:
    """Values, or again a ragged tensor, in rows of different lengths.  Made by its class methods."""

    def __init__(self, values: Any, partition: RowPartition) -> None:
        self.values, self._partition = values, partition

    # --- making

    @classmethod
    def _made(
        cls, values: Any, scope: str, name: str | None, validate: bool, partition: Callable[[Any], RowPartition]
    ) -> RaggedTensor:
        if not isinstance(validate, bool):
            raise TypeError(f"Argument `validate` must have type bool. Received {validate}.")
        with tf.name_scope(name, f"RaggedFrom{scope}"):
            count = None
            if scope == "RowStarts":
                values = _tensor_of(values)
                count = _count(values, tf.int32)
            with tf.name_scope(f"RowPartitionFrom{scope}"):
                found = partition(count)
            values, dtype = _tensor_of(values), found.row_splits.dtype
            if validate:
                message = "Arguments to _from_row_partition do not form a valid RaggedTensor"
                size = _count(values, dtype)
                checks = [tf.debugging.assert_equal(tf.cast(found.row_splits[-1], dtype), size, message=message)]
                if not isinstance(values, RaggedTensor):
                    checks.append(tf.debugging.assert_rank_at_least(values, 1))
                found = found.after(checks)
            return cls(values, found)

    @classmethod
    def from_row_splits(
        cls, values: RaggedLike, row_splits: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows between successive limits."""
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError("row_splits tensor may not be empty.")
        return cls._made(values, "RowSplits", name, validate, lambda _: _of_splits(row_splits, validate))

    @classmethod
    def from_row_lengths(
        cls, values: RaggedLike, row_lengths: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows of these lengths."""
        return cls._made(values, "RowLengths", name, validate, lambda _: _of_lengths(row_lengths, validate))

    @classmethod
    def from_value_rowids(
        cls,
        values: RaggedLike,
        value_rowids: TensorLike,
        nrows: TensorLike | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Rows by the row number of each value."""
        return cls._made(values, "ValueRowIds", name, validate, lambda _: _of_rowids(value_rowids, validate, nrows))

    @classmethod
    def from_row_starts(
        cls, values: RaggedLike, row_starts: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows by their first values."""
        return cls._made(values, "RowStarts", name, validate, lambda count: _of_starts(row_starts, validate, count))

    @classmethod
    def from_row_limits(
        cls, values: RaggedLike, row_limits: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows by their ends."""
        return cls._made(values, "RowLimits", name, validate, lambda _: _of_limits(row_limits, validate))

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows of rows, by the limits of the outermost rows first."""
        with tf.name_scope(name, "RaggedFromNestedRowSplits"):
            found = flat_values
            for splits in reversed(nested_row_splits):
                found = cls.from_row_splits(found, splits, validate=validate)
            return found  # type: ignore[no-any-return]

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows of rows, by the lengths of the outermost rows first."""
        with tf.name_scope(name, "RaggedFromNestedRowlengths"):
            found = flat_values
            for lengths in reversed(nested_row_lengths):
                found = cls.from_row_lengths(found, lengths, validate=validate)
            return found  # type: ignore[no-any-return]

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Any,
        nested_nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Rows of rows, by the row number of each value, the outermost rows first. Raises ValueError."""
        counts = [None] * len(nested_value_rowids) if nested_nrows is None else nested_nrows
        if len(counts) != len(nested_value_rowids):
            raise ValueError(
                "Argument `nested_nrows` must have the same length as argument `nested_value_rowids`. "
                f"len(nested_nrows) = {len(counts)} vs. len(nested_values_rowids) = {len(nested_value_rowids)}."
            )
        with tf.name_scope(name, "RaggedFromNestedValueRowIds"):
            found = flat_values
            for rowids, count in [*zip(nested_value_rowids, counts, strict=True)][::-1]:
                found = cls.from_value_rowids(found, rowids, count, validate=validate)
            return found  # type: ignore[no-any-return]

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: TensorLike | None = None,
        padding: TensorLike | None = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: DTypeLike = dtypes.int64,
    ) -> RaggedTensor:
        """The rows of a tensor, up to `lengths`, or without `padding` at their ends."""
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        dtype = tf.as_dtype(row_splits_dtype)
        if ragged_rank != 1 or (isinstance(lengths, (list, tuple)) and lengths and not isinstance(lengths[0], (int, float))):
            raise not_there("RaggedTensor.from_tensor with ragged_rank or nested lengths", "with one ragged dimension it is")
        with tf.name_scope(name, "RaggedFromTensor"):
            tensor = tf.convert_to_tensor(tensor, name="tensor")
            if tensor.shape.rank is not None and tensor.shape.rank < 2:
                raise ValueError(
                    "The rank of a RaggedTensor must be greater than 1, i.e., a list of scalars won't have ragged dimensions. "
                    f"Received argument `tensor` with rank {tensor.shape.rank}."
                )
            sizes = tf.shape(tensor, out_type=dtype)
            columns = sizes[1]
            if padding is not None:
                lengths = _lengths_without(tensor, padding, columns, dtype)
            if lengths is not None:
                return cls._cut(tensor, lengths, columns, dtype)
            values = tf.reshape(tensor, tf.concat([[sizes[0] * sizes[1]], sizes[2:]], axis=0))
            known = tensor.shape.as_list()[:2]
            rows, wide = (sizes[axis] if size is None else tf.constant(size, dtype) for axis, size in enumerate(known))
            with tf.name_scope("RaggedFromUniformRowLength"):
                size = values.shape.as_list()[0]
                _ = (
                    _count(values, dtype) if size is None else tf.constant(size, dtype)
                )  # which TensorFlow makes, but does not read
                return cls(values, _of_uniform_length(wide, rows))

    @classmethod
    def from_sparse(cls, st_input: Any, name: str | None = None, row_splits_dtype: DTypeLike = dtypes.int64) -> RaggedTensor:
        """The rows of a sparse matrix without gaps.  Raises TypeError for other values, ValueError for another rank."""
        if not isinstance(st_input, tf.SparseTensor):
            raise TypeError(f"Argument `st_input` must be of type SparseTensor, but is of type {type(st_input).__name__}.")
        with tf.name_scope(name, "RaggedFromSparse"):
            if 2 not in (st_input.dense_shape.shape.as_list()[0], st_input.indices.shape.as_list()[1]):
                raise ValueError("rank(st_input) must be 2.")
            with tf.control_dependencies([_check_no_gaps(st_input.indices)]):
                rows = tf.cast(st_input.indices[:, 0], row_splits_dtype)
                count = tf.cast(st_input.dense_shape[0], row_splits_dtype)
                return cls.from_value_rowids(st_input.values, rows, count, validate=False)

    @classmethod
    def _cut(cls, tensor: Tensor, lengths: TensorLike, columns: Tensor, dtype: DTypeLike) -> RaggedTensor:
        lengths = gen("Cast")(tf.convert_to_tensor(lengths, preferred_dtype=dtype, name="lengths"), dtype)
        lengths = tf.maximum(tf.minimum(lengths, columns), 0)
        limits = tf.cumsum(lengths)
        splits = tf.concat([tf.zeros([1], dtype), limits], axis=0)
        values = tf.boolean_mask(tensor, tf.sequence_mask(lengths, maxlen=columns))
        return cls.from_row_splits(values, splits, validate=False)

    # --- parts

    row_splits = property(lambda self: self._partition.row_splits)
    dtype = property(lambda self: self.values.dtype)
    ragged_rank = property(lambda self: len(self.nested_row_splits))

    @property
    def nested_partitions(self) -> list[RowPartition]:
        """The partitions of the ragged dimensions, the outermost first."""
        return [level._partition for level in self._levels()]

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        return tuple(partition.row_splits for partition in self.nested_partitions)

    @property
    def flat_values(self) -> Any:
        return self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values

    @property
    def shape(self) -> Any:
        splits = self.row_splits.shape.as_list()[0]
        rows = TensorShape([None if splits is None else splits - 1, self._partition.uniform_length])
        return rows.concatenate(self.values.shape[1:])

    get_shape = property(lambda self: lambda: self.shape)

    def consumers(self) -> list[Any]:
        """Operations that read a part."""
        return [one for part in (self.flat_values, *self.nested_row_splits) for one in part.consumers()]

    def with_values(self, new_values: RaggedLike) -> RaggedTensor:
        """Other values in the same rows."""
        return RaggedTensor(_tensor_of(new_values), self._partition)

    def with_flat_values(self, new_values: RaggedLike) -> RaggedTensor:
        """Other innermost values in the same rows."""
        inner = self.values.with_flat_values(new_values) if isinstance(self.values, RaggedTensor) else new_values
        return self.with_values(inner)

    def with_row_splits_dtype(self, dtype: DTypeLike) -> RaggedTensor:
        """The tensor with limits of rows of another type.  Raises ValueError for another type than int32 and int64."""
        dtype = tf.as_dtype(dtype)
        if dtype not in (tf.int32, tf.int64):
            raise ValueError(f"Argument `row_splits` dtype must be int32 or int64. Received {dtype}.")
        if self.row_splits.dtype == dtype:
            return self
        values = self.values.with_row_splits_dtype(dtype) if isinstance(self.values, RaggedTensor) else self.values
        return RaggedTensor(values, self._partition.with_dtype(dtype))

    def _levels(self) -> list[RaggedTensor]:
        """The tensor, its values, and so on, as far as they are ragged."""
        return [self, *(self.values._levels() if isinstance(self.values, RaggedTensor) else [])]

    def nested_row_lengths(self, name: str | None = None) -> tuple[Any, ...]:
        """Lengths of the rows in each ragged dimension, the outermost first."""
        with tf.name_scope(name, "RaggedNestedRowLengths"):
            return tuple(level.row_lengths() for level in self._levels())

    def nested_value_rowids(self, name: str | None = None) -> tuple[Any, ...]:
        """The row number of each value, in each ragged dimension, the outermost first."""
        with tf.name_scope(name, "RaggedNestedValueRowIds"):
            return tuple(level.value_rowids() for level in self._levels())

    def value_rowids(self, name: str | None = None) -> Any:
        """The row number of each value."""
        with tf.name_scope(name, "RaggedValueRowIds"):
            return self._partition.value_rowids()

    def nrows(self, out_type: DTypeLike | None = None, name: str | None = None) -> Any:
        """Number of rows."""
        with tf.name_scope(name, "RaggedNRows"):
            found = self._partition.nrows()
            return found if out_type is None else tf.cast(found, out_type)

    def row_starts(self, name: str | None = None) -> Any:
        """Positions of the rows' first values."""
        with tf.name_scope(name, "RaggedRowStarts"):
            return self.row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Any:
        """Positions after the rows' last values."""
        with tf.name_scope(name, "RaggedRowLimits"):
            return self.row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Lengths of the rows in dimension `axis`."""
        if axis in (0, 1):
            return self._partition.row_lengths() if axis else self._partition.nrows()
        if not isinstance(self.values, RaggedTensor):
            raise not_there("RaggedTensor.row_lengths of a dimension that is not ragged", "of ragged ones it is")
        with tf.name_scope(name, "RaggedRowLengths"):
            return self.with_values(self.values.row_lengths(axis - 1))

    def bounding_shape(self, axis: TensorLike | None = None, name: str | None = None, out_type: DTypeLike | None = None) -> Any:
        """The smallest shape that has room for all rows."""
        dtype = self.row_splits.dtype if out_type is None else tf.as_dtype(out_type)
        with tf.name_scope(name, "RaggedBoundingBox"):
            splits = self.nested_row_splits
            if axis == 0:
                return tf.shape(splits[0], out_type=dtype)[0] - 1
            if axis == 1:
                found = tf.maximum(tf.reduce_max(self.row_lengths()), 0)
                return found if dtype == self.row_splits.dtype else tf.cast(found, dtype)
            rows, sizes = tf.shape(self.row_splits, out_type=dtype), tf.shape(self.flat_values, out_type=dtype)
            dims = [rows[0] - 1, *(tf.maximum(tf.reduce_max(one[1:] - one[:-1]), 0) for one in splits)]
            inner = sizes[1:]
            if dtype != self.row_splits.dtype:
                dims = [tf.cast(dim, dtype) for dim in dims]
            box = tf.concat([tf.stack(dims), inner], axis=0)
            return box if axis is None else tf.gather(box, axis)

    # --- conversions

    def to_tensor(
        self, default_value: TensorLike | None = None, name: str | None = None, shape: ShapeLike | None = None
    ) -> Any:
        """A tensor whose rows are filled up with `default_value`."""
        with tf.name_scope(name, "RaggedToTensor"):
            if default_value is not None:
                default_value = tf.convert_to_tensor(default_value, self.dtype, "default_value")
            pairs = self._partition_pairs()
            if default_value is None:
                default_value = tf.zeros((), self.dtype)
            wanted = TensorShape(shape)
            sizes = -1 if wanted.rank is None else [-1 if size is None else size for size in wanted.as_list()]
            found = gen("RaggedTensorToTensor")(
                shape=tf.constant(sizes, dtype=pairs[0][1].dtype),
                values=self.flat_values,
                default_value=default_value,
                row_partition_types=[kind for kind, _ in pairs],
                row_partition_tensors=[tensor for _, tensor in pairs],
            )
            own = self.shape
            if own.rank is not None:
                given = [None] * own.rank if wanted.rank is None else wanted.as_list()
                found.set_shape([size or known for size, known in zip(given, own.as_list(), strict=True)])
            return found

    def _partition_pairs(self) -> list[tuple[str, Any]]:
        outer, *inner = self.nested_partitions
        first = [("ROW_SPLITS", outer.row_splits)]
        if outer.rowids is not None:
            first = [("FIRST_DIM_SIZE", outer.nrows()), ("VALUE_ROWIDS", outer.rowids)]
        rest = [("ROW_SPLITS", one.row_splits) if one.rowids is None else ("VALUE_ROWIDS", one.rowids) for one in inner]
        return first + rest

    def to_sparse(self, name: str | None = None) -> Any:
        """A sparse tensor with all values."""
        with tf.name_scope(name, "RaggedToSparse"):
            return tf.SparseTensor(*gen("RaggedTensorToSparse")(self.nested_row_splits, self.flat_values, name=name))

    def to_list(self) -> list[Any]:
        """Raise ValueError, as TensorFlow does in a graph; a fetched value has this method."""
        raise ValueError("to_list can only be used in eager mode.")

    def __bool__(self) -> bool:
        raise TypeError("RaggedTensor may not be used as a boolean.")

    def __repr__(self) -> str:
        values = self.values if isinstance(self.values, RaggedTensor) else str(self.values)
        return f"tf.RaggedTensor(values={values}, row_splits={self.row_splits!s})"

    __str__ = __repr__


def _tensor_of(values: RaggedLike) -> Any:
    return values if isinstance(values, RaggedTensor) else tf.convert_to_tensor(values, name="values")


def _check_no_gaps(indices: Tensor) -> Any:
    """Op that fails if a row does not begin at 0, or has gaps."""
    rows, places = indices[:, :-1], indices[:, -1]
    begins = tf.reduce_any(tf.not_equal(rows[1:], rows[:-1]), axis=1)
    goes_on = tf.equal(places[1:], 0), tf.equal(places[1:], places[:-1] + 1)
    is_right = tf.where(begins, *goes_on)
    is_right = tf.logical_and(tf.reduce_all(tf.equal(places[:1], 0)), tf.reduce_all(is_right))
    return tf.Assert(is_right, ["SparseTensor is not right-ragged", "SparseTensor.indices =", indices])


def _lengths_without(tensor: Tensor, padding: TensorLike, columns: Tensor, dtype: DTypeLike) -> Any:
    """Lengths of rows up to their last value other than `padding`."""
    padding = tf.convert_to_tensor(padding, tensor.dtype, "padding")
    is_padding = tf.equal(padding, tensor)
    rank = tf.rank(tensor)
    axes = tf.range(2, rank)
    is_padding = tf.cond(rank > 2, lambda: tf.reduce_all(is_padding, axis=axes), lambda: is_padding)
    is_padding.set_shape(tensor.shape[:2])
    is_kept = tf.cast(tf.logical_not(is_padding), dtype)
    return tf.reduce_max(is_kept * tf.expand_dims(tf.range(1, columns + 1), 0), axis=1)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RaggedTensorValue:
    """A fetched ragged tensor: `values` is an array or again such a value."""

    values: RaggedTensorValue | np.ndarray[Any, Any]
    row_splits: np.ndarray[Any, Any]

    def __iter__(self) -> Iterator[Any]:
        """The arrays of the tensor's parts, in the order in which a session feeds them."""
        return iter((self.flat_values, *self.nested_row_splits))

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def flat_values(self) -> Any:
        return self.values.flat_values if isinstance(self.values, RaggedTensorValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensorValue) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (len(self.row_splits) - 1, None, *self.values.shape[1:])

    def to_list(self) -> list[Any]:
        """The rows as lists."""
        values = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        return [values[start:stop] for start, stop in zip(self.row_splits[:-1], self.row_splits[1:], strict=True)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"


def value_of_parts(parts: Sequence[Any]) -> RaggedTensorValue:
    """The value of a ragged tensor from its fetched parts: the innermost values, and all row splits."""
    flat, *splits = parts
    for one in reversed(splits):
        flat = RaggedTensorValue(flat, one)
    return flat  # type: ignore[no-any-return]
