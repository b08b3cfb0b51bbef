"""Sums and maxima of sparse tensors along axes, with a dense or a sparse result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor, per_element
from placesim.ops.kernels.memory_rules import KernelMemory, item_size
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, infer_by
from placesim.ops.kernels.sparse.tensors import group_starts, make_sparse_tensor, row_order

_Reduce = Callable[..., Any]
"""A ufunc's `reduceat`."""


class _GroupReduction(NamedTuple):
    """Kept coordinates and value of each group, the kept axes, and the result's shape."""

    rows: Tensor
    values: Tensor
    kept: list[int]
    shape: tuple[int, ...]


def _reduce_groups(reduceat: _Reduce, inputs: Sequence[Tensor], attrs: Attrs) -> _GroupReduction:
    indices, values, dims, axes = inputs
    _check_axes(dims, axes)
    tensor = make_sparse_tensor(indices, values, dims)
    rank = len(tensor.shape)
    reduced = {axis % rank for axis in axes.reshape(-1).tolist()}
    kept = [axis for axis in range(rank) if axis not in reduced]
    # sorted by the kept axes first, so that a group's entries are contiguous
    order = row_order(indices, [*kept, *sorted(reduced)])
    rows = indices[order][:, kept]
    starts = group_starts(rows)
    found = reduceat(values[order], starts, dtype=values.dtype) if len(starts) else values[:0]
    if attrs["keep_dims"]:
        shape = tuple(1 if axis in reduced else dim for axis, dim in enumerate(tensor.shape))
    else:
        shape = tuple(tensor.shape[axis] for axis in kept)
    return _GroupReduction(rows[starts], found, kept, shape)


def _check_axes(dims: Tensor, axes: Tensor) -> None:
    if dims.ndim != 1:
        raise InvalidArgumentError(f"Expected input_shape to be a vector; got shape: {format_dims(dims.shape)}")
    if axes.ndim > 1:
        raise InvalidArgumentError(
            f"Expected reduction_axes to be a scalar or a vector; got shape: {format_dims(np.shape(axes))}"
        )
    for axis in axes.reshape(-1).tolist():
        if not -len(dims) <= axis < len(dims):
            raise InvalidArgumentError(f"Invalid reduction dimension {axis}, for input with {len(dims)} dimensions.")


def _build_reduce_to_dense(reduceat: _Reduce) -> Compute:
    """Return a kernel with a dense result; its inputs are indices, values, shape and axes."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        found = _reduce_groups(reduceat, inputs, attrs)
        # as in TensorFlow, only a flat position outside the result is refused
        dims = [int(inputs[2][axis]) for axis in found.kept]
        output = np.zeros(dims, found.values.dtype)
        strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
        places = found.rows @ np.array(strides, np.int64) if dims else np.zeros(len(found.values), np.int64)
        _check_places(places, output.size)
        output.reshape(-1)[places] = found.values
        return (output.reshape(found.shape),)

    return compute


def _check_places(places: Tensor, size: int) -> None:
    """Raise InternalError if a group's position is outside the result."""
    outside = (places < 0) | (places >= size)
    if outside.any():
        place = places[np.argmax(outside)]
        raise InternalError(f"Obtained a write index of {place} which is outside of bounds of [0, {size})")


def _build_reduce_to_sparse(reduceat: _Reduce) -> Compute:
    """As `_build_reduce_to_dense`, with a sparse result: indices, values and shape."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        found = _reduce_groups(reduceat, inputs, attrs)
        rows = np.zeros((len(found.values), len(found.shape)), np.int64)
        rows[:, found.kept if attrs["keep_dims"] else slice(None)] = found.rows
        return rows, found.values, np.array(found.shape, np.int64)

    return compute


def _infer_dense(context: ShapeContext) -> Sequence[Dims]:
    dims, axes = context.value(2), context.value(3)
    if dims is None or axes is None:
        return (None,)
    if not dims.size:
        raise ShapeError("Number of dims in shape tensor must not be 0")
    # as in C, a remainder has the sign of a negative axis, which then reduces nothing
    reduced = {int(math.fmod(int(axis) + dims.size, dims.size)) for axis in axes.reshape(-1)}
    sizes = [(int(dim), axis in reduced) for axis, dim in enumerate(dims.reshape(-1))]
    if context.attrs["keep_dims"]:
        return (tuple(1 if is_reduced else dim for dim, is_reduced in sizes),)
    return (tuple(dim for dim, is_reduced in sizes if not is_reduced),)


def reduce_memory(memory: KernelMemory) -> None:
    """A temporary scalar has each group's result; a sparse result's shape is allocated last."""
    for output in range(min(2, len(memory.outputs))):
        memory.allocate(output)
    memory.temporary(item_size(memory.inputs[1].dtype), (), memory.inputs[1].dtype)


def _dense_row(reduceat: _Reduce) -> Kernel:
    return Kernel(_build_reduce_to_dense(reduceat), _infer_dense, per_element(1), memory=reduce_memory)


def _sparse_row(reduceat: _Reduce) -> Kernel:
    return Kernel(_build_reduce_to_sparse(reduceat), infer_by("-> *, *, *"), per_element(1), memory=reduce_memory)


TABLE: Table = {
    "SparseReduceMax": _dense_row(np.maximum.reduceat),
    "SparseReduceMaxSparse": _sparse_row(np.maximum.reduceat),
    "SparseReduceSum": _dense_row(np.add.reduceat),
    "SparseReduceSumSparse": _sparse_row(np.add.reduceat),
}
