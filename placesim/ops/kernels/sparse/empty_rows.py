"""Empty rows of sparse and ragged tensors filled with a default value, and the gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import BOOL
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, as_many_as
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, infer_by, merge_dim, with_rank
from placesim.ops.kernels.sparse.tensors import check_rank
from placesim.ops.process.memory_limit import check_array


def fill_empty_rows(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return a sparse tensor's indices and values with the default value in each empty row, sorted by row.

    It also returns which rows were empty, `[rows]`, and the new position of each entry, `[entries]`. Raises
    InvalidArgumentError if the parts do not fit, or for a row out of range.
    """
    indices, values, dims, default = inputs
    check_rank(dims, 1, "dense_shape must be a vector, saw: ")
    check_rank(indices, 2, "indices must be a matrix, saw: ")
    _check_lengths("indices", indices, values)
    if len(dims) != indices.shape[1]:
        raise InvalidArgumentError(
            f"The length of `dense_shape` ({len(dims)}) must match the second dimension of `indices` ({indices.shape[1]})."
        )
    _check_default(default)
    if len(dims) == 0:
        raise InvalidArgumentError("Dense shape cannot be empty.")
    return place_rows(indices, values, int(dims[0]), default)


def fill_empty_ragged_rows(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """As `fill_empty_rows`, for a ragged tensor with row ids `[entries]` and `nrows` rows. Raises the same errors."""
    row_ids, values, row_count, default = inputs
    check_rank(row_count, 0, "nrows must be a scalar, saw: ")
    check_rank(row_ids, 1, "value_rowids must be a vector, saw: ")
    _check_lengths("value_rowids", row_ids, values)
    _check_default(default)
    output, values, empty, moved = place_rows(row_ids[:, None], values, int(row_count), default)
    return output[:, 0], values, empty, moved


def _check_lengths(noun: str, indices: Tensor, values: Tensor) -> None:
    check_rank(values, 1, "values must be a vector, saw: ")
    if len(indices) != len(values):
        raise InvalidArgumentError(
            f"The length of `values` ({len(values)}) must match the first dimension of `{noun}` ({len(indices)})."
        )


def _check_default(default: Tensor) -> None:
    check_rank(default, 0, "default_value must be a scalar, saw: ")


def place_rows(indices: Tensor, values: Tensor, row_count: int, default: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return coordinates `[filled, rank]` and values of all rows, whether rows were empty, and each entry's new position.

    Raises InvalidArgumentError for a negative number of rows, and for a row out of range.
    """
    rows = indices[:, 0]
    if row_count < 0:
        raise InvalidArgumentError(f"Expected shape dimensions to be non-negative, got {row_count}")
    if row_count <= 0 and len(rows):
        raise InvalidArgumentError(f"Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {len(rows)}")
    outside = (rows < 0) | (rows >= row_count)
    if outside.any():
        entry = int(np.argmax(outside))
        # TensorFlow has this text for a negative row too
        raise InvalidArgumentError(f"indices({entry}, 0) is invalid: {rows[entry]} >= {row_count}")
    check_array((row_count, indices.shape[1]), indices.dtype)
    counts = np.bincount(rows, minlength=row_count)
    lengths = np.maximum(counts, 1)
    starts = np.cumsum(lengths) - lengths
    # entries of one row keep their order
    order = np.argsort(rows, kind="stable")
    before = np.cumsum(counts) - counts
    moved = np.empty(len(rows), np.int64)
    moved[order] = starts[rows[order]] + np.arange(len(rows)) - before[rows[order]]
    output = np.zeros((int(lengths.sum()), indices.shape[1]), np.int64)
    filled = np.full(len(output), default, values.dtype)
    output[starts, 0] = np.arange(row_count)
    output[moved], filled[moved] = indices, values
    return output, filled, counts == 0, moved


def fill_empty_rows_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return two gradients: of each entry, `[entries]`, and of the default value, which is the sum over the filled rows.

    Input 0 has each entry's new position. Raises InvalidArgumentError for inputs of other ranks, and an invalid position.
    """
    moved, gradient = inputs
    check_rank(moved, 1, "reverse_index_map must be a vector, saw: ")
    check_rank(gradient, 1, "grad_values must be a vector, saw: ")
    outside = (moved < 0) | (moved >= len(gradient))
    if outside.any():
        raise InvalidArgumentError(
            f"Elements in reverse index must be in [0, {len(gradient)}) but got {moved[np.argmax(outside)]}"
        )
    is_default = np.ones(len(gradient), bool)
    is_default[moved] = False
    return gradient[moved], np.sum(gradient[is_default], dtype=gradient.dtype)


def _infer_fill_empty_rows(context: ShapeContext) -> Sequence[Dims]:
    indices, values = with_rank(context.shapes[0], 2), with_rank(context.shapes[1], 1)
    shape = with_rank(context.shapes[2], 1)
    with_rank(context.shapes[3], 0)
    entries = merge_dim(indices[0], values[0])
    merge_dim(indices[1], shape[0])
    if shape[0] == 0:
        raise ShapeError("dense_shape must not be empty")
    dims = context.shape_value(2)
    return (-1, shape[0]), (-1,), (dims[0] if dims else -1,), (entries,)


def fill_empty_rows_memory(memory: KernelMemory) -> None:
    """The empty rows and the entries' positions are allocated first, if anything reads them.

    Indices and values are passed on if rows are in order and none is empty.
    """
    for output in (2, 3):
        if memory.is_read(output):
            memory.allocate(output)
        else:
            memory.leave_out(output)
    is_same_size = memory.outputs[2].elements > 0 and memory.outputs[0].dims == memory.inputs[0].dims
    if is_same_size and _is_ascending(memory.value(0)):
        memory.alias(0, 0)
        memory.alias(1, 1)
    else:
        memory.allocate(0)
        memory.allocate(1)


def _is_ascending(indices: Tensor) -> bool:
    rows = indices if indices.ndim == 1 else indices[:, 0]
    return bool((rows[1:] >= rows[:-1]).all())


def fill_empty_rows_gradient_memory(memory: KernelMemory) -> None:
    """A temporary marks entries whose gradient has been passed on, a byte each."""
    memory.allocate(0)
    memory.allocate(1)
    memory.temporary_like(memory.inputs[1], BOOL)


_GRADIENT = Kernel(fill_empty_rows_gradient, infer_by("[n], [?] -> [n], []"), memory=fill_empty_rows_gradient_memory)


TABLE: Table = {
    "RaggedFillEmptyRows": Kernel(
        fill_empty_ragged_rows, infer_by("[n], [n], [], [] -> [?], [?], [?], [n]"), memory=fill_empty_rows_memory
    ),
    "RaggedFillEmptyRowsGrad": _GRADIENT,
    "SparseFillEmptyRows": Kernel(fill_empty_rows, _infer_fill_empty_rows, memory=fill_empty_rows_memory, guess=as_many_as(1)),
    "SparseFillEmptyRowsGrad": _GRADIENT,
}
