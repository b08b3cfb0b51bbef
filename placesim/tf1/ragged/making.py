"""Ragged tensors of lists, placeholders and ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.ragged.ragged_tensor import RaggedLike, RaggedTensor, RaggedTensorValue
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")


def constant(
    pylist: object,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = dtypes.int64,
) -> Any:
    """`tf.ragged.constant`: a ragged tensor of nested lists, or a constant of a list without lists."""

    def ragged(values: RaggedLike, splits: list[int]) -> Any:
        return RaggedTensor.from_row_splits(values, tf.constant(splits, dtype=row_splits_dtype), validate=False)

    with tf.name_scope(name, "RaggedConstant"):
        return _nested(pylist, dtype, ragged_rank, inner_shape, tf.constant, ragged)


def constant_value(
    pylist: object,
    dtype: object = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    row_splits_dtype: str = "int64",
) -> Any:
    """`tf.ragged.constant_value`: as `constant`, but as arrays."""

    def array(values: Any, dtype: Any, shape: Any, name: str | None = None) -> Any:
        return np.reshape(np.array(values, dtype), np.shape(values) if shape is None else shape)

    def ragged(values: RaggedTensorValue | np.ndarray[Any, Any], splits: list[int]) -> Any:
        return RaggedTensorValue(values, np.array(splits, tf.as_dtype(row_splits_dtype).as_numpy_dtype))

    return _nested(pylist, dtype, ragged_rank, inner_shape, array, ragged)


def _nested(pylist: Any, dtype: Any, ragged_rank: int | None, inner_shape: Any, dense: Any, ragged: Any) -> Any:
    if not _is_list(pylist):
        return dense(pylist, dtype, ())
    scalar_depth, depth = _depths(pylist)
    if scalar_depth is not None and depth > scalar_depth:
        raise ValueError(f"Invalid pylist={pylist!r}: empty list nesting is greater than scalar value nesting")
    if scalar_depth is not None and ragged_rank is not None and depth < ragged_rank:
        raise ValueError(f"Invalid pylist={pylist}, max depth smaller than ragged_rank={ragged_rank}")
    if ragged_rank == 0 or (ragged_rank is None and depth - len(inner_shape or ()) < 2):
        return dense(pylist, dtype, inner_shape)
    if inner_shape is None:
        inner_shape = () if ragged_rank is None else _inner_shape(pylist, ragged_rank)
    if ragged_rank is None:
        ragged_rank = max(1, depth - 1 if scalar_depth is None else scalar_depth - 1 - len(inner_shape))
    values, nested = pylist, []
    for _ in range(ragged_rank):
        nested.append([0, *np.cumsum([len(row) for row in values], dtype=int).tolist()])
        values = [item for row in values for item in row]
    found = dense(values, dtype=dtype, shape=(len(values), *inner_shape), name="values")
    for splits in reversed(nested):
        found = ragged(found, splits)
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or np.ndim(value) != 0


def _depths(value: Any) -> tuple[int | None, int]:
    """Depth of the scalars (None if there are none), and the greatest depth.

    Raises ValueError for scalars of different depths.
    """
    if not _is_list(value):
        return 0, 0
    found = [_depths(child) for child in value]
    scalars = {depth + 1 for depth, _ in found if depth is not None}
    if len(scalars) > 1:
        raise ValueError("all scalar values must have the same nesting depth")
    return next(iter(scalars), None), max([1, *(depth + 1 for _, depth in found)])


def _inner_shape(pylist: Iterable[Any], ragged_rank: int) -> tuple[int, ...]:
    """Shape of the values inside of the ragged dimensions.  Raises ValueError if they differ in shape."""
    values = list(pylist)
    for dim in range(ragged_rank):
        if not all(map(_is_list, values)):
            raise ValueError(
                f"pylist has scalar values depth {dim + 1}, but ragged_rank={ragged_rank} requires scalar value depth greater "
                f"than {ragged_rank}"
            )
        values = [item for row in values for item in row]
    try:
        return np.shape(values)[1:] if values else ()
    except ValueError:
        raise ValueError("inner values have inconsistent shape") from None


def placeholder(dtype: DTypeLike, ragged_rank: int, value_shape: ShapeLike | None = None, name: str | None = None) -> Any:
    """`tf.ragged.placeholder`: placeholders of the values and of the row splits."""
    if ragged_rank == 0:
        return tf.placeholder(dtype, value_shape, name)
    with tf.name_scope(name, "RaggedPlaceholder"):
        found: Tensor | RaggedTensor = tf.placeholder(
            dtype, TensorShape([None]).concatenate(TensorShape(value_shape)), "flat_values"
        )
        for dim in reversed(range(ragged_rank)):
            splits = tf.placeholder(tf.int64, [None], f"row_splits_{dim}")
            found = RaggedTensor.from_row_splits(found, splits, validate=False)
        return found


_RANGES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)
"""Types of ranges, the narrowest first."""


def ragged_range(
    starts: TensorLike,
    limits: TensorLike | None = None,
    deltas: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = dtypes.int64,
) -> Any:
    """`tf.ragged.range`: a row of numbers for each start, limit and step."""
    if limits is None:
        starts, limits = 0, starts
    with tf.name_scope(name, "RaggedRange") as scope:
        given = [("starts", starts), ("limits", limits), ("deltas", deltas)]
        tensors = [tf.convert_to_tensor(value, dtype, part) for part, value in given]
        widest = max((tensor.dtype for tensor in tensors), key=_RANGES.index)
        tensors = [tf.cast(tensor, widest) for tensor in tensors]
        splits, values = gen("RaggedRange")(*tensors, Tsplits=tf.as_dtype(row_splits_dtype), name=scope)
        return RaggedTensor.from_row_splits(values, splits, validate=False)
