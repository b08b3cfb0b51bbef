"""Counts of each value in each row of a dense, sparse or ragged tensor, as a sparse tensor or as bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, per_element
from placesim.ops.kernels.math.histograms import bin_count, bincount_memory
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    element_count,
    format_dims,
    merge,
    rank_of,
    unknown_shape,
    with_rank,
)
from placesim.ops.kernels.sparse.tensors import check_parts, check_rank, group_starts, row_order
from placesim.ops.process.memory_limit import check_room

MAX_BATCHES = 2**31 - 1


# --- sparse counts --------------------------------------------------------------------------------------------------


def count_dense(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Count the values of a vector `[n]`, or of each row of `[rows, n]`; return a sparse tensor.

    Raises InvalidArgumentError for another rank, no rows, negative values, or weights of another shape that are not empty.
    """
    data, weights = inputs
    if data.ndim not in (1, 2):
        raise InvalidArgumentError(f"Input must be a 1 or 2-dimensional tensor. Got: {format_dims(data.shape)}")
    _check_values(data)
    _check_weights(weights, data, "data", "data")
    if data.ndim != 1 and len(data) == 0:
        raise InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.")
    batches = len(data) if data.ndim == 2 else None
    rows = np.repeat(np.arange(batches or 1), data.size // (batches or 1))
    return _count_values(rows, data.reshape(-1), weights.reshape(-1), batches, attrs)


def count_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Count a sparse tensor's values; return a sparse tensor. With a rank above 1, the first coordinate is the row.

    Raises InvalidArgumentError for parts or weights that do not fit, negative values, and too many rows.
    """
    indices, values, dims, weights = inputs
    check_rank(indices, 2, "Input indices must be a 2-dimensional tensor. Got: ")
    check_rank(values, 1, "Input values must be a vector. Got: ")
    check_rank(dims, 1, "Input shape must be a vector. Got: ")
    shape = format_dims(indices.shape)
    if len(values) != len(indices):
        raise InvalidArgumentError(
            f"Number of values must match first dimension of indices.Got {len(values)} values, indices shape: {shape}"
        )
    if len(dims) != indices.shape[1]:
        raise InvalidArgumentError(
            f"Number of dimensions must match second dimension of indices.Got {len(dims)} dimensions, indices shape: {shape}"
        )
    if len(dims) == 0:
        raise InvalidArgumentError("The shape argument requires at least one element.")
    _check_coordinates(indices, dims)
    _check_values(values)
    _check_weights(weights, values, "values", "values")
    batches = int(dims[0].astype(np.int32)) if len(dims) > 1 else None
    if batches is not None and not 0 < batches < MAX_BATCHES:
        raise InvalidArgumentError(f"Cannot allocate {batches} batches, is the dense shape too wide?")
    rows = indices[:, 0] if batches is not None else np.zeros(len(values), np.int64)
    return _count_values(rows, values, weights, batches, attrs)


def _check_coordinates(indices: Tensor, dims: Tensor) -> None:
    outside = (indices < 0) | (indices >= dims)
    if outside.any():
        row, axis = np.argwhere(outside)[0].tolist()
        raise InvalidArgumentError(
            f"Invalid index value at {row}: dimension {axis} has value {indices[row, axis]} which is not in "
            f"[0, {dims[axis]}) (as given by dense shape Tensor<type: int64 shape: [{len(dims)}] values: {_summarize(dims)}>"
        )


def _summarize(dims: Tensor) -> str:
    """Return the first three dimensions as text, for an error message."""
    return " ".join(map(str, dims[:3].tolist())) + "..." * (len(dims) > 3)


def count_ragged(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Count the values of each ragged row, `splits [rows + 1]` and `values [n]`; return a sparse tensor.

    Raises InvalidArgumentError for weights of another shape, splits that do not fit the values, and negative values.
    """
    splits, values, weights = inputs
    _check_weights(weights, values, "values", "values")
    if splits.size < 2:
        raise InvalidArgumentError("Must provide at least 2 elements for the splits argument")
    rows = _ragged_rows(splits.reshape(-1), values)
    _check_values(values)
    return _count_values(rows, values.reshape(-1), weights.reshape(-1), splits.size - 1, attrs)


def _check_values(values: Tensor) -> None:
    if np.any(values < 0):
        raise InvalidArgumentError("Input values must all be non-negative")


def _check_weights(weights: Tensor, values: Tensor, noun: str, label: str) -> None:
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            f"Weights and {noun} must have the same shape. Weight shape: {format_dims(weights.shape)}; "
            f"{label} shape: {format_dims(values.shape)}"
        )


def _ragged_rows(splits: Tensor, values: Tensor) -> Tensor:
    """Return the number of the ragged row of each value; a split below an earlier split counts as the largest earlier split."""
    if splits[0] != 0:
        raise InvalidArgumentError(f"Splits must start with 0, not with {splits[0]}")
    if splits[-1] != values.size:
        raise InvalidArgumentError(f"Splits must end with the number of values, got {splits[-1]} instead of {values.size}")
    return np.searchsorted(np.maximum.accumulate(splits), np.arange(values.size), side="right") - 1


