"""Ragged tensors, which are values and the splits between their rows: ranges, gathering, conversion to dense or sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.indices import first_outside, position_text
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.memory_rules import KernelMemory, item_size
from placesim.ops.kernels.partial_shapes import partial_shape_of
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    concatenate,
    element_count,
    format_dims,
    merge_dim,
    rank_of,
    subshape,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
)
from placesim.ops.process.memory_limit import check_array

_PARTITIONS = ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_LENGTHS", "ROW_SPLITS", "ROW_LIMITS", "ROW_STARTS")


# --- range ----------------------------------------------------------------------------------------------------------


def make_ranges(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """RaggedRange: (starts, limits, deltas), scalars or `[rows]` -> splits `[rows + 1]`, values with one range per row.

    Raises InvalidArgumentError for inputs of other shapes, a delta of zero and a range that is too long.
    """
    for noun, tensor in zip(("starts", "limits", "deltas"), inputs, strict=True):
        if np.ndim(tensor) > 1:
            raise InvalidArgumentError(f"{noun} must be a scalar or vector")
    counts = {np.size(tensor) for tensor in inputs if np.ndim(tensor)}
    if len(counts) > 1:
        raise InvalidArgumentError("starts, limits, and deltas must have the same shape")
    rows = counts.pop() if counts else 1
    starts, limits, deltas = (np.broadcast_to(tensor, rows) for tensor in inputs)
    lengths = _range_lengths(starts, limits, deltas, np.iinfo(attrs["Tsplits"].numpy).max)
    check_array((sum(map(int, lengths)),), deltas.dtype)
    splits = np.concatenate(([0], np.cumsum(lengths)))
    # each value is the previous value plus the delta, so that rounding errors add up as in TensorFlow
    steps = np.repeat(deltas, lengths)
    filled = np.flatnonzero(lengths)
    steps[splits[filled]] = starts[filled]
    values = [np.cumsum(part, dtype=steps.dtype) for part in np.split(steps, splits[1:-1])]
    return splits.astype(attrs["Tsplits"].numpy), np.concatenate(values) if values else steps


def _range_lengths(starts: Tensor, limits: Tensor, deltas: Tensor, longest: int) -> Tensor:
    """The number of values in each row. Raises InvalidArgumentError for the first row with a zero delta or a too long range."""
    if np.issubdtype(starts.dtype, np.integer):
        distance, step = np.abs(limits.astype(object) - starts), np.abs(deltas.astype(object))  # Python ints do not overflow
        sizes = -(-distance // np.where(deltas == 0, 1, step))
    else:
        sizes = np.ceil(np.abs((limits - starts) / np.where(deltas == 0, 1, deltas)))
    empty = ((deltas > 0) & (limits < starts)) | ((deltas < 0) & (limits > starts))
    too_long = ~empty & ~(sizes <= longest).astype(bool)
    wrong = (deltas == 0) | too_long
    if wrong.any():
        if deltas[np.argmax(wrong)] == 0:
            raise InvalidArgumentError("Requires delta != 0")
        raise InvalidArgumentError(f"Requires ((limit - start) / delta) <= {longest}")
    return np.where(empty, 0, sizes).astype(np.int64)


# --- gather ---------------------------------------------------------------------------------------------------------


def gather(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """RaggedGather: (splits, values, indices of any rank) -> splits and values of the ragged tensor's rows at the indices.

    The splits are ordered from the outermost. Raises InvalidArgumentError for scalar splits or values, splits that do not fit,
    and an index out of range.
    """
    *nested, values, indices = inputs
    if nested[0].ndim == 0:
        raise InvalidArgumentError("Split tensors must not be scalars")
    flat = indices.reshape(-1).astype(np.int64)
    rows = len(nested[0]) - 1
    bad = first_outside(flat, rows)
    if bad < flat.size:
        raise InvalidArgumentError(f"indices{position_text(indices.shape, bad)} = {flat[bad]} is not in [0, {rows})")
    if values.ndim == 0:
        raise InvalidArgumentError("params.rank must be nonzero")
    nested = [level.reshape(-1) for level in nested]
    _check_gathered_splits(nested, len(values))
    outer = attrs["OUTPUT_RAGGED_RANK"]
    if outer != len(nested) + indices.ndim - 1:  # TensorFlow crashes
        raise InvalidArgumentError(
            f"Expected {outer} output splits, but the indices' rank {indices.ndim} gives {len(nested) + indices.ndim - 1}"
        )
    # the indices' dimensions become ragged dimensions with rows of equal length
    splits = [np.arange(np.prod(indices.shape[:axis]) + 1) * dim for axis, dim in enumerate(indices.shape) if axis]
    starts, limits = flat, flat + 1
    for level in nested:
        lengths = np.diff(level)[join_ranges(starts, limits)]
        splits.append(np.concatenate(([0], np.cumsum(lengths))))
        starts, limits = level[starts], level[limits]
    if not indices.ndim:  # a scalar index selects one row, and the result has no dimension of rows
        del splits[0]
    dtype = attrs["Tsplits"].numpy
    return [*(part.astype(dtype) for part in splits), values[join_ranges(starts, limits)]]


def join_ranges(starts: Tensor, limits: Tensor) -> Tensor:
    """The ranges from `starts[i]` up to `limits[i] - 1`, joined to one vector."""
    lengths = (limits - starts).astype(np.int64)
    ends = np.cumsum(lengths)
    joined: Tensor = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return joined


def _check_gathered_splits(nested: Sequence[Tensor], values: int) -> None:
    for level, splits in enumerate(nested):
        last = values if level == len(nested) - 1 else len(nested[level + 1])
        if len(splits) == 0:
            raise InvalidArgumentError("Ragged splits may not be empty")
        if splits[0] < 0:
            raise InvalidArgumentError("Ragged splits must be non-negative")
        if splits[-1] > last:
            raise InvalidArgumentError("Ragged splits must not point past values")
        if np.any(splits[1:] < splits[:-1]):
            raise InvalidArgumentError("Ragged splits must be sorted")


# --- to sparse ------------------------------------------------------------------------------------------------------


def to_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """RaggedTensorToSparse: (splits, values) -> coordinates `[elements, rank]`, flattened values, smallest shape `[rank]`.

    Raises InvalidArgumentError for splits that do not start at 0, decrease, or do not end at the length of the next splits or
    the values.
    """
    *nested, values = inputs
    nested = [splits.reshape(-1) for splits in nested]
    _check_splits(nested, values)
    inner = values.shape[1:]
    positions = np.arange(len(values))
    columns: list[Tensor] = []
    for splits in reversed(nested):
        rows = np.searchsorted(splits, positions, side="right") - 1
        columns.insert(0, positions - splits[rows])
        positions = rows
    outer = np.stack([positions, *columns], axis=1)
    count = int(np.prod(inner, dtype=np.int64))
    suffixes = np.indices(inner).reshape(len(inner), count).T
    indices = np.concatenate((np.repeat(outer, count, axis=0), np.tile(suffixes, (len(outer), 1))), axis=1)
    widths = [int(np.max(np.diff(splits), initial=0)) for splits in nested]
    shape = np.array([len(np.atleast_1d(inputs[0])) - 1, *widths, *inner], np.int64)
    return indices.astype(np.int64, copy=False), values.reshape(-1), shape


def _check_splits(nested: Sequence[Tensor], values: Tensor) -> None:
    mismatch = "Final value of ragged splits must match the length the corresponding ragged values."
    for level, splits in enumerate(nested):
        if len(splits) == 0:
            raise InvalidArgumentError("ragged splits may not be empty.")
        if splits[0] != 0:
            raise InvalidArgumentError("First value of ragged splits must be 0.")
        falling = np.flatnonzero(np.diff(splits) < 0)
        if len(falling):
            one, two = splits[falling[0]], splits[falling[0] + 1]
            raise InvalidArgumentError(f"Ragged splits should be non decreasing, but we got {one} followed by {two}")
        if level and len(splits) != nested[level - 1][-1] + 1:
            raise InvalidArgumentError(mismatch)
    if values.ndim == 0 or len(values) != nested[-1][-1]:
        raise InvalidArgumentError(mismatch)


# --- to dense -------------------------------------------------------------------------------------------------------


def to_dense(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """RaggedTensorToTensor: (shape, values, default, row partitions) -> a dense tensor.

    In the shape, -1 means the size of the longest row; elements beyond the shape are dropped. Raises InvalidArgumentError for
    partitions of unknown types or in the wrong order, partitions that do not fit each other or the values, and a shape or
    default that does not fit the values.
    """
    shape_tensor, values, default, *partitions = inputs
    types = attrs["row_partition_types"]
    problem = _partition_types_problem(types)
    if problem is not None:
        raise InvalidArgumentError(problem)
    first = _first_dimension(types[0], partitions[0])
    if types[0] == "FIRST_DIM_SIZE":
        types, partitions = types[1:], partitions[1:]
    partitions = [partition.reshape(-1) for partition in partitions]
    _check_default(default.shape, values.shape)
    dims = _combine_shapes(len(types), partial_shape_of(shape_tensor), values.shape)
    assert dims is not None  # the values' rank is known
    sizes = [first if dims[0] < 0 else dims[0], *dims[1:]]
    for axis, (kind, partition) in enumerate(zip(types, partitions, strict=True), 1):
        if sizes[axis] < 0:
            sizes[axis] = _widest_row(kind, partition)
    check_array(sizes, values.dtype)
    check_array((first,), np.dtype(np.int64))
    output = np.empty(sizes, values.dtype)
    output[...] = default
    if elements(tuple(sizes[: len(types) + 1])):
        where = _place_values(types, partitions, first, sizes)[: len(values)]
        flat = output.reshape(-1, *values.shape[1:])
        written = np.flatnonzero(where >= 0)
        places = _write_forward(where[written])
        # values beyond the end of the output are dropped
        fits = places < len(flat)
        flat[places[fits]] = values[written[fits]]
    return (output,)


def _first_dimension(kind: str, partition: Tensor) -> int:
    """The number of rows according to the first partition. Raises InvalidArgumentError if it is empty or negative."""
    if partition.size == 0:
        raise InvalidArgumentError("Invalid first partition input. Tensor requires at least one element.")
    if kind == "FIRST_DIM_SIZE":
        first = int(partition.flat[0])
        if first < 0:
            raise InvalidArgumentError(f"Dimension {first} must be >= 0")
        return first
    return len(partition) - 1 if partition.ndim else 0


def _widest_row(kind: str, partition: Tensor) -> int:
    if kind == "ROW_SPLITS":
        return max(0, int(np.max(np.diff(partition), initial=0)))
    return int(np.max(_run_positions(partition) + 1, initial=0))


def _run_positions(row_ids: Tensor) -> Tensor:
    """The position of each element within its run of equal row ids."""
    starts = np.flatnonzero(np.append(True, np.diff(row_ids) != 0)[: len(row_ids)])
    lengths = np.diff(np.append(starts, len(row_ids)))
    return np.arange(len(row_ids)) - np.repeat(starts, lengths)


def _place_values(types: Sequence[str], partitions: Sequence[Tensor], first: int, sizes: Sequence[int]) -> Tensor:
    """Position of each value in the flattened output, -1 for a dropped value."""
    strides = [elements(tuple(sizes[axis + 1 : len(types) + 1])) for axis in range(len(types) + 1)]
    rows = np.arange(first)
    where = np.where(rows < sizes[0], rows * strides[0], -1)
    for axis, (kind, partition) in enumerate(zip(types, partitions, strict=True), 1):
        parents, positions = _parents_and_positions(kind, partition, len(where))
        fits = (where[parents] >= 0) & (positions < sizes[axis])
        where = np.where(fits, where[parents] + positions * strides[axis], -1)
    return where


def _write_forward(places: Tensor) -> Tensor:
    """Positions at which TensorFlow puts values: each at its place, or directly after the previous value if that is later."""
    order = np.arange(len(places))
    forward: Tensor = np.maximum.accumulate(places - order) + order
    return forward


def _parents_and_positions(kind: str, partition: Tensor, parents: int) -> tuple[Tensor, Tensor]:
    """(the row of each element, the element's position in the row). Raises InvalidArgumentError for a wrong partition."""
    if kind == "VALUE_ROWIDS":
        bad = first_outside(partition, parents)
        if bad < partition.size:
            noun = "next_value_rowid" if bad else "current_value_rowid"
            raise InvalidArgumentError(f"Got {noun}={partition[bad]} which is not less than {parents}")
        return partition, _run_positions(partition)
    rows = len(partition) - 1
    if rows > parents:
        raise InvalidArgumentError(f"Row partition size is greater than output size: {rows} > {parents}")
    lengths = np.maximum(np.diff(partition), 0)
    check_array((sum(map(int, lengths)),), np.dtype(np.int64))
    row_of = np.repeat(np.arange(max(rows, 0)), lengths)
    if len(partition) and len(row_of) != partition[-1]:
        raise InvalidArgumentError("Invalid row split size.")
    return row_of, _run_positions(row_of)


def _check_default(default: Dims, values: Dims, error: Callable[[str], Exception] = InvalidArgumentError) -> None:
    """Raise `error` unless the default value can be broadcast to an element of the values."""
    if default is None or values is None:
        return
    shapes = (
        f"default_value.shape={format_dims(default)} and rt_input.flat_values.shape={format_dims(values)} are incompatible: "
    )
    if len(default) >= len(values):
        raise error(f"{shapes}default_value.rank = {len(default)}  must be less than rt_input.flat_values.rank = {len(values)}")
    for axis, (one, two) in enumerate(zip(default, values[1:], strict=False)):
        if one >= 0 and two >= 0 and one not in (1, two):
            where = axis - len(default)
            raise error(f"{shapes}default_value.shape[{where}] = {one} but rt_input.flat_values.shape[{where}] = {two}")


def _combine_shapes(
    ragged_rank: int, shape: Dims, values: Dims, error: Callable[[str], Exception] = InvalidArgumentError
) -> Dims:
    """Output shape from the requested shape and that of the values; -1 is unknown. Raises `error` if they do not fit."""
    if values is None:
        return shape
    rank = ragged_rank + len(values)
    dims = [-1] * rank if shape is None else list(shape)
    prefix = f"rt_input.shape and shape={'<unknown>' if shape is None else format_dims(shape)} are incompatible: "
    if len(dims) != rank:
        raise error(f"{prefix}rt_input.rank = {rank} but shape.rank = {len(dims)}")
    for axis in range(ragged_rank + 1, rank):
        size = values[axis - ragged_rank]
        if size >= 0 and dims[axis] >= 0 and dims[axis] != size:
            raise error(f"{prefix}rt_input.shape[{axis}] = {size} but shape[{axis}] = {dims[axis]}")
        dims[axis] = max(dims[axis], size)
    return tuple(dims)


def _partition_types_problem(types: Sequence[str]) -> str | None:
    """TensorFlow's error for the types of the partitions; None if they are valid."""
    for kind in types:
        if kind not in _PARTITIONS:
            return f"Unknown string for partition info type: {kind}"
    for kind in types:
        if kind not in ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"):
            return f"Unsupported partition type: {kind}"
    if not types:
        return "Partition info types should not be empty"
    if "FIRST_DIM_SIZE" in types[1:]:
        return "FIRST_DIM_SIZE must be first"
    if types[0] == "FIRST_DIM_SIZE" and types[1:2] != ("VALUE_ROWIDS",):
        return "FIRST_DIM_SIZE must be followed by VALUE_ROWIDS"
    return "VALUE_ROWIDS cannot be first" if types[0] == "VALUE_ROWIDS" else None


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_ranges(context: ShapeContext) -> Sequence[Dims]:
    shapes = [with_rank_at_most(dims, 1) for dims in context.shapes]
    rows = -1
    for dims in shapes:
        if rank_of(dims) == 1:
            rows = merge_dim(with_rank(dims, 1)[0], rows)
    if rows >= 0:
        return (rows + 1,), (-1,)
    return (2 if all(dims == () for dims in shapes) else -1,), (-1,)


def _infer_gather(context: ShapeContext) -> Sequence[Dims]:
    inner, outer = context.attrs["PARAMS_RAGGED_RANK"], context.attrs["OUTPUT_RAGGED_RANK"]
    with_rank(context.shapes[inner + 1], outer - inner + 1)
    for splits in context.shapes[:inner]:
        with_rank(splits, 1)
    values = with_rank_at_least(context.shapes[inner], 1)
    return [*[(-1,)] * outer, concatenate((-1,), subshape(values, 1))]


def _infer_to_sparse(context: ShapeContext) -> Sequence[Dims]:
    *nested, values = context.shapes
    values = with_rank_at_least(values, 1)
    for splits in nested:
        with_rank(splits, 1)
    rank = -1 if values is None else len(values) + len(nested)
    count = element_count(values)
    entries = -1 if count is None else count
    return (entries, rank), (entries,), (rank,)


def _infer_to_dense(context: ShapeContext) -> Sequence[Dims]:
    shape = context.shape_value(0)
    types = context.attrs["row_partition_types"]
    problem = _partition_types_problem(types) or _partition_shapes_problem(types, context.shapes[3:])
    if problem:
        raise ShapeError(problem)
    _check_default(context.shapes[2], context.shapes[1], ShapeError)
    ragged_rank = len(types) - (types[0] == "FIRST_DIM_SIZE")
    return (_combine_shapes(ragged_rank, shape, context.shapes[1], ShapeError),)


def _partition_shapes_problem(types: Sequence[str], shapes: Sequence[Dims]) -> str | None:
    if len(types) != len(shapes):
        return (
            f"Number of row partition tensors ({len(shapes)}) does not equal the number of row partition types({len(types)})."
        )
    for kind, dims in zip(types, shapes, strict=True):
        if kind == "FIRST_DIM_SIZE" and dims:
            return "FIRST_DIM_SIZE must be a scalar."
        if kind != "FIRST_DIM_SIZE" and dims is not None and len(dims) != 1:
            return "Row partition must be a vector."
    return None


def to_sparse_memory(memory: KernelMemory) -> None:
    """The output's values share the buffer of the values, which are the last input."""
    memory.allocate(0)
    memory.alias(1, len(memory.inputs) - 1)
    memory.allocate(2)


def to_dense_memory(memory: KernelMemory) -> None:
    """The output, and a temporary if the default must be broadcast to the shape of an element of the values."""
    memory.allocate()
    default, element = memory.inputs[2], elements(memory.inputs[1].dims[1:])
    if memory.outputs[0].elements and default.elements not in (1, element):
        memory.temporary(element * item_size(default.dtype))


TABLE: Table = {
    "RaggedGather": Kernel(gather, _infer_gather),
    "RaggedRange": Kernel(make_ranges, _infer_ranges),
    "RaggedTensorToSparse": Kernel(to_sparse, _infer_to_sparse, memory=to_sparse_memory),
    "RaggedTensorToTensor": Kernel(to_dense, _infer_to_dense, memory=to_dense_memory),
}
