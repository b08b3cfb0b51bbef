"""Counts of values: Bincount and DenseBincount, histograms with equal bins, and the bucket of each value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements, per_element
from placesim.ops.kernels.memory_rules import INTRA_OP_THREADS, KernelMemory, TensorMemory
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    unchanged,
    with_rank,
    with_rank_at_most,
    with_value,
)
from placesim.ops.process.memory_limit import check_array


def count_bins(values: Tensor, weights: Tensor, size: int, dtype: np.dtype[Any], binary: bool = False) -> Tensor:
    """Count each value below `size` in each row of `[..., n]`, or add up its weights; return `[..., size]`.

    `weights` have the values' shape, or are empty. With `binary`, a bin is 1 if its value occurs.
    """
    rows = values.reshape(elements(values.shape[:-1]), values.shape[-1])
    check_array((*values.shape[:-1], size), dtype)
    bins = np.zeros((len(rows), size), wide_dtype(dtype))
    row, column = np.nonzero(rows < size)
    target = (row, rows[row, column])
    if binary:
        bins[target] = 1
    else:
        np.add.at(
            bins, target, weights.reshape(rows.shape)[row, column].astype(bins.dtype) if weights.size else bins.dtype.type(1)
        )
    return bins.astype(dtype).reshape(*values.shape[:-1], size)


def bin_count(size: Tensor) -> int:
    """Return the number of bins that a tensor gives. Raises InvalidArgumentError unless it is a scalar of at least 0."""
    if np.ndim(size):
        raise InvalidArgumentError(f"Shape must be rank 0 but is rank {np.ndim(size)}")
    if size < 0:
        raise InvalidArgumentError(f"size ({int(size)}) must be non-negative")
    return int(size)


def _bincount(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Count the values of `arr`, of any shape, in `[size]`. Raises InvalidArgumentError for inputs that do not fit."""
    values, size, weights = inputs[0].reshape(-1), bin_count(inputs[1]), inputs[2]
    if np.any(values < 0):
        raise InvalidArgumentError("Input arr must be non-negative!")
    if weights.size and weights.size != values.size:
        raise InvalidArgumentError("Input indices and weights must have the same size.")
    return (count_bins(values, weights, size, weights.dtype),)


def _dense_bincount(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Count the values of `[n]` or `[rows, n]` in `[size]` or `[rows, size]`. Raises InvalidArgumentError for bad inputs."""
    values, weights = inputs[0], inputs[2]
    if values.ndim > 2:
        raise InvalidArgumentError(f"Shape must be at most rank 2 but is rank {values.ndim}")
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, "
            f"in which case it acts as all weights equal to 1. Received {format_dims(weights.shape)}"
        )
    size = bin_count(inputs[1])
    negative = values[values < 0]
    if negative.size:
        raise InvalidArgumentError(
            # TensorFlow has a kernel for each rank, with different messages
            f"Input 'in' must be non-negative! Negative input value found: {negative[-1]}"
            if values.ndim == 2
            else "Input arr must be non-negative!"
        )
    return (count_bins(values.reshape(values.shape or (1,)), weights, size, weights.dtype, attrs["binary_output"]),)


# --- bins of equal width --------------------------------------------------------------------------------------------


def _histogram(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Count values of any shape in `[nbins]` equal bins between two bounds; the outermost bins include values beyond them."""
    values, bounds, count = inputs
    if bounds.ndim != 1:
        raise InvalidArgumentError("value_range should be a vector.")
    if bounds.size != 2:
        raise InvalidArgumentError("value_range should be a vector of 2 elements.")
    if count.ndim:
        raise InvalidArgumentError("nbins should be a scalar.")
    low, high = bounds
    if not low < high:
        shown = ", ".join(f"{float(bound):g}" if bounds.dtype.kind in "fV" else str(bound) for bound in bounds)
        raise InvalidArgumentError(f"value_range should satisfy value_range[0] < value_range[1], but got '[{shown}]'")
    if count <= 0:
        raise InvalidArgumentError(f"nbins should be a positive number, but got '{int(count)}'")
    if values.dtype.kind in "fV" and np.any(np.isnan(values)):
        raise InvalidArgumentError("Histogram values must not contain NaN")
    step = float(high - low) / int(count)
    place = (np.maximum(values, low) - low).astype(np.float64).reshape(-1) / step
    bins = np.bincount(np.minimum(place, int(count) - 1).astype(np.int32), minlength=int(count))
    return (bins.astype(attrs["dtype"].numpy),)


# --- buckets --------------------------------------------------------------------------------------------------------


def _bucketize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return the number of boundaries not above each value. Raises InvalidArgumentError for unsorted boundaries."""
    boundaries = np.array(attrs["boundaries"], np.float32)
    if np.any(boundaries[1:] < boundaries[:-1]):
        raise InvalidArgumentError("Expected sorted boundaries")
    # as C++, which compares an integer with a float as floats
    values = inputs[0].astype(np.float32) if inputs[0].dtype.kind == "i" else inputs[0]
    return (np.asarray(np.searchsorted(boundaries, values, "right")).astype(np.int32),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _size_value(context: ShapeContext) -> int:
    with_rank(context.shapes[1], 0)
    size = context.scalar_value(1)
    if size is not None and size < 0:
        raise ShapeError(f"size ({size}) must be non-negative")
    return -1 if size is None else size


def _infer_bincount(context: ShapeContext) -> Sequence[Dims]:
    return ((_size_value(context),),)


def _infer_dense_bincount(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_most(context.shapes[0], 2)
    size = _size_value(context)
    if dims is None:
        return (None,)
    if size < 0:
        return ((-1,) * len(dims),)
    return ((*dims[:-1], size),)


def _infer_histogram(context: ShapeContext) -> Sequence[Dims]:
    with_value(with_rank(context.shapes[1], 1)[0], 2)
    with_rank(context.shapes[2], 0)
    count = context.scalar_value(2)
    if count is not None and count <= 0:
        raise ShapeError(f"Requires nbins > 0: {count}")
    return ((-1 if count is None else count,),)


# --- memory ---------------------------------------------------------------------------------------------------------


def bincount_memory(memory: KernelMemory, is_binary: bool = False) -> None:
    """Temporaries: a flag for "all values are valid", and bins for each thread and for the caller (bytes if binary)."""
    memory.allocate()
    bins = memory.outputs[0]
    memory.temporary(1)
    memory.temporary((INTRA_OP_THREADS + 1) * (bins.elements if is_binary else bins.size))


def dense_bincount_memory(memory: KernelMemory) -> None:
    """Only a vector's count needs temporary bins."""
    if len(memory.inputs[0].dims) <= 1:
        bincount_memory(memory, memory.attrs["binary_output"])


def histogram_memory(memory: KernelMemory) -> None:
    """A temporary has the bin of each value as int32; it overwrites the values if they are int32."""
    memory.allocate()
    values = memory.inputs[0]
    bins = TensorMemory(values.dims, INT32, on_host=values.on_host)
    if memory.find_reusable(bins, 0) is None:
        memory.temporary_like(bins)


TABLE: Table = {
    "Bincount": Kernel(_bincount, _infer_bincount, per_element(0), memory=bincount_memory),
    "DenseBincount": Kernel(_dense_bincount, _infer_dense_bincount, per_element(0), memory=dense_bincount_memory),
    "HistogramFixedWidth": Kernel(_histogram, _infer_histogram, per_element(0), memory=histogram_memory),
    "Bucketize": Kernel(_bucketize, unchanged),
}