def _count_values(rows: Tensor, values: Tensor, weights: Tensor, batches: int | None, attrs: Attrs) -> Sequence[Tensor]:
    """Return the distinct values of each row, ascending, with their counts or total weights; a vector is one row."""
    dtype, longest = attrs["output_type"].numpy, attrs["maxlength"]
    counted = values < longest if longest >= 0 else np.ones(values.shape, bool)
    # a sparse tensor's coordinates are sorted by row, then by value
    pairs = np.stack((rows, values), axis=1).astype(np.int64)[counted]
    order = row_order(pairs)
    starts = group_starts(pairs[order])
    found = pairs[order[starts]]
    if attrs["binary_output"] or not len(starts):
        counts = np.ones(len(starts), dtype)
    elif weights.size:
        counts = np.add.reduceat(weights[counted][order], starts, dtype=dtype)
    else:
        counts = np.diff(np.append(starts, len(pairs))).astype(dtype)
    seen = int(pairs[:, 1].max(initial=0))
    size = longest if longest >= 0 else max(seen + 1, attrs["minlength"])
    if batches is None:
        return found[:, 1:], counts, np.array([size], np.int64)
    return found, counts, np.array([batches, size], np.int64)


# --- bins -----------------------------------------------------------------------------------------------------------


def bin_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Count a sparse tensor's values in `[bins]`, or `[rows, bins]`; values beyond the bins are ignored.

    Raises InvalidArgumentError for an invalid number of bins, parts that do not fit, and negative values in a vector.
    """
    indices, values, dims, size_tensor, weights = inputs
    size = bin_count(size_tensor)
    check_parts(indices, values, dims)
    if len(dims) == 1:
        if np.any(values < 0):
            # in a matrix, negative values are ignored
            raise InvalidArgumentError("Input arr must be non-negative!")
        if not attrs["binary_output"] and weights.size and weights.size != values.size:
            raise InvalidArgumentError("Input indices and weights must have the same size.")
        return (_fill_bins(np.zeros(len(values), np.int64), values, weights, 1, size, attrs)[0],)
    return (_fill_bins(indices[:, 0], values, weights, int(dims[0]), size, attrs),)


def bin_ragged(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Count the values of each ragged row in `[rows, bins]`; values beyond the bins are ignored.

    Raises InvalidArgumentError for an invalid number of bins, splits that do not fit the values, and negative values.
    """
    splits, values, size_tensor, weights = inputs
    size = bin_count(size_tensor)
    if splits.size == 0:
        raise InvalidArgumentError("Splits must be non-empty")
    rows = _ragged_rows(splits.reshape(-1), values)
    if np.any(values < 0):
        raise InvalidArgumentError("Input must be non-negative")
    return (_fill_bins(rows, values.reshape(-1), weights, splits.size - 1, size, attrs),)


def _fill_bins(rows: Tensor, values: Tensor, weights: Tensor, row_count: int, size: int, attrs: Attrs) -> Tensor:
    """Return the bins of each row, `[row_count, size]`; missing weights count as zero."""
    inside = (values >= 0) & (values < size)
    check_room((row_count, size), attrs["T"])
    bins = np.zeros((row_count, size), attrs["T"].numpy)
    where = rows[inside], values[inside]
    if attrs["binary_output"]:
        bins[where] = 1
    else:
        padded = np.append(weights, np.zeros(len(values), bins.dtype))[: len(values)]
        np.add.at(bins, where, padded[inside] if weights.size else np.ones((), bins.dtype))
    return bins


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_counts(rank: int | None) -> Sequence[Dims]:
    dim = -1 if rank is None else rank
    return (-1, dim), (-1,), (dim,)


def _infer_count_dense(context: ShapeContext) -> Sequence[Dims]:
    values, weights = context.shapes
    return _infer_counts(rank_of(values if element_count(weights) == 0 else merge(weights, values)))


def _infer_count_sparse(context: ShapeContext) -> Sequence[Dims]:
    return _infer_counts(with_rank(context.shapes[0], 2)[1])


def _infer_count_ragged(context: ShapeContext) -> Sequence[Dims]:
    rank = rank_of(context.shapes[1])
    return _infer_counts(None if rank is None else rank + 1)


def _infer_bin_sparse(context: ShapeContext) -> Sequence[Dims]:
    size = _known_size(context, 3)
    dims = context.value(2)
    if size is None or dims is None:
        return (None,)
    if dims.size not in (1, 2):
        raise ShapeError("Input must be less than rank 2")
    return ((size,) if dims.size == 1 else (int(dims.flat[0]), size),)


def _known_size(context: ShapeContext, index: int) -> int | None:
    size = context.value(index)
    if size is None:
        return None
    if size.ndim:
        raise ShapeError(f"Shape must be rank 0 but is rank {size.ndim}")
    if size < 0:
        raise ShapeError(f"size ({int(size)}) must be non-negative")
    return int(size)


# --- memory ---------------------------------------------------------------------------------------------------------


def bin_sparse_memory(memory: KernelMemory) -> None:
    """A sparse vector needs the temporaries of a dense vector's count, and sparse rows need none."""
    if memory.inputs[2].elements == 1:
        bincount_memory(memory, memory.attrs["binary_output"])


TABLE: Table = {
    "DenseCountSparseOutput": Kernel(count_dense, _infer_count_dense, per_element(0)),
    "RaggedBincount": Kernel(bin_ragged, unknown_shape, per_element(1)),
    "RaggedCountSparseOutput": Kernel(count_ragged, _infer_count_ragged, per_element(1)),
    "SparseBincount": Kernel(bin_sparse, _infer_bin_sparse, per_element(1), memory=bin_sparse_memory),
    "SparseCountSparseOutput": Kernel(count_sparse, _infer_count_sparse, per_element(1)),
}
